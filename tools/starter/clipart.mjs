// Readers of Debian's two packages of drawings: Tux Paint's stamps (a sentence beside each) and the Open Clip
// Art Library of 2005 (titles and keywords by thousands of hands, so most of the work is to tell which are
// usable).
import {existsSync, readFileSync} from 'node:fs';
import {dirname, relative, sep} from 'node:path';

import {by_text, file_size, kMaxSvgBytes, stem, walk} from './files.mjs';
import {clean_text, hash_text, name_to_words, pick, unique_captions, usable_tags} from './words.mjs';

// "berries" -> "berry", "birds" -> "bird"; words that only look plural stay.
export function singular(word) {
  if (/(ss|us|is|as|ics|lens|series|species|clothes|glasses|movies)$/.test(word)) return word;
  return word.replace(/ies$/, 'y').replace(/(ch|sh|x|ss)es$/, '$1').replace(/s$/, '');
}

// "A bulldozer. It pushes dirt." -> ["a bulldozer. it pushes dirt", "a bulldozer", "bulldozer"]; the last is
// the bare name.
export function sentence_forms(sentence) {
  const whole = clean_text(sentence);
  const first = clean_text(sentence.split(/(?<=[.!?])\s+/)[0]);
  const bare = (text) => text.replace(/^(an?|the|some)\s+/, '').replace(/\s*\([^)]*\)$/, '');
  // "a shamrock is a symbol of ...": the picture shows what stands before the verb.
  const subject = first.split(/ (?:is|are|was|were) /)[0];
  return [...new Set([whole, first, bare(subject)])];
}

// The Tux Paint stamps, every tenth group held out: {train, held_out}. Mirrored copies are left out, and the
// same letter in several alphabets is one group, so that no held-out picture has a twin in training.
export function read_tuxpaint(folder) {
  const groups = new Map();
  for (const image of walk(folder, ['.png', '.svg'])) {
    const path = relative(folder, image).split(sep).join('/');
    const text = image.replace(/\.(png|svg)$/, '.txt');
    if (/_(mirror|flip)/.test(path) || !existsSync(text)) continue;
    if (image.endsWith('.png') && existsSync(image.replace(/png$/, 'svg'))) continue;
    if (image.endsWith('.svg') && file_size(image) > 4 * kMaxSvgBytes) continue;
    const sentence = readFileSync(text, 'utf8').split('\n')[0].trim();
    if (!/[a-z]/i.test(sentence)) continue;
    const letter = /^symbols\/alphabets\/[^/]+\/(.*)/.exec(path);
    const group = letter ? `letters/${letter[1]}` : path.replace(/\.\w+$/, '');
    groups.set(group, [...(groups.get(group) ?? []), {image, path, sentence}]);
  }
  const train = [];
  const held_out = [];
  [...groups.keys()].sort(by_text).forEach((group, index) => {
    for (const {image, path, sentence} of groups.get(group)) {
      const folders = dirname(path).split('/').map((part) => singular(name_to_words(part)));
      const forms = sentence_forms(sentence);
      const bare = forms.at(-1);
      const captions = [...forms];
      const drawn = /cartoon/.test(path) ? 'cartoon' : image.endsWith('.png') ? 'picture' : 'drawing';
      const letter = /(filled|outlined)\/(uppercase|lowercase)/.exec(path);
      if (letter)
        captions.push(`${letter[2]} ${bare}`, `${letter[1]} ${letter[2]} ${bare}`);
      else {
        captions.push(drawn === 'cartoon' ? `cartoon ${bare}` : `a ${drawn} of ${bare}`);
        const place = folders.filter((part) => part !== 'cartoon').at(-1);
        if (place && !bare.includes(place) && /^[a-z ]+$/.test(place)) captions.push(`${bare}, ${place}`);
      }
      (index % 10 === 0 ? held_out : train).push({
        id: `tuxpaint/${path}`,
        image,
        captions: unique_captions(captions),
        source: 'tuxpaint',
        licence: 'GPL-2',
        group: `tuxpaint/${group}`
      });
    }
  });
  return {train, held_out};
}

// Title, description and keywords from the RDF of an SVG file; creators' titles are told apart from the
// work's own.
export function parse_rdf(svg) {
  const metadata = /<metadata[\s\S]*?<\/metadata>/.exec(svg)?.[0] ?? '';
  const creator = /<dc:creator>[\s\S]*?<dc:title>([\s\S]*?)<\/dc:title>/.exec(metadata)?.[1] ?? '';
  const own = metadata.replace(/<cc:Agent[\s\S]*?<\/cc:Agent>/g, '');
  const text = (tag) => new RegExp(`<dc:${tag}>([\\s\\S]*?)</dc:${tag}>`).exec(own)?.[1] ?? '';
  return {
    title: text('title').trim(),
    description: text('description').trim(),
    language: text('language').trim().toLowerCase(),
    creator,
    keywords: [...metadata.matchAll(/<rdf:li>([\s\S]*?)<\/rdf:li>/g)].map((match) => match[1].trim())
  };
}

// Keywords that say where a file was kept, not what it shows.
const kKeywordJunk = new RegExp('^(' + [
  'hash.*',     'unsorted',        'external ?source',
  'clip ?art',  'open ?clip ?art', 'appicon',
  'mapsym',     '.*theme.*',       'magick',
  'icons?',     'unchecked',       'imported',
  'computer',   'image',           'svg',
  'special',    'applications?',   'action',
  'symbols?',   'signs?',          'signs and symbols?',
  'shapes?',    'color',           'b&w',
  'logo',       'cartoon',         'mime types?',
  'recreation', 'etiquette.*',     'flat.*',
  'people',     'contains.*'
].join('|') + ')$');
// Titles of whole collections, or of the file that a drawing was started from.
const kTitleJunk = new RegExp(
    [
      '^(clipart by|part of|various|svg |aiga|map symbols|simple |gramastar|etiquette|lemon|untitled)',
      '^(new document|openclipart|http)',
      '@',
      '\\b(collection|submission|sibmission|theme|cliparts?|library)\\b',
    ].join('|'),
    'i');

const words_of = (text) => text.toLowerCase().match(/[a-z]+/g) ?? [];

// Whether at least three quarters of a text's words are in `lexicon` (a Set), and something is left to search
// for.
export function is_english(text, lexicon) {
  const words = words_of(text).filter((word) => word.length > 2);
  const known = words.filter((word) => lexicon.has(word) || lexicon.has(singular(word)));
  return words.length > 0 && known.length * 4 >= words.length * 3;
}

// File names end in a piece of the author's name and a number: "brain_jon_phillips_01".
function stem_without_author(path, creator) {
  let name = stem(path).replace(/_r?$/, '').replace(/[_.]+\d*r?$/, '');
  const slug = creator.toLowerCase().replace(/[^a-z0-9@.-]+/g, '_').replace(/^_|_$/g, '');
  for (let length = slug.length; length >= 2; length--) {
    const tail = `_${slug.slice(0, length)}`;
    if (name.toLowerCase().endsWith(tail)) {
      name = name.slice(0, -tail.length);
      break;
    }
  }
  return name_to_words(name)
      .replace(/\b(md|ganson|v|mo|st|hash)\b.*$/, '')
      .replace(/\b(gnome|gtk|fs|mime|kde|stock)\b/g, '')
      .replace(/\s+/g, ' ')
      .replace(/[\d\s]+$/, '')
      .trim();
}

// Open Clip Art. `lexicon`: the English words seen in the other sets' captions. A title is used when it is
// English and its author's words for this one drawing; else the file's name; else the drawing is left out. At
// most eight drawings share a name: a thousand computed stars teach nothing more.
export function read_openclipart(folder, lexicon) {
  const same_name_limit = 8;
  const drawings = walk(folder, ['.svg'], ['duplicates', 'gradients', 'examples', 'cards'])
                       .filter((image) => file_size(image) <= kMaxSvgBytes)
                       .map((image) => ({
                              image,
                              path: relative(folder, image).split(sep).join('/'),
                              ...parse_rdf(readFileSync(image, 'utf8'))
                            }));
  const title_count = new Map();
  for (const {title} of drawings) title_count.set(title, (title_count.get(title) ?? 0) + 1);
  const used = new Map();
  const result = [];
  for (const drawing of drawings) {
    const title = clean_text(name_to_words(drawing.title.replace(/[,(].*$/, '')))
                      .replace(/[\d\s#:-]+$/, '')
                      .replace(/ v$/, '')
                      .replace(/^\W+/, '');
    const foreign = drawing.language && !drawing.language.startsWith('en');
    const title_ok = !foreign && !kTitleJunk.test(drawing.title) && title_count.get(drawing.title) <= 6 &&
        is_english(title, lexicon) && title.length <= 50;
    const from_file = stem_without_author(drawing.path, drawing.creator);
    const file_ok = is_english(from_file, lexicon) && from_file.length > 2 && from_file.length <= 40;
    if (!title_ok && !file_ok) continue;
    const words = title_ok ? title : from_file;
    const flag = drawing.path.includes('/flags/') && !/\bflag\b/.test(words);
    const name = flag ? `flag of ${words}` : words;
    // "star 77 pt 23 step" and "led rounded h" number or letter one design.
    const design = name.replace(/\d+/g, '#').replace(/\b[a-z]\b/g, '?');
    const count = used.get(design) ?? 0;
    if (count >= same_name_limit) continue;
    used.set(design, count + 1);

    const keywords = usable_tags(drawing.keywords, name)
                         .filter((tag) => !kKeywordJunk.test(tag) && is_english(tag, lexicon));
    const place = singular(name_to_words(drawing.path.split('/').at(-2) ?? ''));
    const id = `openclipart/${drawing.path}`;
    const captions = [
      name, ['a drawing of {x}', '{x} clip art', 'a picture of {x}'][hash_text(id) % 3].replace('{x}', name)
    ];
    if (flag) captions.push(words);
    if (title_ok && file_ok && from_file !== name && !from_file.includes('hash(') &&
        words_of(from_file).some((word) => words_of(name).includes(word)))
      captions.push(from_file);
    const description = clean_text(drawing.description);
    if (!foreign && description !== name && !description.includes('hash(') && description.length >= 8 &&
        description.length <= 90 && is_english(description, lexicon))
      captions.push(description);
    if (keywords.length)
      captions.push(
          `${name}, ${pick(keywords, 2, `${id}/joined`).join(', ')}`, ...pick(keywords, 4, `${id}/tags`));
    if (/^[a-z ]+$/.test(place) && !kKeywordJunk.test(place) && !name.includes(place) &&
        is_english(place, lexicon))
      captions.push(`${name}, ${place}`);
    result.push({
      id,
      image: drawing.image,
      captions: unique_captions(captions),
      source: 'openclipart',
      licence: 'public domain',
      group: `openclipart/${name}`
    });
  }
  return result;
}

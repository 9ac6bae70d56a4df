// From the names and keywords that icon sets publish to the captions a text encoder can learn from.
//
// A set's file name ("circle-check-big", "account-multiple-plus-outline") is terse, and each set has its own
// word for a thing: one says mail, another envelope. What is learned here must carry over to sets never seen,
// so besides the published words every image gets rephrasings: shapes that enclose ("circle check", "check
// circle", "check in a circle"), badges ("file plus", "file with a plus sign"), strike-outs ("bell off",
// "crossed out bell") and common synonyms. All choices are made by a hash of the image's id: same input, same
// manifest.

import {readFileSync} from 'node:fs';

export const kMaxCaptions = 16;

// "arrowDown2Circle" -> "arrow down 2 circle"; "h264" -> "h264" (a letter and digits name one thing).
export function name_to_words(name) {
  return name.replace(/([a-z])([A-Z])/g, '$1 $2')
      .replace(/([a-z]{2,})(\d)/gi, '$1 $2')
      .replace(/(\d)([a-z]{2,})/gi, '$1 $2')
      .replace(/[-_./\s]+/g, ' ')
      .trim()
      .toLowerCase();
}

// Published text as a caption: lower case, straight quotes, one space, no full stop at the end.
export function clean_text(text) {
  return text.replace(/&amp;/g, '&')
      .replace(/&lt;/g, '<')
      .replace(/&gt;/g, '>')
      .replace(/&quot;/g, '"')
      .replace(/&(apos|#39);/g, '\'')
      .replace(/&#\w+;/g, ' ')
      .replace(/[“”„«»]/g, '"')
      .replace(/[‘’]/g, '\'')
      .replace(/[–—]/g, '-')
      .replace(/\s+/g, ' ')
      .trim()
      .replace(/[.!]+$/, '')
      .toLowerCase();
}

// FNV-1a, 32 bits: a choice that depends on nothing but the text.
export function hash_text(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  // The low bits of FNV-1a are weak; a final mix makes `% n` fair.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}

// Up to `count` of `items`, chosen by `seed`, in their own order.
export function pick(items, count, seed) {
  if (items.length <= count) return [...items];
  return items.map((item, index) => ({item, index, key: hash_text(`${seed}/${index}/${item}`)}))
      .sort((a, b) => a.key - b.key || a.index - b.index)
      .slice(0, count)
      .sort((a, b) => a.index - b.index)
      .map((entry) => entry.item);
}

// synonyms.txt: a line's phrases stand for each other.
const kSynonyms = readFileSync(new URL('synonyms.txt', import.meta.url), 'utf8')
                      .split('\n')
                      .filter((line) => line && !line.startsWith('#'))
                      .map((line) => line.split(', '));
const kMaxSynonymWords = 4;
const kSynonymOf = new Map();
for (const line of kSynonyms) {
  for (const phrase of line) {
    const others = kSynonymOf.get(phrase) ?? [];
    for (const other of line)
      if (other !== phrase && !others.includes(other)) others.push(other);
    kSynonymOf.set(phrase, others);
  }
}

// Every text that comes from replacing one phrase of `words` by a synonym; the longest phrase at a place
// wins.
export function synonym_variants(words) {
  const parts = words.split(' ');
  const variants = [];
  for (let start = 0; start < parts.length;) {
    let length = Math.min(kMaxSynonymWords, parts.length - start);
    while (length > 0 && !kSynonymOf.has(parts.slice(start, start + length).join(' '))) length--;
    for (const other of length ? kSynonymOf.get(parts.slice(start, start + length).join(' ')) : []) {
      const variant = [...parts.slice(0, start), other, ...parts.slice(start + length)].join(' ');
      // "log out" -> "log crossed out" is no English: "off" and its kin stand for each other only as a last
      // word.
      if (!(length === 1 && /^(off|slash)$/.test(parts[start]) && start + 1 !== parts.length))
        variants.push(variant);
    }
    start += Math.max(1, length);
  }
  return variants;
}

const kEnclosures = [
  'circle', 'square', 'triangle', 'octagon', 'hexagon', 'diamond', 'box', 'badge', 'shield', 'rhombus',
  'rectangle'
];
const kBadges = new Map([
  ['plus', 'a plus sign'],
  ['minus', 'a minus sign'],
  ['check', 'a check mark'],
  ['x', 'a cross'],
  ['lock', 'a padlock'],
  ['heart', 'a heart'],
  ['star', 'a star'],
  ['search', 'a magnifying glass'],
  ['dots', 'three dots'],
  ['question', 'a question mark'],
  ['exclamation', 'an exclamation mark'],
  ['alert', 'an exclamation mark'],
  ['code', 'code brackets'],
  ['cog', 'a gear'],
  ['settings', 'a gear'],
  ['gear', 'a gear'],
  ['edit', 'a pencil'],
  ['pencil', 'a pencil'],
  ['bolt', 'a lightning bolt'],
  ['dollar', 'a dollar sign'],
  ['pin', 'a pin'],
  ['user', 'a person'],
  ['text', 'lines of text'],
  ['clock', 'a clock'],
  ['key', 'a key'],
  ['music', 'a musical note'],
  ['image', 'a picture'],
  ['play', 'a play button'],
  ['pause', 'a pause sign'],
  ['percent', 'a percent sign'],
  ['up', 'an arrow up'],
  ['down', 'an arrow down'],
]);
const kStrikes = ['off', 'slash', 'disabled'];
const kExtensions = new Set([
  'ai avi bmp c cpp css csv doc docx exe gif go h html ini jpg js json jsx log md mov mp3 mp4 otf pdf php',
  'png ppt psd py rar rb rs sass scss sh sql svg ts tsx ttf txt vue wav xls xlsx xml yml zip',
].join(' ').split(' '));
const kDigitWords = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'];

// Sets order a framed letter or digit in all ways: "circle letter h", "number circle four" -> "h circle",
// "letter h in a circle". Empty for names of any other form.
function letter_forms(words) {
  const kind = words.includes('letter') ? 'letter' : 'number';
  const frame = kEnclosures.find((shape) => words.split(' ').includes(shape));
  const sign =
      words.split(' ')
          .filter((word) => word !== kind && word !== frame && word !== 'rounded' && word !== 'small')
          .join(' ');
  const digit = kDigitWords.indexOf(sign);
  const shown = digit >= 0 ? String(digit) : sign;
  if (!/^([a-z]|\d{1,2})$/.test(shown)) return [];
  return frame ? [`${shown} ${frame}`, `${kind} ${shown} in a ${frame}`] : [shown, `the ${kind} ${shown}`];
}

// The same picture said another way: "circle check" <-> "check circle", "file plus" -> "file with a plus
// sign".
export function rephrasings(words) {
  const spelled = /^(.*\b)(letter|number)\b(.*)$/.test(words) ? letter_forms(words) : [];
  const file_type = /^file (?:type )?(\w+)$/.exec(words);
  if (spelled.length) return spelled;
  if (file_type && (words.startsWith('file type') || kExtensions.has(file_type[1])))
    return [`${file_type[1]} file`, `filetype ${file_type[1]}`];
  const parts = words.split(' ');
  if (parts.length < 2) return [];
  const first = parts[0];
  const last = parts.at(-1);
  const head = parts.slice(0, -1).join(' ');
  const tail = parts.slice(1).join(' ');
  const result = [];
  if (kEnclosures.includes(first) && !kEnclosures.includes(last))
    result.push(`${tail} ${first}`, `${tail} in a ${first}`);
  if (kEnclosures.includes(last) && !kEnclosures.includes(first))
    result.push(`${last} ${head}`, `${head} in a ${last}`);
  const inside = parts.slice(1, -1).find((word) => ['circle', 'square', 'box'].includes(word));
  if (inside && !parts.includes('in')) {
    const rest = parts.filter((word) => word !== inside).join(' ');
    result.push(`${rest} ${inside}`, `${inside} ${rest}`);
  }
  if (kStrikes.includes(last) && !/\b(power|on|log|sign|turn|hand|take|day|time|cut)$/.test(head))
    result.push(`${head} off`, `${head} slash`, `crossed out ${head}`, `no ${head}`);
  const arrow_like =
      /^(arrow|arrows|chevron|chevrons|caret|corner|move|trending|thumbs|circle|square)\b/.test(words);
  if (kBadges.has(last) && !kEnclosures.includes(first) && !(arrow_like && /^(up|down)$/.test(last))) {
    result.push(`${head} with ${kBadges.get(last)}`);
  }
  const direction = /^(\w+) (left|right|up|down|north|south|east|west)$/.exec(words);
  if (direction && !/^(thumbs?|sign|log|sort|zoom)$/.test(first)) {
    result.push(`${direction[2]} ${direction[1]}`, `${direction[1]} pointing ${direction[2]}`);
  }
  return result.filter((text) => text !== words);
}

// A drawing style: how the sets' own names say it (`suffix`, last in the first caption) and what people
// write.
export const kStyles = {
  outline: {suffix: '', phrases: ['outline {x}', '{x} outline', '{x} line icon', 'outlined {x} icon']},
  outline_variant:
      {suffix: 'outline', phrases: ['outline {x}', 'outlined {x}', '{x} line icon', '{x} outline icon']},
  solid: {suffix: '', phrases: ['solid {x}', '{x} filled', '{x} solid icon', 'filled {x} icon']},
  fill: {suffix: 'fill', phrases: ['filled {x}', '{x} filled', 'solid {x}', '{x} solid']},
  thin: {suffix: 'thin', phrases: ['thin {x}', 'thin outline {x}', 'thin line icon of {x}']},
  light: {suffix: 'light', phrases: ['light {x}', '{x} in light lines', '{x} outline']},
  bold: {suffix: 'bold', phrases: ['bold {x}', 'thick {x}', 'bold outline {x}']},
  duotone: {suffix: 'duotone', phrases: ['two tone {x}', 'shaded {x}', '{x} two tone icon']},
};
const kTemplates =
    ['{x} icon', '{x} symbol', 'icon of {x}', 'an icon showing {x}', '{x} pictogram', 'a drawing of {x}'];

const kJunk =
    /^(\*.*\*|hash|new|updated|icon|icons|misc|other|others|general|deprecated|undefined|null|i{2,3}|\d+)$/;

// Published keywords as captions: clean, without those that say nothing or repeat the name.
export function usable_tags(tags, name) {
  const seen = new Set([name]);
  const result = [];
  for (const raw of tags) {
    const tag = clean_text(raw).replace(/[-_]+/g, ' ').trim();
    if (tag.length < 2 || tag.length > 60 || kJunk.test(tag) || seen.has(tag)) continue;
    seen.add(tag);
    result.push(tag);
  }
  return result;
}

// First occurrences, trimmed, without empty ones, at most kMaxCaptions.
export function unique_captions(captions) {
  return [...new Set(captions.map((text) => text.replace(/\s+/g, ' ').trim()).filter(Boolean))].slice(
      0, kMaxCaptions);
}

const fill_in = (template, text) => template.replace('{x}', text);

// An icon's captions. `words`: its name; `style`: a key of kStyles; `aliases`: other published names of it,
// in words; `tags`: published keywords; `category`: its group within the set, or ''. The first caption is the
// published name in words with the style's suffix. About half the captions are forms of the name, as a
// trainer that draws one at random should mostly see the name.
export function icon_captions({id, words, style, aliases = [], tags = [], category = ''}) {
  const {suffix, phrases} = kStyles[style];
  const clean_tags = usable_tags(tags, words);
  const some_tags = pick(clean_tags, 4, `${id}/tags`);
  const published = suffix ? `${words} ${suffix}` : words;
  const variants = synonym_variants(words);
  // Other sets differ in more than one word ("mail off" is "envelope slash" elsewhere).
  const twice = [...new Set(variants.flatMap(synonym_variants))].filter(
      (text) => text !== words && !variants.includes(text));
  const captions = [
    published,
    words,
    ...pick(phrases, 2, `${id}/style`).map((phrase) => fill_in(phrase, words)),
    ...pick(aliases.filter((alias) => alias !== words), 3, `${id}/aliases`),
    ...pick(rephrasings(words), 2, `${id}/rephrase`),
    ...pick(variants, 2, `${id}/synonyms`),
    ...pick(twice, 2, `${id}/synonyms of synonyms`),
    fill_in(kTemplates[hash_text(`${id}/template`) % kTemplates.length], words),
  ];
  if (some_tags.length)
    captions.push(`${words}, ${pick(clean_tags, 2, `${id}/joined`).join(', ')}`, ...some_tags);
  if (category && !words.includes(category)) captions.push(`${words}, ${category}`);
  return unique_captions(captions);
}

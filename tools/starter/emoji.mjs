// Readers of the emoji sets. Names, keywords and short codes come from emojibase-data by code point,
// OpenMoji's own drawings bring their own.
import {basename, join} from 'node:path';

import {by_text, file_size, kMaxSvgBytes, read_json, stem, walk} from './files.mjs';
import {clean_text, hash_text, pick, unique_captions, usable_tags} from './words.mjs';

// "1F44B-1F3FB" and "1f44b_1f3fb" alike; the variation selector only asks for colour and is left out.
export const code_key = (name) => name.toLowerCase()
                                      .split(/[-_]/)
                                      .map((code) => code.replace(/^0+/, ''))
                                      .filter((code) => code !== 'fe0f')
                                      .join('-');

const kTone = /-?1f3f[b-f]/g;
export const tone_count = (key) => (key.match(/1f3f[b-f]/g) ?? []).length;
export const without_tones = (key) => key.replace(kTone, '').replace(/^-/, '');

// "flag: France" -> "flag of france"; "waving hand: dark skin tone" -> "waving hand with dark skin tone".
export function label_forms(label) {
  const text = clean_text(label);
  const [head, ...rest] = text.split(': ');
  const tail = rest.join(', ');
  if (!tail) return [text];
  if (head === 'flag') return [`flag of ${tail}`, `${tail} flag`, tail];
  if (head === 'keycap')
    return [`keycap ${tail}`, `${tail} key`, `number ${tail}`].slice(0, /^\d+$/.test(tail) ? 3 : 2);
  if (head === 'family' || head === 'kiss') return [`${head} of ${tail}`, `${head}, ${tail}`];
  return [`${head} with ${tail}`, `${head}, ${tail}`];
}

const short_code_words = (code) => code.replace(/_/g, ' ');

// Code point key -> {labels, tags, group, key of the emoji without skin tone}.
export function read_names(packages) {
  const folder = join(packages, 'emojibase-data/en');
  const messages = read_json(join(folder, 'messages.json'));
  const group_name = new Map(messages.groups.map((group) => [group.order, clean_text(group.message)]));
  const subgroup_name = new Map(messages.subgroups.map((group) => [group.order, clean_text(group.message)]));
  const codes = new Map();
  for (const set of ['emojibase', 'github', 'joypixels']) {
    for (const [hexcode, value] of Object.entries(read_json(join(folder, 'shortcodes', `${set}.json`)))) {
      const words = [value].flat().filter((code) => /^[a-z][a-z_]+$/.test(code)).map(short_code_words);
      codes.set(code_key(hexcode), [...new Set([...(codes.get(code_key(hexcode)) ?? []), ...words])]);
    }
  }
  const names = new Map();
  for (const emoji of read_json(join(folder, 'data.json'))) {
    const flag = emoji.label.startsWith('flag: ');
    const tags = (emoji.tags ?? []).filter((tag) => !(flag && (tag === 'flag' || /^[A-Z]{2}$/.test(tag))));
    const base = {
      labels: label_forms(emoji.label),
      tags,
      codes: flag ? [] : codes.get(code_key(emoji.hexcode)) ?? [],
      group: group_name.get(emoji.group) ?? '',
      subgroup: subgroup_name.get(emoji.subgroup) ?? '',
      toned: false
    };
    names.set(code_key(emoji.hexcode), base);
    for (const skin of emoji.skins ?? []) {
      names.set(
          code_key(skin.hexcode),
          {...base, labels: label_forms(skin.label), codes: [], toned: true, plain: base.labels[0]});
    }
  }
  return names;
}

// How the drawings look, after the published words. The first entry is the suffix of the first caption.
const kLooks = {
  'openmoji': ['', ['{x} emoji', 'cartoon {x}', '{x} drawn with black outlines', 'colorful {x}']],
  'openmoji-black':
      ['black and white', ['black and white {x}', 'line drawing of {x}', '{x} outline', '{x} outline emoji']],
  'fluent-emoji-3d': ['', ['3d {x}', '3d {x} emoji', '{x} emoji', 'glossy {x}']],
  'fluent-emoji-flat': ['', ['flat {x}', '{x} emoji', 'flat {x} emoji', '{x} clip art']],
};

export function emoji_captions(id, look, name) {
  const [suffix, phrases] = kLooks[look];
  const [label] = name.labels;
  const tags = usable_tags(name.tags, label);
  const captions = [
    suffix ? `${label} ${suffix}` : label,
    ...name.labels,
    ...pick(phrases, 2, `${id}/look`).map((phrase) => phrase.replace('{x}', label)),
    ...pick(name.codes.filter((code) => code !== label), 2, `${id}/codes`),
  ];
  // A tone is what tells these apart: keywords alone would call five pictures the same.
  if (name.toned) {
    const tone = /((?:medium-)?(?:light|dark)|medium) skin tone/.exec(label)?.[1];
    if (tone) captions.push(`${tone} skin tone ${name.plain}`);
    captions.push(
        ...pick(tags, 2, `${id}/tags`).map((tag) => (tone ? `${tag}, ${tone} skin tone` : tag)), name.plain);
    return unique_captions(captions);
  }
  if (tags.length)
    captions.push(`${label}, ${pick(tags, 2, `${id}/joined`).join(', ')}`, ...pick(tags, 5, `${id}/tags`));
  const place = hash_text(`${id}/group`) % 2 ? name.group : name.subgroup;
  if (place && !label.includes(place)) captions.push(`${label}, ${place}`);
  return unique_captions(captions);
}

const record = (source, look, licence, path, key, name) => {
  const id = `${source}/${look === 'openmoji-black' ? 'black/' : ''}${stem(path)}`;
  return {
    id,
    image: path,
    captions: emoji_captions(id, look, name),
    source,
    licence,
    group: `${source}/${without_tones(key) || key}`
  };
};

// OpenMoji: colour and black drawings. People of two skin tones are left out: hundreds of near-equal
// pictures.
export function read_openmoji(packages) {
  const root = join(packages, 'openmoji');
  const names = read_names(packages);
  const result = [];
  const list = read_json(join(root, 'data/openmoji.json')).sort((a, b) => by_text(a.hexcode, b.hexcode));
  for (const emoji of list) {
    const key = code_key(emoji.hexcode);
    if (tone_count(key) > 1) continue;
    const own_tags =
        `${emoji.tags},${emoji.openmoji_tags}`.split(',').map((tag) => tag.trim()).filter(Boolean);
    const flag = /flag/.test(emoji.subgroups);
    const annotation = flag ? emoji.annotation.replace(/^(.*) flag$/, 'flag: $1') : emoji.annotation;
    const plain = {
      labels: label_forms(annotation),
      tags: own_tags,
      codes: [],
      group: emoji.subgroups.replace(/-/g, ' '),
      subgroup: '',
      toned: false
    };
    const known = names.get(key);
    const name = known ? {
      ...known,
      tags: [...new Set(
          [...known.tags, ...own_tags.filter((tag) => !/^[A-Z]{2}$/.test(tag) && !(flag && tag === 'flag'))])]
    } :
                         plain;
    const color = join(root, 'color/svg', `${emoji.hexcode}.svg`);
    result.push(record('openmoji', 'openmoji', 'CC-BY-SA-4.0', color, key, name));
    // Without colour, skin tones and flags cannot be told apart.
    if (tone_count(key) === 0 && !flag) {
      result.push(record(
          'openmoji', 'openmoji-black', 'CC-BY-SA-4.0', join(root, 'black/svg', `${emoji.hexcode}.svg`), key,
          name));
    }
  }
  return result;
}

export function read_fluent(packages, look) {
  const names = read_names(packages);
  const result = [];
  for (const path of walk(join(packages, '@lobehub', look, 'assets'), ['.svg', '.webp', '.png'])) {
    const key = code_key(basename(stem(path)).replace(/_/g, '-'));
    const name = names.get(key) ?? names.get(key.replaceAll('-200d-2640', '').replaceAll('-200d-2642', ''));
    if (!name || tone_count(key) > 1) continue;
    if (path.endsWith('.svg') && file_size(path) > kMaxSvgBytes) continue;
    result.push(record(look, look, 'MIT', path, key, name));
  }
  return result;
}

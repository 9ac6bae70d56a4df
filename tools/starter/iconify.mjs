#!/usr/bin/env node
// Turns icon libraries in Iconify's JSON form (a package a library, drawings as the inside of an <svg>) into
// one training manifest, `iconify.jsonl`, as manifests.mjs writes them, and the drawings into SVG files.
// iconify/sets.json says what each library's name endings mean.
//
//   node iconify.mjs --held-out MANIFEST.jsonl --out DIR --pictures DIR [--packages iconify/node_modules]
import {existsSync, mkdirSync, writeFileSync} from 'node:fs';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {read_manifest} from './check.mjs';
import {by_text, kMaxSvgBytes, outline_digest, read_json, run_as_program} from './files.mjs';
import {record, without_design_number} from './icons.mjs';
import {merge_equal_pictures, write_manifest} from './manifests.mjs';
import {clean_text, name_to_words} from './words.mjs';

// Longer names are sentences of keywords ("interface file sticky note empty common file").
const kMaxWords = 6;
const kNumberWords = /-(one|two|three|four|five|six|seven|eight|nine|ten)$/;

// A name's parts by the library's own rules: what it shows, its drawing style (a key of kStyles) and the size
// it was drawn for, '' where names have none.
export function take_apart(name, {plain, styles = {}, sizes = []}) {
  const ending = (known) => known.filter((word) => name.endsWith(`-${word}`)).sort((a, b) => b.length - a.length)[0];
  const cut = (word) => {
    if (word !== undefined) name = name.slice(0, -word.length - 1);
    return word;
  };
  const style = cut(ending(Object.keys(styles)));
  const size = cut(ending(sizes)) ?? '';
  // "fill-24" has its style before the size.
  const inner = style ?? cut(ending(Object.keys(styles)));
  return {name, style: inner === undefined ? plain : styles[inner], size};
}

// An icon as an SVG file's text; currentColor is black where nobody says otherwise.
export function draw(icon, {width = 16, height = 16}) {
  const {left = 0, top = 0, body} = icon;
  const size = [icon.width ?? width, icon.height ?? height];
  return `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${size[0]}" ` +
      `height="${size[1]}" viewBox="${left} ${top} ${size.join(' ')}">${body}</svg>\n`;
}

// The icons of a library that are taken, as [{id, name, style, icon, aliases, category}]: of several sizes of one drawing
// the first in the order of `rules.sizes`. `library` is Iconify's icons.json, `about` its metadata.json.
export function choose_icons(library, about, rules) {
  const aliases = new Map();
  for (const [name, {parent, ...change}] of Object.entries(library.aliases ?? {}))
    if (Object.keys(change).length === 0) aliases.set(parent, [...(aliases.get(parent) ?? []), name]);
  const categories = new Map();
  for (const [category, names] of Object.entries(about.categories ?? {}))
    for (const name of names) if (!categories.has(name)) categories.set(name, clean_text(category));
  const rank = (size) => (rules.sizes ?? []).indexOf(size);
  const chosen = new Map();
  for (const id of Object.keys(library.icons).sort(by_text)) {
    const icon = library.icons[id];
    if (icon.hidden || icon.body.length > kMaxSvgBytes) continue;
    if (rules.drop && new RegExp(rules.drop).test(id)) continue;
    if (rules.only && !new RegExp(rules.only).test(id)) continue;
    const {name, style, size} = take_apart(id, rules);
    const key = `${name}/${style}`;
    const found = {
      id,
      name,
      style,
      size,
      icon,
      aliases: (aliases.get(id) ?? []).map((alias) => take_apart(alias, rules).name),
      category: categories.get(id) ?? ''
    };
    if (!chosen.has(key) || rank(size) < rank(chosen.get(key).size)) chosen.set(key, found);
  }
  return [...chosen.values()];
}

// Records of one library; writes its drawings into `folder`.
export function read_iconify({prefix, library, about, licence, rules, folder}) {
  mkdirSync(folder, {recursive: true});
  const icons = choose_icons(library, about, rules);
  const names = new Set(icons.map((icon) => icon.name));
  const to_words = (name) => name_to_words(
      rules.numbered ? name.replace(/-0\d$/, '').replace(kNumberWords, '') :
                       without_design_number(name, (base) => names.has(base)));
  const result = [];
  for (const {id, name, style, icon, aliases, category} of icons) {
    const words = to_words(name);
    if (!words || words.split(' ').length > kMaxWords) continue;
    const image = join(folder, `${id}.svg`);
    writeFileSync(image, draw(icon, library));
    const also = aliases.map(to_words);
    if (rules.brands) also.unshift(`${words} logo`);
    const made = record(`iconify/${prefix}`, licence, {id, image, group: name, words, style, aliases: also, category});
    result.push({...made, source: prefix});
  }
  return result;
}

function main() {
  const here = dirname(fileURLToPath(import.meta.url));
  const {values} = parseArgs({
    options: {
      'held-out': {type: 'string'},
      out: {type: 'string'},
      pictures: {type: 'string'},
      packages: {type: 'string', default: join(here, 'iconify/node_modules')}
    }
  });
  const held_out = values['held-out'];
  if (!held_out || !values.out || !values.pictures)
    throw new Error('--held-out MANIFEST.jsonl, --out DIR and --pictures DIR are needed');
  if (!existsSync(held_out)) throw new Error(`${held_out} is missing; manifests.mjs writes it`);
  mkdirSync(values.out, {recursive: true});
  const records = [];
  for (const [prefix, rules] of Object.entries(read_json(join(here, 'iconify/sets.json')))) {
    const root = join(resolve(values.packages), '@iconify-json', prefix);
    if (!existsSync(root)) throw new Error(`${root} is missing; get it with: npm ci --prefix ${join(here, 'iconify')}`);
    const metadata = join(root, 'metadata.json');
    records.push(...read_iconify({
      prefix,
      library: read_json(join(root, 'icons.json')),
      about: existsSync(metadata) ? read_json(metadata) : {},
      licence: read_json(join(root, 'info.json')).license.spdx,
      rules,
      folder: join(resolve(values.pictures), prefix)
    }));
  }
  // No drawing that is held out, whoever publishes it, and none without a path, whose outlines cannot tell.
  const withheld = new Set(read_manifest(held_out).map(({image}) => outline_digest(image)).concat(''));
  const free = records.filter(({image}) => !withheld.has(outline_digest(image)));
  const merged = merge_equal_pictures(free);
  process.stderr.write(`iconify: ${merged.records.length} pictures; ${merged.dropped} equal ones merged, ${
      records.length - free.length} held out or without a path\n`);
  write_manifest(join(values.out, 'iconify.jsonl'), merged.records);
}

run_as_program(import.meta.url, main);

#!/usr/bin/env node
// Edit queries of emoji as people ask them: a red heart, "blue"; a red heart, "circle". Of each set, pictures whose published
// names are a colour and a thing. Right is the picture of the other name. The gallery is the whole set, so its other designs
// of a name stand beside the target. Nothing is drawn here.
//
//   node emoji_changes.mjs --out FILE MANIFEST.jsonl...
import {basename} from 'node:path';
import {parseArgs} from 'node:util';

import {read_manifest} from './check.mjs';
import {by_text, run_as_program} from './files.mjs';
import {write_manifest} from './manifests.mjs';

const kColours = new Set(
    ['red', 'orange', 'yellow', 'green', 'blue', 'purple', 'brown', 'black', 'white', 'pink', 'grey', 'light blue']);

// "light blue heart" -> ["light blue", "heart"]; null for other names, and for things of several words.
export function colour_and_thing(name) {
  for (const length of [2, 1]) {
    const words = name.split(' ');
    const colour = words.slice(0, length).join(' ');
    if (words.length === length + 1 && kColours.has(colour)) return [colour, words[length]];
  }
  return null;
}

// Queries for a change of colour, and of the thing, of pictures {id, captions} with such names.
export function changes(records, gallery) {
  const named = new Map();
  for (const {id, captions} of [...records].sort((a, b) => by_text(a.id, b.id))) {
    if (!named.has(captions[0]) && colour_and_thing(captions[0])) named.set(captions[0], id);
  }
  const queries = [];
  for (const [name, reference] of named) {
    const [colour, thing] = colour_and_thing(name);
    for (const [other, target] of named) {
      if (other === name) continue;
      const [other_colour, other_thing] = colour_and_thing(other);
      if (other_thing !== thing && other_colour !== colour) continue;
      const kind = other_thing === thing ? 'colour' : 'thing';
      queries.push({
        id: `${reference} > ${target}`, reference, texts: [kind === 'colour' ? other_colour : other_thing], targets: [target],
        gallery, kind, group: `${gallery}/${kind === 'colour' ? thing : colour}`, split: 'test'
      });
    }
  }
  return queries;
}

function main() {
  const {values, positionals} = parseArgs({options: {out: {type: 'string'}}, allowPositionals: true});
  if (!values.out || positionals.length === 0) throw new Error('--out FILE and manifests are needed');
  const lines = [];
  for (const manifest of positionals) {
    const gallery = basename(manifest, '.jsonl');
    const records = read_manifest(manifest);
    lines.push(...records.map(({id, image}) => ({picture: image, id, gallery})), ...changes(records, gallery));
  }
  write_manifest(values.out, lines);
}

run_as_program(import.meta.url, main);

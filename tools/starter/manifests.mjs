#!/usr/bin/env node
// Turns the image sets of the starter checkpoint into manifests, one JSON Lines file a set:
//   {"id", "image", "captions": [...], "source", "licence", "group"}
// `image` is the absolute path of the set's own file (SVG, PNG, WebP); pictures are rendered by who reads
// them. `group` joins pictures that must not be split between training and validation (the weights of one
// icon). Held out of training: bootstrap-icons.jsonl and tuxpaint-heldout.jsonl.
//
//   node manifests.mjs --out DIR [--packages node_modules] [--stamps DIR] [--openclipart DIR]
import {existsSync, mkdirSync, renameSync, writeFileSync} from 'node:fs';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {read_openclipart, read_tuxpaint} from './clipart.mjs';
import {check_manifests} from './check.mjs';
import {read_fluent, read_openmoji} from './emoji.mjs';
import {picture_digest, run_as_program} from './files.mjs';
import {read_bootstrap, read_lucide, read_mdi, read_phosphor, read_remixicon, read_tabler} from './icons.mjs';
import {unique_captions} from './words.mjs';

// One record a picture: of equal files the first stays, with the others' names added, each time the first
// name first.
export function merge_equal_pictures(records, digest = picture_digest) {
  const kept = new Map();
  let dropped = 0;
  for (const record of records) {
    const key = digest(record.image);
    const first = kept.get(key);
    if (!first) {
      kept.set(key, {...record, also: []});
    } else {
      first.also.push(...record.captions.slice(0, 2));
      dropped++;
    }
  }
  const merged = [...kept.values()].map(
      ({also, ...record}) => ({
        ...record,
        captions: unique_captions([record.captions[0], ...also, ...record.captions.slice(1)])
      }));
  return {records: merged, dropped};
}

// Words of other sets' captions: what "English" means when Open Clip Art's titles are judged.
export function lexicon_of(sets) {
  const lexicon = new Set();
  for (const records of sets) {
    for (const {captions} of records)
      for (const caption of captions)
        for (const word of caption.match(/[a-z]{3,}/g) ?? []) lexicon.add(word);
  }
  return lexicon;
}

export function write_manifest(path, records) {
  writeFileSync(`${path}.part`, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
  renameSync(`${path}.part`, path);
}

async function main() {
  const here = dirname(fileURLToPath(import.meta.url));
  const {values} = parseArgs({
    options: {
      out: {type: 'string'},
      packages: {type: 'string', default: join(here, 'node_modules')},
      stamps: {type: 'string', default: '/usr/share/tuxpaint/stamps'},
      openclipart: {type: 'string', default: '/usr/share/openclipart/svg'},
    }
  });
  if (!values.out) throw new Error('--out DIR is missing: the folder the manifests are written to');
  const packages = resolve(values.packages);
  for (const [folder, remedy] of [
           [packages, `npm ci --prefix ${here}`], [values.stamps, 'apt install tuxpaint-stamps-default'],
           [values.openclipart, 'apt install openclipart-svg']]) {
    if (!existsSync(folder)) throw new Error(`${folder} is missing; get it with: ${remedy}`);
  }
  mkdirSync(values.out, {recursive: true});

  const stamps = read_tuxpaint(resolve(values.stamps));
  const sets = {
    'lucide': read_lucide(packages),
    'tabler': read_tabler(packages),
    'phosphor': await read_phosphor(packages),
    'remixicon': read_remixicon(packages),
    'mdi': read_mdi(packages),
    'openmoji': read_openmoji(packages),
    'fluent-emoji-3d': read_fluent(packages, 'fluent-emoji-3d'),
    'fluent-emoji-flat': read_fluent(packages, 'fluent-emoji-flat'),
    'tuxpaint': stamps.train,
  };
  sets.openclipart = read_openclipart(resolve(values.openclipart), lexicon_of(Object.values(sets)));
  sets['bootstrap-icons'] = read_bootstrap(packages);
  sets['tuxpaint-heldout'] = stamps.held_out;
  for (const [name, records] of Object.entries(sets)) {
    const present = records.filter((record) => existsSync(record.image));
    const merged = merge_equal_pictures(present);
    if (merged.dropped + records.length - present.length > 0) {
      const absent = records.length - present.length;
      process.stderr.write(
          `${name}: ${merged.dropped} equal pictures merged, ${absent} listed without a file\n`);
    }
    write_manifest(join(values.out, `${name}.jsonl`), merged.records);
  }
  if (check_manifests(values.out).length) process.exitCode = 1;
}

run_as_program(import.meta.url, main);

#!/usr/bin/env node
// Turns four icon libraries that the starter is not trained on into two manifests, as manifests.mjs writes them, for
// measurements (docs/match-probabilities.md): new-icons.jsonl (Vaadin's and WordPress' icons) and more-icons.jsonl (Grommet's and
// Entypo's). The one caption of an icon is its published name in words. `group` is the name without its style.
//
//   node new_icons.mjs --out DIR --pictures DIR [--packages new-icons/node_modules]
import {existsSync, mkdirSync, writeFileSync} from 'node:fs';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {by_text, read_json, run_as_program} from './files.mjs';
import {draw} from './iconify.mjs';
import {write_manifest} from './manifests.mjs';
import {name_to_words} from './words.mjs';

// Of each library the endings of names that are drawing styles and variants.
export const kNewSets = {
  'new-icons': {'vaadin': /-o$/, 'dashicons': /-alt\d?$/},
  'more-icons': {'grommet-icons': /-(fill|option)$/, 'entypo': null}
};

// Records of one library, whose drawings it writes into `folder`. `library` is Iconify's icons.json.
export function read_names({prefix, library, licence, style, folder}) {
  mkdirSync(folder, {recursive: true});
  const ids = Object.keys(library.icons).filter((id) => !library.icons[id].hidden).sort(by_text);
  return ids.map((id) => {
    const image = join(folder, `${id}.svg`);
    writeFileSync(image, draw(library.icons[id], library));
    return {
      id: `${prefix}/${id}`,
      image,
      captions: [name_to_words(id)],
      source: prefix,
      licence,
      group: `${prefix}/${style ? id.replace(style, '') : id}`
    };
  });
}

function main() {
  const here = dirname(fileURLToPath(import.meta.url));
  const {values} = parseArgs({
    options: {
      out: {type: 'string'},
      pictures: {type: 'string'},
      packages: {type: 'string', default: join(here, 'new-icons/node_modules')}
    }
  });
  if (!values.out || !values.pictures) throw new Error('--out DIR and --pictures DIR are needed');
  mkdirSync(values.out, {recursive: true});
  for (const [name, libraries] of Object.entries(kNewSets)) {
    const records = [];
    for (const [prefix, style] of Object.entries(libraries)) {
      const root = join(resolve(values.packages), '@iconify-json', prefix);
      if (!existsSync(root)) throw new Error(`${root} is missing; get it with: npm ci --prefix ${join(here, 'new-icons')}`);
      records.push(...read_names({
        prefix,
        library: read_json(join(root, 'icons.json')),
        licence: read_json(join(root, 'info.json')).license.spdx,
        style,
        folder: join(resolve(values.pictures), prefix)
      }));
    }
    write_manifest(join(values.out, `${name}.jsonl`), records);
    process.stderr.write(`${name}: ${records.length} pictures\n`);
  }
}

run_as_program(import.meta.url, main);

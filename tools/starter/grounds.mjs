#!/usr/bin/env node
// The held-out icons, black on nothing as they are published, in other colours on other grounds: a manifest for
// each of kGrounds with the same captions, to measure whether an icon is found however it is shown.
//
//   node grounds.mjs --manifest MANIFEST.jsonl --out DIR
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {basename, join, resolve} from 'node:path';
import {parseArgs} from 'node:util';
import {read_manifest} from './check.mjs';
import {run_as_program} from './files.mjs';
import {write_manifest} from './manifests.mjs';

export const kGrounds = {
  'white-on-dark': {colour: '#ffffff', ground: '#202020'},
  'white-on-red': {colour: '#ffffff', ground: '#c81e1e'},
  'amber-on-navy': {colour: '#ffbf00', ground: '#102a5c'},
  'blue-on-white': {colour: '#1d4ed8', ground: '#ffffff'}
};

// An SVG that draws in currentColor, in `colour` on a filled `ground`. An error names what cannot be done so.
export function on_ground(svg, {colour, ground}) {
  const root = /<svg\b[^>]*>/.exec(svg)?.[0];
  const box = root && /\bviewBox="(-?[\d.]+) (-?[\d.]+) ([\d.]+) ([\d.]+)"/.exec(root);
  if (!box || !svg.includes('currentColor'))
    throw new Error('drawn in currentColor inside a viewBox is what can be put on a ground');
  const [x, y, width, height] = box.slice(1);
  return svg.replace(
      root, `${root.replace('<svg', `<svg color="${colour}"`)}<rect x="${x}" y="${y}" width="${width}" height="${
                height}" fill="${ground}"/>`);
}

function main() {
  const {values} = parseArgs({options: {manifest: {type: 'string'}, out: {type: 'string'}}});
  if (!values.manifest || !values.out) throw new Error('--manifest MANIFEST.jsonl and --out DIR are needed');
  const records = read_manifest(values.manifest);
  for (const [name, look] of Object.entries(kGrounds)) {
    const folder = resolve(values.out, name);
    mkdirSync(folder, {recursive: true});
    const shown = records.map((record) => {
      const image = join(folder, basename(record.image));
      try {
        writeFileSync(image, on_ground(readFileSync(record.image, 'utf8'), look));
      } catch (error) {
        throw new Error(`${record.image}: ${error.message}`);
      }
      return {...record, image};
    });
    write_manifest(join(values.out, `${basename(values.manifest, '.jsonl')}-${name}.jsonl`), shown);
  }
}

run_as_program(import.meta.url, main);

#!/usr/bin/env node
// Makes the sample: one folder of pictures from several manifests, as a person's own folder would look.
//
//   OUT/<set>/<id>.svg       a link to the set's own file
//   OUT/<set>/<id>.svg.txt   its captions, which `saccade index` reads from there
//
//   node gather.mjs --out OUT MANIFEST.jsonl...
//
// OUT is replaced as a whole: after an interruption it is the old folder or the new one.
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { parseArgs } from 'node:util';

const kCaptions = 3; // the published name and two more; the rest are variations for training

const { values, positionals } = parseArgs({ options: { out: { type: 'string' } }, allowPositionals: true });
if (!values.out || positionals.length === 0) {
  process.stderr.write('usage: gather.mjs --out OUT MANIFEST.jsonl...\n');
  process.exit(2);
}

const fresh = `${values.out}.part`;
rmSync(fresh, { recursive: true, force: true });
let count = 0;
for (const manifest of positionals) {
  const folder = join(fresh, basename(manifest, '.jsonl'));
  mkdirSync(folder, { recursive: true });
  for (const line of readFileSync(manifest, 'utf8').split('\n')) {
    if (line === '') continue;
    const { id, image, captions } = JSON.parse(line);
    const ending = extname(image);
    const name = basename(id.replace(/^[^/]*\//, '').replace(/[^A-Za-z0-9._-]+/g, '_'), ending) + ending;
    symlinkSync(image, join(folder, name)); // fails on a name used twice, rather than lose a picture
    writeFileSync(join(folder, `${name}.txt`), `${captions.slice(0, kCaptions).join('; ')}\n`);
    count++;
  }
}
rmSync(values.out, { recursive: true, force: true });
renameSync(fresh, values.out);
process.stderr.write(`${count} pictures in ${values.out}\n`);

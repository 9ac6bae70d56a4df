#!/usr/bin/env node
// Checks a folder of manifests and prints a table to stderr: pictures and captions a set, pictures missing or
// drawn twice, and what the held-out sets share with training. Exit code 1 when something is wrong.
//
//   node check.mjs DIR
import {existsSync, readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {by_text, outline_digest, picture_digest} from './files.mjs';
import {kMaxCaptions} from './words.mjs';

export const kHeldOut = ['bootstrap-icons', 'tuxpaint-heldout'];

export function read_manifest(path) {
  return readFileSync(path, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

// Manifests of `folder` by name, training and held out, sorted.
export function read_manifests(folder) {
  const names = readdirSync(folder).filter((name) => name.endsWith('.jsonl')).sort(by_text);
  return new Map(names.map((name) => [name.slice(0, -'.jsonl'.length), read_manifest(join(folder, name))]));
}

// Prints the table; returns the list of faults (empty when all is well).
export function check_manifests(folder) {
  const faults = [];
  const ids = new Set();
  const trained_pictures = new Map();
  const trained_outlines = new Map();
  const rows = [
    ['set', 'pictures', 'groups', 'captions', 'a picture', 'distinct', 'twice drawn', 'shared with training']
  ];
  const manifests = read_manifests(folder);
  const order =
      [...manifests.keys()].sort((a, b) => kHeldOut.includes(a) - kHeldOut.includes(b) || by_text(a, b));
  for (const name of order) {
    const records = manifests.get(name);
    const digests = new Set();
    const shared = new Map();
    let captions = 0;
    for (const record of records) {
      const at = `${name}: ${record.id}`;
      if (ids.has(record.id)) faults.push(`${at}: the id occurs twice`);
      ids.add(record.id);
      if (record.captions.length < 1 || record.captions.length > kMaxCaptions)
        faults.push(`${at}: ${record.captions.length} captions, 1 to ${kMaxCaptions} are right`);
      if (new Set(record.captions).size !== record.captions.length)
        faults.push(`${at}: a caption occurs twice`);
      captions += record.captions.length;
      if (!existsSync(record.image)) {
        faults.push(`${at}: no file ${record.image}`);
        continue;
      }
      const digest = picture_digest(record.image);
      digests.add(digest);
      const outline = record.image.endsWith('.svg') ? outline_digest(record.image) : '';
      if (kHeldOut.includes(name)) {
        const twin = trained_pictures.get(digest) ?? (outline && trained_outlines.get(outline));
        if (twin) shared.set(record.id, twin);
      } else {
        trained_pictures.set(digest, record.id);
        if (outline) trained_outlines.set(outline, record.id);
      }
    }
    for (const [id, twin] of shared) process.stderr.write(`same outline in training: ${id} = ${twin}\n`);
    const distinct = new Set(records.flatMap((record) => record.captions)).size;
    rows.push([
      name, records.length, new Set(records.map((record) => record.group)).size, captions,
      (captions / Math.max(1, records.length)).toFixed(1), distinct, records.length - digests.size,
      kHeldOut.includes(name) ? shared.size : ''
    ]);
  }
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => String(row[column]).length)));
  for (const row of rows) {
    process.stderr.write(`${
        row.map(
               (cell, column) =>
                   (column ? String(cell).padStart(widths[column]) : String(cell).padEnd(widths[0])))
            .join('  ')}\n`);
  }
  for (const fault of faults.slice(0, 20)) process.stderr.write(`${fault}\n`);
  if (faults.length > 20) process.stderr.write(`and ${faults.length - 20} more\n`);
  return faults;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2];
  if (!folder || !existsSync(folder)) {
    process.stderr.write(`check: ${folder ? `no folder ${folder}` : 'usage: node check.mjs DIR'}\n`);
    process.exitCode = 2;
  } else {
    process.exitCode = check_manifests(folder).length ? 1 : 0;
  }
}

#!/usr/bin/env node
// Asks the demo's collection forty queries, with keyword matches and without: the table of docs/answers.md, and a page of
// the first pictures with the words that are shown beside them.
//
//   node forty.mjs --program SACCADE --collection DIR --html PAGE MANIFEST.jsonl... > TABLE.md
//
// The manifests are those that the sample was made of. They have more captions of a picture than the collection has.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, extname } from 'node:path';
import { parseArgs } from 'node:util';

// A picture is counted if one of its captions has the query's thing: the last word, or the one behind the bar.
const kQueries = {
  'one word': ['pizza', 'heart', 'umbrella', 'elephant', 'guitar', 'bicycle', 'rocket', 'tree', 'clock', 'fish'],
  'an adjective and a noun': ['red heart', 'blue car', 'sad face', 'green apple', 'black cat', 'yellow flower', 'old telephone',
    'wooden chair', 'red umbrella', 'purple flag'],
  'actions and scenes': ['person riding a bike', 'people dancing', 'man playing guitar', 'sunset over water|sunset',
    'woman running', 'children crossing the road|crossing', 'cat sleeping|cat', 'dog running|dog', 'boat on the sea|boat',
    'rain falling from a cloud|rain'],
  'not there': ['zeppelin', 'submarine periscope', 'chess tournament', 'accordion player', 'lighthouse keeper', 'quarterly revenue',
    'xylophone', 'microscope slide', 'toaster oven', 'harpsichord'],
};
const kShown = 10;

const { values, positionals } = parseArgs({
  options: { program: { type: 'string' }, collection: { type: 'string' }, html: { type: 'string' } },
  allowPositionals: true,
});
if (!values.program || !values.collection || positionals.length === 0) {
  process.stderr.write('usage: forty.mjs --program SACCADE --collection DIR [--html PAGE] MANIFEST.jsonl...\n');
  process.exit(2);
}

const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];

// All words of a picture's captions, by the sample's name of the picture.
const known = new Map();
for (const manifest of positionals) {
  for (const line of readFileSync(manifest, 'utf8').split('\n').filter(Boolean)) {
    const { id, image, captions } = JSON.parse(line);
    const ending = extname(image);
    const name = basename(id.replace(/^[^/]*\//, '').replace(/[^A-Za-z0-9._-]+/g, '_'), ending) + ending;
    known.set(`${basename(manifest, '.jsonl')}/${name}`, new Set(captions.flatMap(words)));
  }
}
const words_of = (hit) => known.get(hit.path.split('/').slice(-2).join('/')) ?? new Set(words(hit.caption));

const asked = Object.entries(kQueries).flatMap(([kind, queries]) => queries.map((query) => {
  const [text, thing] = query.split('|');
  return { kind, text, thing: kind === 'not there' ? words(text) : [thing ?? words(text).at(-1)] };
}));

function search(options) {
  const input = asked.map(({ text }) => `${text}\n`).join('');
  const run = spawnSync(values.program, ['search', '-c', values.collection, '--json', '-k', String(kShown), '--queries', '-', ...options],
    { input, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (run.status !== 0) throw new Error(run.stderr);
  return run.stdout.trim().split('\n').map((line) => JSON.parse(line));
}

const counts = ({ thing }, has) => thing.every((word) => has.has(word));
const shown = (answer) => answer.hits[0]?.match ?? '';
const caption = (hit) => (hit?.caption.split(';')[0] || basename(hit?.path ?? '')).trim();
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

const both = search([]);
const vectors = search(['--keyword-weight', '0']);
const lines = ['| query | there | right of ten, by what images show | right of ten | first hit, by what images show | first hit | shown |',
  '| --- | ---: | ---: | ---: | --- | --- | --- |'];
let page = '';
asked.forEach((query, q) => {
  const there = [...known.values()].filter((has) => counts(query, has)).length;
  const right = (answer) => answer.hits.filter((hit) => counts(query, words_of(hit))).length;
  lines.push(`| ${query.text} | ${there} | ${right(vectors[q])} | ${right(both[q])} | ${caption(vectors[q].hits[0])} | ${caption(both[q].hits[0])} | ${shown(both[q])} |`);
  if (q === 0 || asked[q - 1].kind !== query.kind) page += `<h2>${query.kind}</h2>\n`;
  page += `<h3>${escape(query.text)} <small>${there} there</small></h3>\n`;
  for (const [name, answer] of [['by what images show', vectors[q]], ['with keywords', both[q]]]) {
    page += `<div class="row"><b>${name}</b>${answer.hits.map((hit) =>
      `<figure class="${counts(query, words_of(hit)) ? 'right' : ''}"><img src="${escape(encodeURI(`file://${hit.path}`))}" alt="">` +
      `<figcaption>${escape(caption(hit))}<br><i>${hit.match ?? ''}${hit.match_probability?.right == null ? '' : ` ${hit.match_probability.right.toFixed(2)}`}</i></figcaption></figure>`).join('')}</div>\n`;
  }
});
process.stdout.write(`${lines.join('\n')}\n`);
if (values.html) {
  writeFileSync(values.html, `<!doctype html><meta charset="utf-8"><title>Forty queries</title><style>
body { font: 14px sans-serif; margin: 24px } .row { display: flex; gap: 8px; align-items: start; margin: 4px 0 }
.row b { width: 90px; flex: none } figure { margin: 0; width: 96px; border-top: 4px solid #ddd; padding-top: 4px }
figure.right { border-color: #2a7 } img { width: 80px; height: 80px; object-fit: contain } figcaption { font-size: 11px } h3 { margin: 16px 0 4px }
small { color: #666; font-weight: normal }
</style>\n${page}`);
}

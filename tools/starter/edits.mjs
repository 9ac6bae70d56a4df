#!/usr/bin/env node
// Edit queries ("this picture, but ...") of what the starter's sets hold, as one manifest (docs/datasets.md):
//
//   drawn by others   two pictures of one set whose names or code points differ by a rule of edit_rules.mjs, both ways
//   drawn by us       a set's SVG recoloured, turned, mirrored, shrunk, framed or put on a ground, or two of these at once
//
// Splits: train; val (objects that train lacks, to choose weights on) and val-phrasing (val's queries in wordings that train
// lacks); and three tests, each with its own gallery: test-library (Bootstrap's icons), test-combination (object and change
// are each trained on, never together), and test-phrasing (wordings that are never trained on). Everything is chosen by
// hashes of names.
//
//   node edits.mjs --manifests DIR --out DIR [--drawn 12000]
import {createHash} from 'node:crypto';
import {existsSync, mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {parseArgs} from 'node:util';

import {read_manifest} from './check.mjs';
import {kBlackRule, kColours, kDrawnRules, kFacingRule, kNameRules, kPeopleRules, kToneRules} from './edit_rules.mjs';
import {kTrainWordings} from './edit_wordings.mjs';
import {by_text, run_as_program} from './files.mjs';
import {write_manifest} from './manifests.mjs';

const kIconSets = ['lucide', 'tabler', 'phosphor', 'remixicon', 'mdi', 'bootstrap-icons'];
const kEmojiSets = ['openmoji', 'fluent-emoji-3d', 'fluent-emoji-flat'];
const kHeldOutSet = 'bootstrap-icons';
const kTestSize = 2500;  // of test-combination, test-phrasing and val
const kNegatives = 5;    // explicit ones a query
export const kKept = 2;  // further wordings of each change that only val-phrasing has
const kOthers = 2000;    // pictures of a gallery that no query of it names

// A number in [0, 1) that a text decides.
export function share(text) {
  return createHash('sha256').update(text).digest().readUInt32BE(0) / 2 ** 32;
}
const choose = (list, text) => list[Math.floor(share(text) * list.length)];

// Two pictures and the words for what the second has and the first lacks.
const pair = (from, to, object, rule) =>
    ({from, to, object, kind: rule.kind, say: rule.say, back: rule.back, more: {say: wordings(rule, 'say'), back: wordings(rule, 'back')}});

// A rule's further wordings, for training alone.
const wordings = ({kind, tone, old}, way) =>
    (kTrainWordings[kind][way] ?? []).map((text) => text.replace('{tone}', tone).replace('{old}', old));

// "outline/bell-off" -> ["outline/", ["bell", "off"]]: the folder is the drawing style.
function split_name(name) {
  const at = name.lastIndexOf('/') + 1;
  return [name.slice(0, at), name.slice(at).split('-')];
}

export function icon_pairs(records) {
  const by_name = new Map(records.map((record) => [record.id.slice(record.source_length), record]));
  const pairs = [];
  for (const [name, record] of by_name) {
    const [style, words] = split_name(name);
    for (const rule of kNameRules) {
      let wanted = null;
      if (rule.from === '' && words.length > 1 && words.at(-1) === rule.to) wanted = words.slice(0, -1);
      const at = words.indexOf(rule.to);
      if (rule.from !== '' && at >= 0 && words.length > 1) wanted = [...words.slice(0, at), rule.from, ...words.slice(at + 1)];
      const base = wanted && by_name.get(style + wanted.join('-'));
      if (!base || base.image === record.image) continue;
      const object = wanted.filter((word) => word !== rule.from).join(' ');
      pairs.push(pair(base, record, object, rule));
    }
  }
  return pairs;
}

export function emoji_pairs(records) {
  const plain = (id) => id.toLowerCase().replace(/-fe0f/g, '');
  const by_id = new Map(records.map((record) => [plain(record.id), record]));
  const words = (record) => record.captions[0].replace(/ with (light|medium-light|medium|medium-dark|dark) skin tone/, '')
                                .replace(/ black and white$/, '');
  const pairs = [];
  for (const [id, record] of by_id) {
    const head = id.slice(0, id.lastIndexOf('/') + 1);
    const codes = id.slice(head.length).split('-');
    const add = (other, rule) => {
      const base = by_id.get(head + other.join('-'));
      if (base && base !== record) pairs.push(pair(base, record, words(base), rule));
    };
    for (const rule of kToneRules) {
      if (!codes.includes(rule.to)) continue;
      add(rule.from === '' ? codes.filter((code) => code !== rule.to) : codes.map((code) => code === rule.to ? rule.from : code), rule);
    }
    for (const rule of kPeopleRules) {
      if (codes.includes(rule.to)) add(codes.map((code) => code === rule.to ? rule.from : code), rule);
    }
    if (id.endsWith(kFacingRule.ending)) add(id.slice(head.length, -kFacingRule.ending.length).split('-'), kFacingRule);
    const black = by_id.get(id.replace('openmoji/', 'openmoji/black/'));
    if (id.startsWith('openmoji/') && black && black !== record) pairs.push(pair(record, black, words(record), kBlackRule));
  }
  return pairs;
}

// An SVG with one or two changes drawn into it; null for one that has no box, or no ink of its own to recolour.
export function redraw(svg, rules, colours) {
  const root = /<svg\b[^>]*>/.exec(svg)?.[0];
  const box = root && /\bviewBox="(-?[\d.]+)[ ,]+(-?[\d.]+)[ ,]+([\d.]+)[ ,]+([\d.]+)"/.exec(root);
  const end = svg.lastIndexOf('</svg>');
  if (!box || end < 0) return null;
  const start = svg.indexOf(root) + root.length;
  let inside = svg.slice(start, end);
  let head = root;
  const numbers = box.slice(1).map(Number);
  const one_ink = !/(fill|stroke|stop-color)="#/.test(svg) && !/style=/.test(svg) && !/<image/.test(svg);
  for (const [i, rule] of rules.entries()) {
    if (rule.needs_ink && !one_ink) return null;
    const drawn = rule.draw(inside, numbers, kColours[colours[i]]);
    inside = drawn.inside;
    if (drawn.colour) {
      const ink = /fill="(?!none)/.test(head) || !/fill=/.test(head) ? ` fill="${drawn.colour}"` : '';
      head = head.replace(/ fill="currentColor"/, '').replace('<svg', `<svg color="${drawn.colour}"${/ fill=/.test(head.replace(/ fill="currentColor"/, '')) ? '' : ink}`);
    }
  }
  return head + inside + '</svg>';
}

// Pairs of SVGs and what is drawn of them here: two of one object, so that each is the other's hard negative.
function drawn_pairs(records, wanted, folder) {
  const order = records.filter((record) => record.image.endsWith('.svg')).sort((a, b) => share(a.id) - share(b.id));
  const pairs = [];
  for (const record of order) {
    if (pairs.length >= wanted) break;
    const svg = readFileSync(record.image, 'utf8');
    const made = new Set();
    for (let turn = 0; turn < 3; turn++) {
      const seed = `${record.id} ${turn}`;
      const rules = [choose(kDrawnRules, `${seed} first`)];
      if (share(`${seed} two`) < 0.25) {
        const second = choose(kDrawnRules.filter((rule) => !(rule.turns && rules[0].turns) && rule.kind !== rules[0].kind), `${seed} second`);
        // The ground lies under what is drawn on it, and the frame around it.
        rules.push(second);
        const layer = ({kind}) => ['on a ground', 'framed'].indexOf(kind);
        rules.sort((a, b) => layer(a) - layer(b));
      }
      const names = Object.keys(kColours);
      const first = choose(names, `${seed} colour`);
      const colours = rules.map((_, i) => i === 0 ? first : choose(names.filter((name) => name !== first), `${seed} colour ${i}`));
      const drawn = redraw(svg, rules, colours);
      if (!drawn || made.has(drawn)) continue;
      made.add(drawn);
      const kind = rules.map((rule) => rule.kind).join(' + ');
      const look = rules.map((rule, i) => rule.coloured ? `${rule.kind} ${colours[i]}` : rule.kind).join(' + ');
      const image = join(folder, `${record.id.replace(/[^A-Za-z0-9._-]+/g, '_')}.${turn}.svg`);
      writeFileSync(image, drawn);
      const phrasings = Math.min(...rules.map((rule) => rule.say.length));
      const say = [];
      for (let p = 0; p < phrasings; p++) {
        // The last phrasing of each stays the last.
        say.push(rules.map((rule, i) => rule.say.at(p - phrasings).replace('{c}', colours[i])).join(' and '));
      }
      const further = Math.min(...rules.map((rule) => wordings(rule, 'say').length));
      const more = Array.from({length: further}, (_, p) =>
          rules.map((rule, i) => wordings(rule, 'say')[p].replace('{c}', colours[i])).join(' and '));
      pairs.push({from: record, to: {...record, id: `${record.id} ${look}`, image}, object: record.captions[0], kind, say, back: null, more: {say: more}});
    }
  }
  return pairs;
}

// Both ways of a pair as triplets, without a split yet.
function triplets_of(pairs, set) {
  const triplets = [];
  for (const {from, to, object, kind, say, back, more} of pairs) {
    const way = (a, b, texts, further, name) => ({
      set, object, kind: name, reference: a, target: b, trained: texts.slice(0, -1), held: texts.at(-1), further,
      key: `${a.id} ${name} ${b.id}`
    });
    triplets.push(way(from, to, say, more.say, kind));
    if (back) triplets.push(way(to, from, back, more.back, `${kind}, undone`));
  }
  return triplets;
}

const combination = ({object, kind}) => `${object} | ${kind.replace(', undone', '')}`;

// Objects that only val has, and combinations that only test-combination has.
function assign_splits(triplets) {
  const kinds_of = new Map();
  for (const {object, kind} of triplets) {
    if (!kinds_of.has(object)) kinds_of.set(object, new Set());
    kinds_of.get(object).add(kind.replace(', undone', ''));
  }
  for (const triplet of triplets) {
    const {object} = triplet;
    if (triplet.set === kHeldOutSet) triplet.split = 'test-library';
    else if (share(`val ${object}`) < 0.08) triplet.split = 'val';
    else if (kinds_of.get(object).size > 1 && share(`combination ${combination(triplet)}`) < 0.12) triplet.split = 'test-combination';
    else triplet.split = 'train';
  }
  // Training shows no picture that a test asks for, and none of val's at all.
  const tested = new Set();
  for (const {split, reference, target} of triplets) {
    if (split === 'val' || split === 'test-combination') tested.add(target.id);
    if (split === 'val') tested.add(reference.id);
  }
  return triplets.filter(({split, reference, target}) => split !== 'train' || !(tested.has(target.id) || tested.has(reference.id)));
}

const thinned = (list, most, seed) =>
    list.map((each) => [share(`${seed} ${each.key}`), each]).sort((a, b) => a[0] - b[0]).slice(0, most).map(([, each]) => each);

// What a triplet says in a split, and its other wordings there.
function wordings_in(split, {trained, held, further, key}) {
  const text = choose(trained, `text ${key}`);
  if (split === 'train') return [text, [...trained, ...further.slice(0, -kKept)]];
  if (split === 'val-phrasing') return [choose(further.slice(-kKept), `text ${key}`), further.slice(-kKept)];
  return split === 'test-phrasing' ? [held, trained] : [text, [...trained, held]];
}

// A split's queries and its gallery: every picture that a query names, every other change of their objects, and others.
function lines_of(split, gallery, triplets, changes, others) {
  const pictures = new Map();
  const add = (record) => pictures.set(record.id, record.image);
  const queries = triplets.map((triplet, number) => {
    const {set, object, kind, reference, target} = triplet;
    const siblings = [...(changes.get(`${set} ${object}`)?.values() ?? [])]
                         .filter((record) => record.id !== reference.id && record.id !== target.id && record.image !== target.image);
    for (const record of [reference, target, ...siblings]) add(record);
    const [text, others] = wordings_in(split, triplet);
    return {
      id: `${split}/${number}`, reference: reference.id, texts: [text],
      paraphrases: [...new Set(others)].filter((other) => other !== text), targets: [target.id],
      ...(split === 'train' ? {} : {negatives: siblings.slice(0, kNegatives).map(({id}) => id)}),
      shared_concept: object, kind, gallery, group: `${set}/${object}`, split
    };
  });
  for (const record of others) add(record);
  // A gallery stands with the split of its name.
  const shown = gallery === split ? [...pictures].sort((a, b) => by_text(a[0], b[0])).map(([id, image]) => ({picture: image, id, gallery})) : [];
  return [...shown, ...queries];
}

function main() {
  const {values} = parseArgs({
    options: {manifests: {type: 'string'}, out: {type: 'string'}, drawn: {type: 'string', default: '12000'}}
  });
  if (!values.manifests || !values.out) throw new Error('--manifests DIR and --out DIR are needed');
  const out = resolve(values.out);
  const folder = join(out, 'drawn');
  mkdirSync(folder, {recursive: true});
  const triplets = [];
  const changes = new Map();  // "set object" -> id -> record: all that is known of an object in its set
  const all = new Map();      // set -> records
  for (const set of [...kIconSets, ...kEmojiSets]) {
    const path = join(values.manifests, `${set}.jsonl`);
    if (!existsSync(path)) throw new Error(`${path} is missing; node manifests.mjs writes it`);
    const records = read_manifest(path).map((record) => ({...record, source_length: record.id.indexOf('/') + 1}));
    all.set(set, records);
    const held_out = set === kHeldOutSet;
    const drawn = drawn_pairs(records, Math.round(Number(values.drawn) * (held_out ? 0.1 : 0.9 / (kIconSets.length + 1))), folder);
    const pairs = [...(kIconSets.includes(set) ? icon_pairs(records) : emoji_pairs(records)), ...drawn];
    for (const {from, to, object} of pairs) {
      const key = `${set} ${object}`;
      if (!changes.has(key)) changes.set(key, new Map());
      for (const record of [from, to]) changes.get(key).set(record.id, record);
    }
    triplets.push(...triplets_of(pairs, set));
  }
  const kept = assign_splits(triplets);
  const of = (split) => kept.filter((triplet) => triplet.split === split);
  const train = of('train');
  const splits = {
    'train': train,
    'val': thinned(of('val'), kTestSize, 'val'),
    'val-phrasing': thinned(of('val'), kTestSize, 'val'),
    'test-library': thinned(of('test-library'), 2 * kTestSize, 'library'),
    'test-combination': thinned(of('test-combination'), kTestSize, 'combination'),
    // Of what is trained on, in words that are not.
    'test-phrasing': thinned(train, kTestSize, 'phrasing'),
  };
  const rest = [...all].filter(([set]) => set !== kHeldOutSet).flatMap(([, records]) => records);
  const lines = [];
  const counts = {};
  for (const [split, list] of Object.entries(splits)) {
    const others = split === 'train' ? [] : split === 'test-library' ? all.get(kHeldOutSet) :
                   thinned(rest.map((record) => ({...record, key: record.id})), kOthers, `others ${split}`);
    const made = lines_of(split, split === 'val-phrasing' ? 'val' : split, list, changes, others);
    counts[split] = {queries: list.length, pictures: made.length - list.length};
    lines.push(...made);
  }
  write_manifest(join(out, 'edits.jsonl'), lines);
  for (const [split, {queries, pictures}] of Object.entries(counts)) {
    process.stderr.write(`${split}: ${queries} queries, ${pictures} pictures\n`);
  }
}

run_as_program(import.meta.url, main);

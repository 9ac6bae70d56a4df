// Edit queries: which pairs the rules find, what is drawn, and what the splits hold apart.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {test} from 'node:test';
import {fileURLToPath} from 'node:url';

import {kBlackRule, kDrawnRules, kFacingRule, kNameRules, kPeopleRules, kToneRules} from '../edit_rules.mjs';
import {kTrainWordings} from '../edit_wordings.mjs';
import {emoji_pairs, icon_pairs, kKept, redraw} from '../edits.mjs';

const record = (id, caption = id) => ({id, image: `/${id}.svg`, captions: [caption], source_length: id.indexOf('/') + 1});
const shown = (pairs) => pairs.map(({from, to, object, kind}) => `${from.id} > ${to.id} (${object}, ${kind})`);

test('icons pair by the endings and words of their names, within one style', () => {
  const records = ['s/outline/bell', 's/outline/bell-off', 's/filled/bell-off', 's/outline/arrow-left', 's/outline/arrow-right',
                   's/outline/off', 's/outline/heart', 's/outline/user-heart'].map((id) => record(id));
  assert.deepEqual(shown(icon_pairs(records)), [
    's/outline/bell > s/outline/bell-off (bell, off)',
    's/outline/arrow-left > s/outline/arrow-right (arrow, left to right)',
  ]);
});

test('emoji pair by their code points', () => {
  const pairs = emoji_pairs([
    record('openmoji/1F44B', 'waving hand'), record('openmoji/1F44B-1F3FB', 'waving hand with light skin tone'),
    record('openmoji/1F44B-1F3FC', 'waving hand with medium-light skin tone'), record('openmoji/black/1F44B', 'waving hand black and white'),
    record('openmoji/1F3C3-200D-2642-FE0F', 'man running'), record('openmoji/1F3C3-200D-2640-FE0F', 'woman running'),
    record('openmoji/1F3C3-200D-2642-FE0F-200D-27A1-FE0F', 'man running facing right'),
  ]);
  assert.deepEqual(shown(pairs), [
    'openmoji/1F44B > openmoji/black/1F44B (waving hand, black and white)',
    'openmoji/1F44B > openmoji/1F44B-1F3FB (waving hand, skin tone)',
    'openmoji/1F44B > openmoji/1F44B-1F3FC (waving hand, skin tone)',
    'openmoji/1F44B-1F3FB > openmoji/1F44B-1F3FC (waving hand, skin tone)',
    'openmoji/1F3C3-200D-2642-FE0F > openmoji/1F3C3-200D-2640-FE0F (man running, gender)',
    'openmoji/1F3C3-200D-2642-FE0F > openmoji/1F3C3-200D-2642-FE0F-200D-27A1-FE0F (man running, facing)',
  ]);
});

const kAllRules = [...kNameRules, ...kToneRules, ...kPeopleRules, kFacingRule, kBlackRule, ...kDrawnRules];

test('every rule has phrasings to train on and one to hold out, each once', () => {
  for (const rule of kAllRules) {
    for (const list of [rule.say, rule.back ?? rule.say]) {
      assert.ok(list.length >= 4, rule.kind);
      assert.equal(new Set(list).size, list.length, rule.kind);
    }
  }
});

test('further wordings have no word that of all phrasings of their change only the held-out one has', () => {
  const words = (text) => (text.match(/[a-z0-9{}-]+/g) ?? []).filter((word) => !['a', 'an', 'the'].includes(word));
  assert.deepEqual(new Set(Object.keys(kTrainWordings)), new Set(kAllRules.map(({kind}) => kind)));
  for (const rule of kAllRules) {
    for (const way of ['say', 'back']) {
      const list = kTrainWordings[rule.kind][way];
      assert.equal(Boolean(list), Boolean(rule[way]), rule.kind);
      if (!list) continue;
      assert.equal(new Set(list).size, list.length, rule.kind);
      const trained = new Set(rule[way].slice(0, -1).flatMap(words));
      const kept = words(rule[way].at(-1)).filter((word) => !trained.has(word));
      for (const text of list) {
        assert.ok(!kept.some((word) => words(text).includes(word)), `${rule.kind}: "${text}" says a word of "${rule[way].at(-1)}"`);
      }
    }
  }
});

test('wordings that validation keeps for itself stand nowhere else', () => {
  const lists = Object.values(kTrainWordings).flatMap(({say, back}) => back ? [say, back] : [say]);
  const trained = new Set([...lists.flatMap((list) => list.slice(0, -kKept)), ...kAllRules.flatMap(({say, back}) => [...say, ...back ?? []])]);
  for (const text of lists.flatMap((list) => list.slice(-kKept))) assert.ok(!trained.has(text), text);
});

const rule_of = (kind) => kDrawnRules.find((rule) => rule.kind === kind);
const kIcon = '<svg width="24" viewBox="0 0 24 24" fill="none" stroke="currentColor"><path d="M1 1h9"/></svg>';

test('changes are drawn into the SVG', () => {
  assert.equal(redraw(kIcon, [rule_of('colour')], ['red']),
               '<svg color="#d7263d" width="24" viewBox="0 0 24 24" fill="none" stroke="currentColor"><path d="M1 1h9"/></svg>');
  assert.match(redraw('<svg viewBox="0 0 24 24"><path d="M1 1h9"/></svg>', [rule_of('colour')], ['red']), /^<svg color="#d7263d" fill="#d7263d"/);
  assert.match(redraw(kIcon, [rule_of('turned right')], ['red']), /<g transform="translate\(12 12\) rotate\(90\) translate\(-12 -12\)"><path d="M1 1h9"\/><\/g><\/svg>$/);
  // The ground lies under what was drawn before it.
  assert.match(redraw(kIcon, [rule_of('smaller'), rule_of('on a ground')], ['red', 'blue']), /stroke="currentColor"><rect [^>]*fill="#1d4ed8"[^>]*\/><g /);
  assert.equal(redraw('<svg><path/></svg>', [rule_of('smaller')], ['red']), null);
  assert.equal(redraw('<svg viewBox="0 0 1 1"><path fill="#123456"/></svg>', [rule_of('colour')], ['red']), null);
});

test('the splits hold apart what they say, and the same sets give the same file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'edits-'));
  try {
    const write = (set, ids) => writeFileSync(join(folder, `${set}.jsonl`), ids.map((id) => {
      const image = join(folder, `${set}-${id.replaceAll('/', '_')}.svg`);
      writeFileSync(image, kIcon.replace('M1 1', `M${id.length} ${ids.indexOf(id)}`));
      return `${JSON.stringify({id: `${set}/${id}`, image, captions: [id], source: set, licence: 'MIT', group: id})}\n`;
    }).join(''));
    const objects = Array.from({length: 60}, (_, i) => `thing${i}`);
    const icons = objects.flatMap((name) => [name, `${name}-off`, `${name}-plus`, `${name}-heart`]);
    for (const set of ['lucide', 'tabler', 'phosphor', 'remixicon', 'mdi', 'bootstrap-icons']) write(set, icons);
    for (const set of ['openmoji', 'fluent-emoji-3d', 'fluent-emoji-flat']) write(set, ['1f44b', '1f44b-1f3fb']);
    const program = join(dirname(fileURLToPath(import.meta.url)), '..', 'edits.mjs');
    const run = () => {
      execFileSync(process.execPath, [program, '--manifests', folder, '--out', join(folder, 'out'), '--drawn', '100'], {stdio: 'ignore'});
      return readFileSync(join(folder, 'out', 'edits.jsonl'), 'utf8');
    };
    const text = run();
    assert.equal(run(), text);
    const lines = text.trim().split('\n').map((line) => JSON.parse(line));
    const galleries = new Map();
    for (const {picture, id, gallery} of lines.filter((line) => line.picture)) {
      galleries.set(`${gallery} ${id}`, picture);
    }
    const queries = lines.filter((line) => line.reference);
    const of = (split) => queries.filter((query) => query.split === split);
    for (const split of ['train', 'val', 'val-phrasing', 'test-library', 'test-combination', 'test-phrasing']) assert.ok(of(split).length > 0, split);
    for (const query of queries) {
      for (const id of [query.reference, ...query.targets, ...(query.negatives ?? [])]) {
        assert.ok(galleries.has(`${query.gallery} ${id}`), id);
      }
      assert.ok(!query.targets.includes(query.reference));
      assert.ok(!(query.negatives ?? []).some((id) => query.targets.includes(id) || id === query.reference));
    }
    const train = of('train');
    const trained = new Set(train.flatMap(({reference, targets}) => [reference, ...targets]));
    for (const {reference, targets} of [...of('test-library'), ...of('val')]) {
      for (const id of [reference, ...targets]) assert.ok(!trained.has(id), id);
    }
    assert.ok(!train.some(({reference}) => reference.startsWith('bootstrap-icons/')));
    const plain = (kind) => kind.replace(', undone', '');
    const seen = new Set(train.map(({shared_concept, kind}) => `${shared_concept} ${plain(kind)}`));
    for (const {shared_concept, kind, targets} of of('test-combination')) {
      assert.ok(!seen.has(`${shared_concept} ${plain(kind)}`));
      assert.ok(!trained.has(targets[0]));
    }
    const said = new Set(train.flatMap(({texts, paraphrases}) => [...texts, ...paraphrases]));
    for (const {texts} of [...of('test-phrasing'), ...of('val-phrasing')]) assert.ok(!said.has(texts[0]), texts[0]);
    assert.deepEqual(of('val-phrasing').map(({reference, targets}) => [reference, targets]), of('val').map(({reference, targets}) => [reference, targets]));
  } finally {
    rmSync(folder, {recursive: true});
  }
});

// Edit queries of emoji by colour and by thing.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {changes, colour_and_thing} from '../emoji_changes.mjs';

test('names that are a colour and a thing', () => {
  assert.deepEqual(colour_and_thing('red heart'), ['red', 'heart']);
  assert.deepEqual(colour_and_thing('light blue heart'), ['light blue', 'heart']);
  for (const name of ['heart', 'red', 'broken heart', 'red question mark', 'light blue']) assert.equal(colour_and_thing(name), null, name);
});

test('the colour changes, or the thing, and both ways', () => {
  const records = [['1', 'red heart'], ['2', 'blue heart'], ['3', 'red circle'], ['4', 'red heart'], ['5', 'a cat']].map(
      ([id, name]) => ({id, captions: [name, 'other words']}));
  assert.deepEqual(
      changes(records, 'set').map(({reference, texts, targets, kind}) => `${reference} ${texts} ${targets} ${kind}`),
      ['1 blue 2 colour', '1 circle 3 thing', '2 red 1 colour', '3 heart 1 thing']);
});

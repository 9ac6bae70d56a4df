#!/usr/bin/env node
// Learns a byte-level BPE in CLIP's form from the captions of training manifests, and writes the files a
// checkpoint needs: vocab.json, merges.txt, tokenizer.json, tokenizer_config.json, special_tokens_map.json.
//
// Ids, as in openai/CLIP simple_tokenizer.py: 256 byte symbols in the order of bytes_to_unicode(), the same
// 256 with
// "</w>" (a symbol that ends a word), one a merge in the order learned, <|startoftext|>, <|endoftext|>.
// Held-out sets are never read: their words must be made of what training taught.
//
//   node tokenizer.mjs --manifests DIR --out DIR [--merges 6000] [--context 32]
import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {parseArgs} from 'node:util';
import {kHeldOut, read_manifests} from './check.mjs';
import {by_text, run_as_program} from './files.mjs';

export const kStart = '<|startoftext|>';
export const kEnd = '<|endoftext|>';
const kWordEnd = '</w>';
const kPattern = [
  '<\\|startoftext\\|>', '<\\|endoftext\\|>', '\'s|\'t|\'re|\'ve|\'m|\'ll|\'d', '[\\p{L}]+', '[\\p{N}]',
  '[^\\s\\p{L}\\p{N}]+'
].join('|');

// Byte -> printable character, in the order of ids: printable Latin-1 as itself, the rest from U+0100 upward.
export const kByteSymbols = (() => {
  const range = (first, last) => Array.from({length: last - first + 1}, (_, i) => first + i);
  const printable = [...range(0x21, 0x7e), ...range(0xa1, 0xac), ...range(0xae, 0xff)];
  const symbols = new Map(printable.map((byte) => [byte, String.fromCodePoint(byte)]));
  for (let byte = 0; byte < 256; byte++) {
    if (!symbols.has(byte)) symbols.set(byte, String.fromCodePoint(256 + symbols.size - printable.length));
  }
  return symbols;
})();
const kSymbolBytes = new Map([...kByteSymbols].map(([byte, symbol]) => [symbol, byte]));

// A text's pieces, each later split no further than bytes and never joined with its neighbour.
export function pre_tokenize(text) {
  return text.normalize('NFC').replace(/\s+/g, ' ').toLowerCase().match(new RegExp(kPattern, 'gu')) ?? [];
}

// A piece as symbols: its bytes, the last one marked as the word's end.
export function byte_symbols(piece) {
  const symbols = [...Buffer.from(piece, 'utf8')].map((byte) => kByteSymbols.get(byte));
  symbols.push(symbols.pop() + kWordEnd);
  return symbols;
}

// The `count` merges [left, right] that a Map of piece -> weight teaches, in order. The most frequent pair is
// merged, of equals the first in the order of code units, so the result depends on the counts alone. Stops
// early when no pair has a weight of 2. Cost: linear in the pieces that a merge touches.
export function learn_merges(pieces, count) {
  const words =
      [...pieces].sort((a, b) => by_text(a[0], b[0])).map(([
                                                            piece, weight
                                                          ]) => ({symbols: byte_symbols(piece), weight}));
  const pairs = new Map();  // "left right" -> {weight, words that have it}
  const change = (word, index, sign) => {
    for (let i = 0; i + 1 < word.symbols.length; i++) {
      const key = `${word.symbols[i]} ${word.symbols[i + 1]}`;
      const pair = pairs.get(key) ?? {weight: 0, words: new Set()};
      pair.weight += sign * word.weight;
      pair.words.add(index);
      if (pair.weight > 0)
        pairs.set(key, pair);
      else
        pairs.delete(key);
    }
  };
  words.forEach((word, index) => change(word, index, 1));
  const merges = [];
  while (merges.length < count) {
    let best = null;
    let best_weight = 1;
    for (const [key, {weight}] of pairs) {
      if (weight > best_weight || (weight === best_weight && best !== null && by_text(key, best) < 0)) {
        best = key;
        best_weight = weight;
      }
    }
    if (best === null) break;
    const [left, right] = best.split(' ');
    merges.push([left, right]);
    for (const index of [...pairs.get(best).words]) {
      const word = words[index];
      change(word, index, -1);
      word.symbols = merge_pair(word.symbols, left, right);
      change(word, index, 1);
    }
  }
  return merges;
}

function merge_pair(symbols, left, right) {
  const result = [];
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      result.push(left + right);
      i++;
    } else {
      result.push(symbols[i]);
    }
  }
  return result;
}

export function build_vocabulary(merges) {
  const symbols = [...kByteSymbols.values()];
  const all = [
    ...symbols, ...symbols.map((symbol) => symbol + kWordEnd), ...merges.map((pair) => pair.join('')), kStart,
    kEnd
  ];
  const vocabulary = new Map();
  // Two merges can spell one symbol ("ab" + "c", "a" + "bc"): it has one id, the first.
  for (const symbol of all)
    if (!vocabulary.has(symbol)) vocabulary.set(symbol, vocabulary.size);
  return vocabulary;
}

// Plain oracle of an encoder: token texts of `text`, without start and end.
export function encode(text, merges) {
  const rank = new Map(merges.map((pair, index) => [pair.join(' '), index]));
  return pre_tokenize(text).flatMap((piece) => {
    let symbols = byte_symbols(piece);
    for (;;) {
      let best = -1;
      let best_rank = Infinity;
      for (let i = 0; i + 1 < symbols.length; i++) {
        const at = rank.get(`${symbols[i]} ${symbols[i + 1]}`) ?? Infinity;
        if (at < best_rank) [best, best_rank] = [i, at];
      }
      if (best < 0) return symbols;
      symbols = merge_pair(symbols, symbols[best], symbols[best + 1]);
    }
  });
}

// The text that tokens spell, a space after each word end.
export function decode(tokens) {
  const text = tokens.join('').replaceAll(kWordEnd, ' ');
  const bytes = [...text].flatMap((symbol) => (symbol === ' ' ? [0x20] : [kSymbolBytes.get(symbol)]));
  return Buffer.from(bytes).toString('utf8').trim();
}

// How often each piece occurs in the captions of the training manifests.
export function count_pieces(manifests) {
  const counts = new Map();
  for (const [name, records] of manifests) {
    if (kHeldOut.includes(name)) continue;
    for (const {captions} of records) {
      for (const caption of captions)
        for (const piece of pre_tokenize(caption)) counts.set(piece, (counts.get(piece) ?? 0) + 1);
    }
  }
  return counts;
}

function tokenizer_json(vocabulary, merges) {
  const special = (content) => ({
    id: vocabulary.get(content),
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true
  });
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [special(kStart), special(kEnd)],
    normalizer: {
      type: 'Sequence',
      normalizers:
          [{type: 'NFC'}, {type: 'Replace', pattern: {Regex: '\\s+'}, content: ' '}, {type: 'Lowercase'}]
    },
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        {type: 'Split', pattern: {Regex: kPattern}, behavior: 'Removed', invert: true},
        {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true}
      ]
    },
    post_processor: {
      type: 'RobertaProcessing',
      sep: [kEnd, vocabulary.get(kEnd)],
      cls: [kStart, vocabulary.get(kStart)],
      trim_offsets: false,
      add_prefix_space: false
    },
    decoder: {type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true},
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: kEnd,
      continuing_subword_prefix: '',
      end_of_word_suffix: kWordEnd,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(vocabulary),
      merges
    },
  };
}

// Writes the five files of a CLIP tokenizer with `context` positions into `folder`.
export function write_tokenizer(folder, merges, context) {
  const vocabulary = build_vocabulary(merges);
  // JSON objects would sort the keys "0" to "9" first; ids are values, so readers do not mind.
  const write = (name, value) =>
      writeFileSync(join(folder, name), `${JSON.stringify(value, null, name === 'vocab.json' ? 0 : 2)}\n`);
  mkdirSync(folder, {recursive: true});
  write('vocab.json', Object.fromEntries(vocabulary));
  writeFileSync(
      join(folder, 'merges.txt'), `#version: 0.2\n${merges.map((pair) => `${pair.join(' ')}\n`).join('')}`);
  write('tokenizer.json', tokenizer_json(vocabulary, merges));
  const special = {bos_token: kStart, eos_token: kEnd, pad_token: kEnd, unk_token: kEnd};
  write('special_tokens_map.json', special);
  write('tokenizer_config.json', {
    ...special,
    add_prefix_space: false,
    do_lower_case: true,
    errors: 'replace',
    model_max_length: context,
    tokenizer_class: 'CLIPTokenizer'
  });
  return vocabulary.size;
}

function main() {
  const {values} = parseArgs({
    options: {
      manifests: {type: 'string'},
      out: {type: 'string'},
      merges: {type: 'string', default: '6000'},
      context: {type: 'string', default: '32'}
    }
  });
  if (!values.manifests || !values.out) throw new Error('--manifests DIR and --out DIR are needed');
  for (const name of ['merges', 'context']) {
    if (!(Number.isInteger(Number(values[name])) && Number(values[name]) > 0))
      throw new Error(`--${name} ${values[name]}: a whole number above 0 is right`);
  }
  const manifests = read_manifests(values.manifests);
  const pieces = count_pieces(manifests);
  if (pieces.size === 0)
    throw new Error(`${values.manifests} has no training captions; run manifests.mjs first`);
  const merges = learn_merges(pieces, Number(values.merges));
  const size = write_tokenizer(values.out, merges, Number(values.context));

  // What the vocabulary costs: tokens a caption, start and end not counted, over every 20th caption.
  let captions = 0;
  let tokens = 0;
  let longest = 0;
  const sample = [...manifests.values()]
                     .flatMap((records) => records.map((record) => record.captions[0]))
                     .filter((_, index) => index % 20 === 0);
  for (const caption of sample) {
    const length = encode(caption, merges).length;
    captions++;
    tokens += length;
    longest = Math.max(longest, length);
  }
  process.stderr.write(`tokenizer: ${pieces.size} distinct pieces, ${merges.length} merges, ${
      size} ids; first captions: ${(tokens / captions).toFixed(1)} tokens, at most ${longest}\n`);
}

run_as_program(import.meta.url, main);

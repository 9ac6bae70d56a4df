// Unit tests of the starter's data tools, on fixtures written here. Run: node --test
// tests/starter_data_test.mjs
import assert from 'node:assert/strict';
import {mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {test} from 'node:test';
import {fileURLToPath} from 'node:url';

import {check_manifests} from '../check.mjs';
import {
  is_english,
  parse_rdf,
  read_openclipart,
  read_tuxpaint,
  sentence_forms,
  singular
} from '../clipart.mjs';
import {code_key, emoji_captions, label_forms, read_fluent, tone_count, without_tones} from '../emoji.mjs';
import {outline_digest, picture_digest} from '../files.mjs';
import {on_ground} from '../grounds.mjs';
import {read_bootstrap, read_lucide, read_mdi, read_tabler, without_design_number} from '../icons.mjs';
import {choose_icons, draw, read_iconify, take_apart} from '../iconify.mjs';
import {lexicon_of, merge_equal_pictures} from '../manifests.mjs';
import {kNewSets, read_names} from '../new_icons.mjs';
import * as bpe from '../tokenizer.mjs';
import {
  clean_text,
  icon_captions,
  kMaxCaptions,
  name_to_words,
  rephrasings,
  synonym_variants,
  usable_tags
} from '../words.mjs';

const kRoot = join(dirname(fileURLToPath(import.meta.url)), '../../..');

// A folder with `files` (path -> text), gone after the test.
function make_folder(context, files) {
  const folder = mkdtempSync(join(tmpdir(), 'starter-'));
  context.after(() => rmSync(folder, {recursive: true}));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), {recursive: true});
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

const svg = (outline, extra = '') =>
    `<svg xmlns="http://www.w3.org/2000/svg" ${extra}><path d="${outline}"/></svg>`;
const quiet = (action) => {
  const write = process.stderr.write;
  process.stderr.write = () => true;
  try {
    return action();
  } finally {
    process.stderr.write = write;
  }
};

test('names become words', () => {
  assert.equal(name_to_words('arrow-down-circle'), 'arrow down circle');
  assert.equal(name_to_words('arrowDown2Circle'), 'arrow down 2 circle');
  assert.equal(name_to_words('file_type-h264'), 'file type h264');
  assert.equal(name_to_words('arrow-90deg-left'), 'arrow 90 deg left');
  assert.equal(clean_text('  “Toilets” &amp;  more. '), '"toilets" & more');
});

test('a number that only counts designs goes, one that is shown stays', () => {
  const names = new Set(['message', 'dice', 'movie']);
  const exists = (name) => names.has(name);
  assert.equal(without_design_number('message-2', exists), 'message');
  assert.equal(without_design_number('movie-2-ai', exists), 'movie-ai');
  assert.equal(without_design_number('dice-2', exists), 'dice-2');
  assert.equal(without_design_number('number-3', exists), 'number-3');
});

test('rephrasings turn shapes, badges and strike-outs', () => {
  assert.deepEqual(rephrasings('circle check'), ['check circle', 'check in a circle']);
  assert.ok(rephrasings('file plus').includes('file with a plus sign'));
  assert.ok(rephrasings('bell off').includes('crossed out bell'));
  assert.ok(!rephrasings('power off').includes('crossed out power'));
  assert.deepEqual(rephrasings('circle letter h'), ['h circle', 'letter h in a circle']);
  assert.deepEqual(rephrasings('number circle four'), ['4 circle', 'number 4 in a circle']);
  assert.deepEqual(rephrasings('file type pdf'), ['pdf file', 'filetype pdf']);
  assert.deepEqual(rephrasings('arrow left'), ['left arrow', 'arrow pointing left']);
  assert.deepEqual(rephrasings('bell'), []);
});

test('synonyms replace the longest phrase, wherever it stands', () => {
  assert.ok(synonym_variants('mail plus').includes('envelope plus'));
  assert.ok(synonym_variants('mail plus').includes('mail add'));
  assert.ok(synonym_variants('trash can').includes('bin'));
  assert.ok(!synonym_variants('trash can').includes('bin can'));
  assert.ok(!synonym_variants('off road').some((text) => text.startsWith('slash')));
  assert.deepEqual(synonym_variants('zeppelin'), []);
});

test('an icon has its name first, distinct captions, no junk, the same ones each time', () => {
  const about = {
    id: 'set/bell',
    words: 'bell',
    style: 'fill',
    tags: ['*new*', 'Alarm', 'bell', '123', 'alarm'],
    category: 'system'
  };
  const captions = icon_captions(about);
  assert.deepEqual(captions.slice(0, 2), ['bell fill', 'bell']);
  assert.ok(captions.includes('alarm') && captions.includes('bell, system'));
  assert.ok(!captions.some((text) => text.includes('*') || text === '123'));
  assert.equal(new Set(captions).size, captions.length);
  assert.deepEqual(icon_captions(about), captions);
  const many = Array.from({length: 40}, (_, i) => `tag${String.fromCharCode(97 + i % 26)}${i}`);
  assert.ok(
      icon_captions({...about, words: 'mail circle off', aliases: many, tags: many}).length <= kMaxCaptions);
  assert.deepEqual(usable_tags(['a', 'font-size', 'Font size'], 'letter'), ['font size']);
});

test('lucide: old names of an icon become its captions, not pictures of their own', (context) => {
  const folder = make_folder(context, {
    'lucide-static/tags.json': JSON.stringify({'circle-check': ['done'], 'bell': ['alarm']}),
    'lucide-static/icons/circle-check.svg': svg('M1 1', 'class="lucide-circle-check"'),
    'lucide-static/icons/check-circle.svg': `<!-- old -->\n${svg('M1 1', 'class="lucide-check-circle"')}`,
    'lucide-static/icons/bell.svg': svg('M2 2'),
  });
  const records = read_lucide(folder);
  assert.deepEqual(records.map((record) => record.id).sort(), ['lucide/bell', 'lucide/circle-check']);
  const check = records.find((record) => record.id === 'lucide/circle-check');
  assert.ok(check.captions.includes('check circle') && check.captions[0] === 'circle check');
});

test('tabler, mdi: styles, brands, aliases; bootstrap: the bare name alone', (context) => {
  const folder = make_folder(context, {
    '@tabler/icons/icons.json': JSON.stringify({
      'bell': {tags: ['alarm', 5, null], category: 'System'},
      'brand-github': {tags: ['code'], category: 'Brand'}
    }),
    '@tabler/icons/icons/outline/bell.svg': svg('M1 1'),
    '@tabler/icons/icons/outline/brand-github.svg': svg('M2 2'),
    '@tabler/icons/icons/filled/bell.svg': svg('M3 3'),
    '@mdi/svg/meta.json': JSON.stringify([
      {name: 'account-outline', aliases: ['user-outline'], tags: ['Account / User']},
      {name: 'alpha-a-box', aliases: [], tags: []}
    ]),
    '@mdi/svg/svg/account-outline.svg': svg('M4 4'),
    'bootstrap-icons/icons/bell-fill.svg': svg('M5 5'),
  });
  const tabler = new Map(read_tabler(folder).map((record) => [record.id, record]));
  assert.equal(tabler.get('tabler/outline/bell').captions[0], 'bell');
  assert.equal(tabler.get('tabler/filled/bell').captions[0], 'bell fill');
  assert.equal(tabler.get('tabler/filled/bell').group, tabler.get('tabler/outline/bell').group);
  assert.equal(tabler.get('tabler/outline/brand-github').captions[0], 'github');
  assert.ok(tabler.get('tabler/outline/brand-github').captions.includes('github logo'));
  const [account, letter] = read_mdi(folder);
  assert.deepEqual(account.captions.slice(0, 2), ['account outline', 'account']);
  assert.ok(account.captions.includes('user') && account.group === 'mdi/account');
  assert.equal(letter.captions[0], 'letter a box');
  const [bootstrap] = read_bootstrap(folder);
  assert.deepEqual(bootstrap.captions, ['bell fill']);
});

test('iconify: endings are styles and sizes by the library\'s own rules', () => {
  const fluent = {
    plain: 'outline',
    sizes: ['24', '20', '16'],
    styles: {'regular': 'outline', 'filled': 'fill'}
  };
  assert.deepEqual(take_apart('drink-coffee-24-filled', fluent),
                   {name: 'drink-coffee', style: 'fill', size: '24'});
  const octicon = {plain: 'outline', sizes: ['24', '16'], styles: {fill: 'fill'}};
  assert.deepEqual(take_apart('heart-fill-24', octicon), {name: 'heart', style: 'fill', size: '24'});
  assert.deepEqual(take_apart('heart', octicon), {name: 'heart', style: 'outline', size: ''});
  // The longest ending wins; a name that is an ending is a name.
  const solar = {plain: 'outline', styles: {duotone: 'thin', 'bold-duotone': 'duotone', bold: 'fill'}};
  assert.deepEqual(take_apart('cat-bold-duotone', solar), {name: 'cat', style: 'duotone', size: ''});
  assert.deepEqual(take_apart('bold', solar), {name: 'bold', style: 'outline', size: ''});
});

test('iconify: of several sizes the first asked for, without hidden and dropped ones', () => {
  const body = '<path d="M0 0h1"/>';
  const library = {
    icons: {
      'bell-16': {body},
      'bell-24': {body},
      'bell-fill-16': {body},
      'eye-16': {body, hidden: true},
      'ios-car-16': {body}
    },
    aliases: {'ring-24': {parent: 'bell-24'}, 'lleb-24': {parent: 'bell-24', hFlip: true}}
  };
  const rules = {plain: 'outline', sizes: ['24', '16'], styles: {fill: 'fill'}, drop: '^ios-'};
  const chosen = choose_icons(library, {categories: {'Alerts &amp; Bells': ['bell-24']}}, rules);
  assert.deepEqual(
      chosen.map(({id, style, aliases, category}) => [id, style, aliases, category]),
      [['bell-24', 'outline', ['ring'], 'alerts & bells'], ['bell-fill-16', 'fill', [], '']]);
  assert.deepEqual(choose_icons(library, {}, {...rules, only: '-fill-'}).map(({id}) => id), ['bell-fill-16']);
});

test('iconify: an icon is drawn in its own or its library\'s box', () => {
  const own = draw({body: '<g/>', left: -2, width: 20}, {height: 24});
  assert.match(own, /^<svg xmlns="[^"]+" xmlns:xlink="[^"]+" width="20" height="24" viewBox="-2 0 20 24"><g\/>/);
});

test('iconify: records, their files and their words', (context) => {
  const folder = make_folder(context, {});
  const body = '<path d="M0 0h1"/>';
  const records = read_iconify({
    prefix: 'solar',
    library: {width: 24, height: 24, icons: {
      'cart-4-bold': {body}, 'cart-linear': {body}, 'a-b-c-d-e-f-g': {body}
    }},
    about: {},
    licence: 'CC-BY-4.0',
    rules: {plain: 'outline', styles: {linear: 'outline', bold: 'fill'}},
    folder: join(folder, 'solar')
  });
  assert.deepEqual(records.map(({id, group, source}) => [id, group, source]), [
    ['iconify/solar/cart-4-bold', 'iconify/solar/cart-4', 'solar'],
    ['iconify/solar/cart-linear', 'iconify/solar/cart', 'solar']
  ]);
  assert.equal(records[0].captions[0], 'cart fill');
  assert.equal(readFileSync(records[1].image, 'utf8'), draw({body}, {width: 24, height: 24}));
});

test('an icon on a ground: its colour at the root, the ground below it', () => {
  const icon = '<svg fill="currentColor" viewBox="0 0 16 16"><path d="M0 0h1"/></svg>';
  assert.equal(
      on_ground(icon, {colour: '#fff', ground: '#202020'}),
      '<svg color="#fff" fill="currentColor" viewBox="0 0 16 16">' +
          '<rect x="0" y="0" width="16" height="16" fill="#202020"/><path d="M0 0h1"/></svg>');
  for (const other of ['<svg viewBox="0 0 1 1"/>', '<svg fill="currentColor"/>', 'currentColor'])
    assert.throws(() => on_ground(other, {colour: '#fff', ground: '#000'}), /currentColor inside a viewBox/);
});

test('emoji: labels, tones and keys', (context) => {
  assert.deepEqual(label_forms('flag: France'), ['flag of france', 'france flag', 'france']);
  assert.equal(label_forms('waving hand: dark skin tone')[0], 'waving hand with dark skin tone');
  assert.equal(code_key('1F44B-1F3FB'), code_key('1f44b_1f3fb'));
  assert.equal(code_key('00AE-FE0F'), 'ae');
  assert.equal(tone_count('1f468-1f3fb-200d-1f468-1f3ff'), 2);
  assert.equal(without_tones('1f44b-1f3fb'), '1f44b');
  const data = [{
    label: 'waving hand',
    hexcode: '1F44B',
    tags: ['hello', 'wave'],
    group: 1,
    subgroup: 2,
    skins: [{label: 'waving hand: dark skin tone', hexcode: '1F44B-1F3FF'}]
  }];
  const folder = make_folder(context, {
    'emojibase-data/en/data.json': JSON.stringify(data),
    'emojibase-data/en/messages.json': JSON.stringify(
        {groups: [{order: 1, message: 'people & body'}], subgroups: [{order: 2, message: 'open hands'}]}),
    'emojibase-data/en/shortcodes/emojibase.json': JSON.stringify({'1F44B': ['wave_hello', 'wave_2']}),
    'emojibase-data/en/shortcodes/github.json': '{}',
    'emojibase-data/en/shortcodes/joypixels.json': '{}',
    '@lobehub/fluent-emoji-3d/assets/1f44b.webp': 'a',
    '@lobehub/fluent-emoji-3d/assets/1f44b-1f3ff.webp': 'b',
  });
  const [dark, plain] = read_fluent(folder, 'fluent-emoji-3d');
  assert.equal(plain.captions[0], 'waving hand');
  assert.ok(plain.captions.includes('wave hello') && !plain.captions.some((text) => text.includes('2')));
  assert.ok(plain.captions.some((text) => /3d|glossy|emoji/.test(text)));
  assert.ok(dark.captions.includes('dark skin tone waving hand'));
  assert.equal(dark.group, plain.group);
  const black =
      emoji_captions('x', 'openmoji-black', {labels: ['star'], tags: [], codes: [], group: '', subgroup: ''});
  assert.equal(black[0], 'star black and white');
});

test('tux paint: sentences, no mirrors, every tenth group held out', (context) => {
  assert.deepEqual(
      sentence_forms('A bulldozer. It pushes dirt.'),
      ['a bulldozer. it pushes dirt', 'a bulldozer', 'bulldozer']);
  assert.equal(sentence_forms('A shamrock is a symbol of Ireland.').at(-1), 'shamrock');
  assert.deepEqual(
      ['birds', 'berries', 'christmas', 'glasses', 'boxes'].map(singular),
      ['bird', 'berry', 'christmas', 'glasses', 'box']);
  const files = {};
  for (let i = 10; i < 31; i++) {
    files[`animals/birds/bird${i}.png`] = `picture ${i}`;
    files[`animals/birds/bird${i}.txt`] = `A bird number ${i}.\nde.utf8=Ein Vogel.\n`;
  }
  files['animals/birds/bird10_mirror.png'] = 'mirrored';
  files['animals/birds/bird10_mirror.txt'] = 'A mirrored bird.';
  const {train, held_out} = read_tuxpaint(make_folder(context, files));
  assert.deepEqual(held_out.map((record) => record.id.slice(-10, -4)), ['bird10', 'bird20', 'bird30']);
  assert.equal(train.length, 18);
  assert.equal(train[0].captions[0], 'a bird number 11');
  assert.ok(![...train, ...held_out].some((record) => record.id.includes('mirror')));
});

const clipart = (title, keywords, language = 'en') =>
    `<svg><metadata><rdf:RDF><cc:Work><dc:title>${title}</dc:title>
  <dc:description></dc:description><dc:subject><rdf:Bag>${
        keywords.map((word) => `<rdf:li>${word}</rdf:li>`).join('')}</rdf:Bag>
  </dc:subject><dc:creator><cc:Agent><dc:title>Jon Phillips</dc:title></cc:Agent></dc:creator><dc:language>${
        language}</dc:language>
  </cc:Work></rdf:RDF></metadata><path d="M${title.length} 0"/></svg>`;

test('open clip art: titles, file names, keywords, foreign words, repeated designs', (context) => {
  const rdf = parse_rdf(clipart('Brain', ['human']));
  assert.deepEqual([rdf.title, rdf.creator, rdf.keywords], ['Brain', 'Jon Phillips', ['human']]);
  const lexicon = lexicon_of([[{captions: ['a brain of a human', 'red car', 'star shape', 'toy']}]]);
  assert.ok(
      is_english('cars', lexicon) && !is_english('lumaca turbo', lexicon) && !is_english('12', lexicon));
  const files = {
    'people/brain_jon_phillips_01.svg': clipart('Brain', ['human', 'hash', 'cervello']),
    'vehicles/car.svg': clipart('Clipart by Nicu - piggybank', ['toy']),
    'animals/lumaca.svg': clipart('Lumaca', []),
    'animals/ours.svg': clipart('Car', [], 'fr'),
  };
  for (let i = 10; i < 30; i++) files[`shapes/star_${i}pt.svg`] = clipart('gramastar', ['star']);
  const records =
      new Map(read_openclipart(make_folder(context, files), lexicon).map((record) => [record.id, record]));
  const brain = records.get('openclipart/people/brain_jon_phillips_01.svg');
  assert.equal(brain.captions[0], 'brain');
  assert.ok(brain.captions.includes('human') && !brain.captions.some((text) => /hash|cervello/.test(text)));
  assert.equal(records.get('openclipart/vehicles/car.svg').captions[0], 'car');
  assert.ok(!records.has('openclipart/animals/lumaca.svg') && !records.has('openclipart/animals/ours.svg'));
  assert.equal([...records.keys()].filter((id) => id.includes('star_')).length, 8);
});

test('equal pictures are one record with both names', (context) => {
  const folder = make_folder(
      context, {'a.svg': svg('M1 1', 'id="a"'), 'b.svg': svg('M1 1', 'id="b"'), 'c.svg': svg('M1 2')});
  const records = ['a', 'b', 'c'].map(
      (id) => ({id, image: join(folder, `${id}.svg`), captions: [`name ${id}`, 'shared']}));
  const merged = merge_equal_pictures(records);
  assert.equal(merged.dropped, 1);
  assert.deepEqual(
      merged.records.map((record) => record.captions),
      [['name a', 'name b', 'shared'], ['name c', 'shared']]);
  assert.notEqual(picture_digest(join(folder, 'a.svg')), picture_digest(join(folder, 'c.svg')));
  assert.equal(outline_digest(join(folder, 'a.svg')), outline_digest(join(folder, 'b.svg')));
});

test('the check finds missing files, repeated ids and empty captions', (context) => {
  const folder = make_folder(context, {'a.svg': svg('M1 1')});
  const image = join(folder, 'a.svg');
  const lines = (records) => records.map((record) => JSON.stringify({group: 'g', ...record})).join('\n');
  writeFileSync(join(folder, 'one.jsonl'), lines([{id: 'a', image, captions: ['x']}]));
  assert.deepEqual(quiet(() => check_manifests(folder)), []);
  writeFileSync(join(folder, 'two.jsonl'), lines([
                  {id: 'a', image, captions: ['x']}, {id: 'b', image: `${image}.gone`, captions: ['x', 'x']},
                  {id: 'c', image, captions: []}
                ]));
  const faults = quiet(() => check_manifests(folder)).join('\n');
  for (const fault of ['id occurs twice', 'no file', 'caption occurs twice', '0 captions'])
    assert.ok(faults.includes(fault), fault);
});

test('byte pairs: the textbook example, ties and early end', () => {
  assert.deepEqual(
      bpe.learn_merges(new Map([['aab', 3], ['aac', 2]]), 3), [['a', 'a'], ['aa', 'b</w>'], ['aa', 'c</w>']]);
  assert.deepEqual(bpe.learn_merges(new Map([['zb', 2], ['ab', 2]]), 1), [['a', 'b</w>']]);
  assert.deepEqual(bpe.learn_merges(new Map([['ab', 1]]), 5), []);
});

test('incremental counts give the merges that counting anew gives', () => {
  const pieces = bpe.count_pieces(new Map([[
    'set', [{
      captions: [
        'banana bandana', 'an anagram of banana',
        'nana sings naaanaaa bananas in band and anna ran and sang in bandanas'
      ]
    }]
  ]]));
  const naive = [];
  for (let step = 0; step < 12; step++) {
    const counts = new Map();
    for (const [piece, weight] of pieces) {
      const symbols = bpe.encode(piece, naive);
      for (let i = 0; i + 1 < symbols.length; i++) {
        const key = `${symbols[i]} ${symbols[i + 1]}`;
        counts.set(key, (counts.get(key) ?? 0) + weight);
      }
    }
    const best =
        [...counts].filter(([, count]) => count > 1).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
    if (!best) break;
    naive.push(best[0].split(' '));
  }
  assert.ok(naive.length >= 10);
  assert.deepEqual(bpe.learn_merges(pieces, naive.length), naive);
});

test('what is encoded decodes to the same text, words never seen and other scripts too', () => {
  const pieces = bpe.count_pieces(
      new Map([['set', [{captions: ['bell', 'bell off', 'a bell with a slash', 'bellows']}]]]));
  const merges = bpe.learn_merges(pieces, 50);
  const vocabulary = bpe.build_vocabulary(merges);
  assert.equal(vocabulary.size, 512 + merges.length + 2);
  for (const text of ['bell off', 'zeppelin', 'größe 東京', '3 d', 'a_b', '\u{1f600}']) {
    const tokens = bpe.encode(text, merges);
    assert.ok(tokens.every((token) => vocabulary.has(token)), text);
    assert.equal(bpe.decode(tokens).replaceAll(' ', ''), text.replaceAll(' ', ''));
  }
  assert.deepEqual(bpe.encode('Bell  BELL', merges), ['bell</w>', 'bell</w>']);
});

test('held-out captions teach the tokenizer nothing', () => {
  const manifests =
      new Map([['bootstrap-icons', [{captions: ['secret']}]], ['lucide', [{captions: ['open']}]]]);
  assert.deepEqual([...bpe.count_pieces(manifests).keys()], ['open']);
});

test('alphabet, order of ids and encoding are CLIP\'s', () => {
  const folder = join(kRoot, 'tests/golden/tokenizers');
  const golden = JSON.parse(readFileSync(join(folder, 'clip/vocab.json'), 'utf8'));
  const merges = readFileSync(join(folder, 'clip/merges.txt'), 'utf8')
                     .split('\n')
                     .slice(1)
                     .filter(Boolean)
                     .map((line) => line.split(' '));
  const vocabulary = bpe.build_vocabulary(merges);
  assert.equal(vocabulary.size, Object.keys(golden).length);
  for (const [symbol, id] of vocabulary) assert.equal(golden[symbol], id, symbol);
  const {cases} = JSON.parse(readFileSync(join(folder, 'clip.json'), 'utf8'));
  assert.ok(cases.length > 10);
  for (const {text, ids} of cases) {
    if (/<\|(start|end)oftext\|>/.test(text)) continue;  // special tokens in a text are the runtime's to find
    assert.deepEqual(
        bpe.encode(text, merges).map((token) => vocabulary.get(token)), ids.slice(1, -1),
        JSON.stringify(text));
  }
});

test('the tokenizer\'s files agree with each other', (context) => {
  const folder = make_folder(context, {});
  const merges = bpe.learn_merges(new Map([['bell', 3], ['bells', 2]]), 10);
  const size = bpe.write_tokenizer(join(folder, 'out'), merges, 32);
  const read = (name) => readFileSync(join(folder, 'out', name), 'utf8');
  const vocabulary = JSON.parse(read('vocab.json'));
  const whole = JSON.parse(read('tokenizer.json'));
  assert.equal(Object.keys(vocabulary).length, size);
  assert.deepEqual(whole.model.vocab, vocabulary);
  assert.equal(
      read('merges.txt'),
      `#version: 0.2\n${whole.model.merges.map((pair) => `${pair.join(' ')}\n`).join('')}`);
  assert.equal(vocabulary['<|endoftext|>'], size - 1);
  assert.equal(JSON.parse(read('tokenizer_config.json')).model_max_length, 32);
});

test('new icons: one caption, the name in words; a style does not make another class', (context) => {
  const folder = make_folder(context, {});
  const library = {
    width: 20,
    icons: {
      'bell-o': {body: '<path d="M1 1h2"/>'},
      'bell': {body: '<path d="M1 1h3"/>'},
      'old': {body: '<path d="M1 1h4"/>', hidden: true}
    }
  };
  const records =
      read_names({prefix: 'vaadin', library, licence: 'Apache-2.0', style: kNewSets['new-icons'].vaadin, folder});
  assert.deepEqual(records.map(({id, captions, group}) => [id, captions, group]), [
    ['vaadin/bell', ['bell'], 'vaadin/bell'], ['vaadin/bell-o', ['bell o'], 'vaadin/bell']
  ]);
  assert.match(readFileSync(records[0].image, 'utf8'), /viewBox="0 0 20 16".*M1 1h3/);
  assert.equal('dashicons/menu-alt3'.replace(kNewSets['new-icons'].dashicons, ''), 'dashicons/menu');
});

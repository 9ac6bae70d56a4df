// From the names and keywords that icon sets publish to the captions a text encoder can learn from.
//
// A set's file name ("circle-check-big", "account-multiple-plus-outline") is terse, and each set has its own
// word for a thing: one says mail, another envelope. What is learned here must carry over to sets never seen, so
// besides the published words every image gets rephrasings: shapes that enclose ("circle check", "check circle",
// "check in a circle"), badges ("file plus", "file with a plus sign"), strike-outs ("bell off", "crossed out
// bell") and common synonyms. All choices are made by a hash of the image's id: same input, same manifest.

export const kMaxCaptions = 16;

// "arrowDown2Circle" -> "arrow down 2 circle"; "h264" -> "h264" (a letter and digits name one thing).
export function name_to_words(name) {
  return name
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .replace(/([a-z]{2,})(\d)/gi, '$1 $2')
    .replace(/(\d)([a-z]{2,})/gi, '$1 $2')
    .replace(/[-_./\s]+/g, ' ')
    .trim()
    .toLowerCase();
}

// Published text as a caption: lower case, straight quotes, one space, no full stop at the end.
export function clean_text(text) {
  return text
    .replace(/&amp;/g, '&').replace(/&lt;/g, '<').replace(/&gt;/g, '>')
    .replace(/&quot;/g, '"').replace(/&(apos|#39);/g, "'").replace(/&#\w+;/g, ' ')
    .replace(/[“”„«»]/g, '"').replace(/[‘’]/g, "'").replace(/[–—]/g, '-')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[.!]+$/, '')
    .toLowerCase();
}

// FNV-1a, 32 bits: a choice that depends on nothing but the text.
export function hash_text(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  // The low bits of FNV-1a are weak; a final mix makes `% n` fair.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}

// Up to `count` of `items`, chosen by `seed`, in their own order.
export function pick(items, count, seed) {
  if (items.length <= count) return [...items];
  return items
    .map((item, index) => ({ item, index, key: hash_text(`${seed}/${index}/${item}`) }))
    .sort((a, b) => a.key - b.key || a.index - b.index)
    .slice(0, count)
    .sort((a, b) => a.index - b.index)
    .map((entry) => entry.item);
}

// Words and phrases that people use for the same picture of an interface. Each line's members stand for each other.
const kSynonyms = [
  ['user', 'person', 'account', 'profile'],
  ['users', 'people', 'group of people'],
  ['mail', 'envelope', 'email'],
  ['home', 'house'],
  ['settings', 'gear', 'cog', 'cogwheel'],
  ['trash', 'trash can', 'bin', 'delete', 'garbage can', 'waste basket'],
  ['search', 'magnifying glass', 'magnify', 'magnifier'],
  ['message', 'chat', 'speech bubble', 'comment', 'chat bubble'],
  ['mobile', 'cellphone', 'smartphone', 'mobile phone', 'device mobile'],
  ['phone', 'telephone', 'call'],
  ['check', 'tick', 'check mark', 'done'],
  ['x', 'close', 'cross'],
  ['plus', 'add'],
  ['minus', 'remove', 'subtract', 'dash'],
  ['pencil', 'edit', 'pen'],
  ['alert', 'warning', 'exclamation', 'exclamation mark'],
  ['help', 'question', 'question mark'],
  ['info', 'information'],
  ['image', 'picture', 'photo'],
  ['cart', 'shopping cart', 'trolley'],
  ['shopping bag', 'bag'],
  ['bolt', 'lightning', 'flash', 'lightning bolt', 'thunderbolt'],
  ['monitor', 'display', 'desktop', 'computer screen'],
  ['tv', 'television'],
  ['mic', 'microphone'],
  ['volume', 'speaker', 'sound'],
  ['off', 'slash', 'crossed out', 'disabled'],
  ['caret', 'chevron', 'angle'],
  ['dots', 'ellipsis', 'more', 'three dots'],
  ['link', 'chain'],
  ['map pin', 'map marker', 'location', 'geo', 'place'],
  ['pin', 'thumbtack', 'pushpin'],
  ['glasses', 'eyeglasses', 'spectacles'],
  ['coffee', 'cup', 'mug', 'cup of coffee'],
  ['smiley', 'emoji', 'emoticon', 'face', 'emotion'],
  ['refresh', 'reload', 'sync', 'rotate'],
  ['plane', 'airplane', 'aeroplane'],
  ['truck', 'lorry'],
  ['megaphone', 'bullhorn', 'loudspeaker'],
  ['globe', 'earth', 'world'],
  ['square', 'box'],
  ['file', 'document', 'page'],
  ['lightbulb', 'bulb', 'light bulb', 'lamp'],
  ['wrench', 'spanner'],
  ['gift', 'present'],
  ['chart', 'graph'],
  ['calendar', 'date'],
  ['sun', 'brightness'],
  ['lock', 'padlock'],
  ['unlock', 'lock open', 'unlocked'],
  ['log in', 'login', 'sign in', 'enter'],
  ['log out', 'logout', 'sign out', 'exit'],
  ['eye', 'view', 'visible'],
  ['eye off', 'eye slash', 'hidden', 'invisible'],
  ['heart', 'love', 'like'],
  ['bell', 'notification'],
  ['clock', 'time', 'watch face'],
  ['alarm', 'alarm clock'],
  ['timer', 'stopwatch'],
  ['hourglass', 'sand clock'],
  ['camera', 'photo camera'],
  ['video', 'video camera', 'camcorder'],
  ['movie', 'film'],
  ['headphones', 'headset'],
  ['paperclip', 'attachment', 'paper clip'],
  ['briefcase', 'suitcase', 'case'],
  ['suitcase', 'luggage'],
  ['scissors', 'cut'],
  ['copy', 'duplicate'],
  ['paint bucket', 'bucket', 'fill color'],
  ['palette', 'colors'],
  ['paintbrush', 'brush', 'paint brush'],
  ['eyedropper', 'color picker', 'pipette'],
  ['layers', 'stack'],
  ['grid', 'tiles'],
  ['list', 'bullet list'],
  ['menu', 'hamburger menu', 'three lines'],
  ['filter', 'funnel'],
  ['sliders', 'adjustments', 'equalizer', 'tune'],
  ['toggle', 'switch'],
  ['download', 'save'],
  ['floppy disk', 'diskette', 'save', 'floppy'],
  ['hard drive', 'harddisk', 'disk', 'hdd'],
  ['chip', 'cpu', 'processor', 'microchip'],
  ['motherboard', 'circuit'],
  ['laptop', 'notebook computer'],
  ['tablet', 'ipad'],
  ['gamepad', 'game controller', 'joystick', 'controller'],
  ['printer', 'print'],
  ['barcode', 'bar code'],
  ['qr code', 'qrcode'],
  ['credit card', 'bank card', 'payment card'],
  ['money', 'cash', 'banknote', 'bill'],
  ['coin', 'coins'],
  ['wallet', 'purse'],
  ['bank', 'columns building'],
  ['receipt', 'invoice', 'bill'],
  ['dollar', 'usd', 'dollar sign', 'currency dollar'],
  ['euro', 'currency euro', 'euro sign'],
  ['percent', 'percentage', 'percent sign'],
  ['hash', 'hashtag', 'number sign', 'pound sign'],
  ['at', 'at sign'],
  ['quote', 'quotation marks', 'quotes'],
  ['code', 'angle brackets', 'programming'],
  ['braces', 'curly brackets', 'curly braces'],
  ['terminal', 'console', 'command line'],
  ['bug', 'insect', 'beetle'],
  ['cloud', 'cloudy'],
  ['rain', 'rainy', 'drizzle'],
  ['snow', 'snowy'],
  ['storm', 'thunderstorm', 'lightning storm'],
  ['umbrella', 'parasol'],
  ['thermometer', 'temperature'],
  ['droplet', 'drop', 'water drop'],
  ['flame', 'fire'],
  ['leaf', 'plant leaf'],
  ['bike', 'bicycle'],
  ['car', 'automobile'],
  ['bus', 'coach'],
  ['train', 'railway'],
  ['ship', 'boat'],
  ['gas station', 'fuel', 'fuel pump', 'gas pump'],
  ['store', 'shop'],
  ['building', 'office building'],
  ['hospital', 'clinic'],
  ['bandage', 'plaster', 'band aid'],
  ['pill', 'capsule', 'medicine'],
  ['syringe', 'injection', 'vaccine'],
  ['flask', 'laboratory', 'chemistry'],
  ['atom', 'nucleus'],
  ['graduation cap', 'mortarboard', 'school'],
  ['book', 'reading'],
  ['newspaper', 'news'],
  ['note', 'sticky note', 'sticky'],
  ['bookmark', 'saved'],
  ['tag', 'label', 'price tag'],
  ['flag', 'banner'],
  ['signpost', 'signs', 'direction sign'],
  ['award', 'medal', 'prize'],
  ['trophy', 'cup', 'winner'],
  ['diamond', 'gem', 'jewel'],
  ['puzzle', 'puzzle piece', 'jigsaw'],
  ['dice', 'die'],
  ['ticket', 'pass'],
  ['badge', 'id card', 'identity card', 'vcard'],
  ['robot', 'bot'],
  ['thumbs up', 'thumb up', 'hand thumbs up', 'like'],
  ['thumbs down', 'thumb down', 'hand thumbs down', 'dislike'],
  ['pointer', 'cursor', 'mouse pointer', 'arrow pointer'],
  ['mouse', 'computer mouse'],
  ['usb', 'usb stick', 'thumb drive'],
  ['router', 'wireless router'],
  ['signal', 'reception', 'signal bars', 'network bars'],
  ['broadcast', 'radio tower', 'antenna'],
  ['rss', 'feed'],
  ['share', 'send to'],
  ['send', 'paper plane'],
  ['inbox', 'tray'],
  ['package', 'parcel', 'cardboard box'],
  ['folder', 'directory'],
  ['clipboard', 'notepad'],
  ['sidebar', 'side panel'],
  ['window', 'app window', 'browser'],
  ['maximize', 'fullscreen', 'expand'],
  ['minimize', 'shrink', 'collapse'],
  ['zoom in', 'magnifying glass plus', 'search plus'],
  ['zoom out', 'magnifying glass minus', 'search minus'],
  ['counterclockwise', 'anticlockwise', 'counter clockwise'],
  ['undo', 'arrow back'],
  ['redo', 'arrow forward'],
  ['shuffle', 'random'],
  ['repeat', 'loop'],
  ['skip forward', 'skip end', 'next track'],
  ['skip back', 'skip start', 'previous track'],
  ['fast forward', 'forward'],
  ['power', 'on off button', 'power button'],
  ['plug', 'power plug', 'electric plug'],
  ['battery', 'accumulator'],
  ['moon', 'crescent moon'],
  ['sunrise', 'dawn'],
  ['sunset', 'dusk'],
  ['bold', 'bold text', 'type bold'],
  ['italic', 'italic text', 'type italic'],
  ['underline', 'underlined text', 'type underline'],
  ['strikethrough', 'crossed out text', 'type strikethrough'],
  ['heading', 'header', 'type heading'],
  ['align left', 'text left', 'left aligned text'],
  ['align right', 'text right', 'right aligned text'],
  ['align center', 'text center', 'centered text'],
  ['wheelchair', 'disabled person', 'accessibility'],
  ['male', 'man', 'gender male'],
  ['female', 'woman', 'gender female'],
  ['knife', 'blade'],
  ['fork and knife', 'cutlery', 'fork knife', 'silverware'],
  ['cake', 'birthday cake'],
  ['wine', 'wine glass', 'glass of wine'],
  ['beer', 'beer glass', 'pint'],
  ['martini', 'cocktail', 'cocktail glass'],
  ['basket', 'shopping basket'],
  ['shirt', 't shirt', 'tee'],
  ['watch', 'wristwatch', 'smartwatch'],
  ['sofa', 'couch'],
  ['fan', 'ventilator'],
  ['scale', 'balance', 'scales'],
  ['toolbox', 'tool box', 'tools'],
  ['ruler', 'measure'],
  ['table', 'spreadsheet'],
  ['columns', 'two columns'],
  ['virus', 'germ'],
  ['shield', 'security', 'protection'],
  ['fingerprint', 'touch id'],
  ['stop', 'octagon'],
  ['translate', 'language'],
  ['spellcheck', 'spelling'],
  ['subtitles', 'closed captions', 'captions'],
  ['cast', 'stream to tv'],
  ['vr', 'virtual reality headset', 'headset vr'],
  ['rocket', 'spaceship', 'launch'],
  ['ccw', 'counterclockwise', 'anticlockwise'],
  ['cw', 'clockwise'],
  ['walk', 'walking person', 'person walking'],
  ['run', 'running person', 'person running'],
  ['swim', 'swimming person', 'person swimming'],
  ['ban', 'prohibited', 'forbidden', 'no entry'],
  ['journal', 'notebook', 'diary'],
  ['wifi', 'wi-fi', 'wireless network'],
  ['presentation', 'easel'],
  ['kanban', 'board of columns'],
  ['incognito', 'private mode', 'spy'],
  ['theater', 'drama masks', 'masks'],
  ['ear', 'hearing'],
  ['radioactive', 'radiation'],
  ['recycle', 'recycling'],
  ['backspace', 'delete key'],
  ['command', 'command key'],
  ['life buoy', 'lifebuoy', 'life ring', 'life preserver'],
  ['waves', 'water'],
  ['wind', 'windy', 'breeze'],
  ['fog', 'mist', 'haze'],
  ['tornado', 'twister'],
  ['hurricane', 'cyclone'],
  ['humidity', 'moisture'],
  ['gauge', 'speedometer', 'dashboard', 'tachometer'],
  ['charging station', 'ev station', 'electric car charger'],
  ['traffic cone', 'cone'],
  ['target', 'bullseye', 'crosshair', 'crosshairs'],
  ['stamp', 'postage stamp'],
  ['mailbox', 'post box'],
  ['sort ascending', 'sort up'],
  ['sort descending', 'sort down'],
  ['spade', 'spades'],
  ['server', 'computer server'],
  ['webcam', 'web camera'],
  ['egg fried', 'fried egg'],
  ['bounding box', 'selection frame'],
];
const kMaxSynonymWords = 4;
const kSynonymOf = new Map();
for (const line of kSynonyms) {
  for (const phrase of line) {
    const others = kSynonymOf.get(phrase) ?? [];
    for (const other of line) if (other !== phrase && !others.includes(other)) others.push(other);
    kSynonymOf.set(phrase, others);
  }
}

// Every text that comes from replacing one phrase of `words` by a synonym; the longest phrase at a place wins.
export function synonym_variants(words) {
  const parts = words.split(' ');
  const variants = [];
  for (let start = 0; start < parts.length;) {
    let length = Math.min(kMaxSynonymWords, parts.length - start);
    while (length > 0 && !kSynonymOf.has(parts.slice(start, start + length).join(' '))) length--;
    for (const other of length ? kSynonymOf.get(parts.slice(start, start + length).join(' ')) : []) {
      const variant = [...parts.slice(0, start), other, ...parts.slice(start + length)].join(' ');
      // "log out" -> "log crossed out" is no English: "off" and its kin stand for each other only as a last word.
      if (!(length === 1 && /^(off|slash)$/.test(parts[start]) && start + 1 !== parts.length)) variants.push(variant);
    }
    start += Math.max(1, length);
  }
  return variants;
}

const kEnclosures = ['circle', 'square', 'triangle', 'octagon', 'hexagon', 'diamond', 'box', 'badge', 'shield', 'rhombus', 'rectangle'];
const kBadges = new Map([
  ['plus', 'a plus sign'], ['minus', 'a minus sign'], ['check', 'a check mark'], ['x', 'a cross'], ['lock', 'a padlock'],
  ['heart', 'a heart'], ['star', 'a star'], ['search', 'a magnifying glass'], ['dots', 'three dots'],
  ['question', 'a question mark'], ['exclamation', 'an exclamation mark'], ['alert', 'an exclamation mark'],
  ['code', 'code brackets'], ['cog', 'a gear'], ['settings', 'a gear'], ['gear', 'a gear'], ['edit', 'a pencil'],
  ['pencil', 'a pencil'], ['bolt', 'a lightning bolt'], ['dollar', 'a dollar sign'], ['pin', 'a pin'],
  ['user', 'a person'], ['text', 'lines of text'], ['clock', 'a clock'], ['key', 'a key'], ['music', 'a musical note'],
  ['image', 'a picture'], ['play', 'a play button'], ['pause', 'a pause sign'], ['percent', 'a percent sign'],
  ['up', 'an arrow up'], ['down', 'an arrow down'],
]);
const kStrikes = ['off', 'slash', 'disabled'];
const kExtensions = new Set(('ai avi bmp c cpp css csv doc docx exe gif go h html ini jpg js json jsx log md mov mp3 mp4 otf pdf php png ppt psd '
  + 'py rar rb rs sass scss sh sql svg ts tsx ttf txt vue wav xls xlsx xml yml zip').split(' '));
const kDigitWords = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'];

// Sets order a framed letter or digit in all ways: "circle letter h", "number circle four" -> "h circle",
// "letter h in a circle". Empty for names of any other form.
function letter_forms(words) {
  const kind = words.includes('letter') ? 'letter' : 'number';
  const frame = kEnclosures.find((shape) => words.split(' ').includes(shape));
  const sign = words.split(' ').filter((word) => word !== kind && word !== frame && word !== 'rounded' && word !== 'small').join(' ');
  const digit = kDigitWords.indexOf(sign);
  const shown = digit >= 0 ? String(digit) : sign;
  if (!/^([a-z]|\d{1,2})$/.test(shown)) return [];
  return frame ? [`${shown} ${frame}`, `${kind} ${shown} in a ${frame}`] : [shown, `the ${kind} ${shown}`];
}

// The same picture said another way: "circle check" <-> "check circle", "file plus" -> "file with a plus sign".
export function rephrasings(words) {
  const spelled = /^(.*\b)(letter|number)\b(.*)$/.test(words) ? letter_forms(words) : [];
  const file_type = /^file (?:type )?(\w+)$/.exec(words);
  if (spelled.length) return spelled;
  if (file_type && (words.startsWith('file type') || kExtensions.has(file_type[1]))) return [`${file_type[1]} file`, `filetype ${file_type[1]}`];
  const parts = words.split(' ');
  if (parts.length < 2) return [];
  const first = parts[0];
  const last = parts.at(-1);
  const head = parts.slice(0, -1).join(' ');
  const tail = parts.slice(1).join(' ');
  const result = [];
  if (kEnclosures.includes(first) && !kEnclosures.includes(last)) result.push(`${tail} ${first}`, `${tail} in a ${first}`);
  if (kEnclosures.includes(last) && !kEnclosures.includes(first)) result.push(`${last} ${head}`, `${head} in a ${last}`);
  const inside = parts.slice(1, -1).find((word) => ['circle', 'square', 'box'].includes(word));
  if (inside && !parts.includes('in')) {
    const rest = parts.filter((word) => word !== inside).join(' ');
    result.push(`${rest} ${inside}`, `${inside} ${rest}`);
  }
  if (kStrikes.includes(last) && !/\b(power|on|log|sign|turn|hand|take|day|time|cut)$/.test(head)) result.push(`${head} off`, `${head} slash`, `crossed out ${head}`, `no ${head}`);
  const arrow_like = /^(arrow|arrows|chevron|chevrons|caret|corner|move|trending|thumbs|circle|square)\b/.test(words);
  if (kBadges.has(last) && !kEnclosures.includes(first) && !(arrow_like && /^(up|down)$/.test(last))) {
    result.push(`${head} with ${kBadges.get(last)}`);
  }
  const direction = /^(\w+) (left|right|up|down|north|south|east|west)$/.exec(words);
  if (direction && !/^(thumbs?|sign|log|sort|zoom)$/.test(first)) {
    result.push(`${direction[2]} ${direction[1]}`, `${direction[1]} pointing ${direction[2]}`);
  }
  return result.filter((text) => text !== words);
}

// A drawing style: how the sets' own names say it (`suffix`, last in the first caption) and what people write.
export const kStyles = {
  outline: { suffix: '', phrases: ['outline {x}', '{x} outline', '{x} line icon', 'outlined {x} icon'] },
  outline_variant: { suffix: 'outline', phrases: ['outline {x}', 'outlined {x}', '{x} line icon', '{x} outline icon'] },
  solid: { suffix: '', phrases: ['solid {x}', '{x} filled', '{x} solid icon', 'filled {x} icon'] },
  fill: { suffix: 'fill', phrases: ['filled {x}', '{x} filled', 'solid {x}', '{x} solid'] },
  thin: { suffix: 'thin', phrases: ['thin {x}', 'thin outline {x}', 'thin line icon of {x}'] },
  light: { suffix: 'light', phrases: ['light {x}', '{x} in light lines', '{x} outline'] },
  bold: { suffix: 'bold', phrases: ['bold {x}', 'thick {x}', 'bold outline {x}'] },
  duotone: { suffix: 'duotone', phrases: ['two tone {x}', 'shaded {x}', '{x} two tone icon'] },
};
const kTemplates = ['{x} icon', '{x} symbol', 'icon of {x}', 'an icon showing {x}', '{x} pictogram', 'a drawing of {x}'];

const kJunk = /^(\*.*\*|hash|new|updated|icon|icons|misc|other|others|general|deprecated|undefined|null|i{2,3}|\d+)$/;

// Published keywords as captions: clean, without those that say nothing or repeat the name.
export function usable_tags(tags, name) {
  const seen = new Set([name]);
  const result = [];
  for (const raw of tags) {
    const tag = clean_text(raw).replace(/[-_]+/g, ' ').trim();
    if (tag.length < 2 || tag.length > 60 || kJunk.test(tag) || seen.has(tag)) continue;
    seen.add(tag);
    result.push(tag);
  }
  return result;
}

// First occurrences, trimmed, without empty ones, at most kMaxCaptions.
export function unique_captions(captions) {
  return [...new Set(captions.map((text) => text.replace(/\s+/g, ' ').trim()).filter(Boolean))].slice(0, kMaxCaptions);
}

const fill_in = (template, text) => template.replace('{x}', text);

// An icon's captions. `words`: its name; `style`: a key of kStyles; `aliases`: other published names of it, in
// words; `tags`: published keywords; `category`: its group within the set, or ''. The first caption is the
// published name in words with the style's suffix. About half the captions are forms of the name, as a trainer that
// draws one at random should mostly see the name.
export function icon_captions({ id, words, style, aliases = [], tags = [], category = '' }) {
  const { suffix, phrases } = kStyles[style];
  const clean_tags = usable_tags(tags, words);
  const some_tags = pick(clean_tags, 4, `${id}/tags`);
  const published = suffix ? `${words} ${suffix}` : words;
  const variants = synonym_variants(words);
  // Other sets differ in more than one word ("mail off" is "envelope slash" elsewhere).
  const twice = [...new Set(variants.flatMap(synonym_variants))].filter((text) => text !== words && !variants.includes(text));
  const captions = [
    published,
    words,
    ...pick(phrases, 2, `${id}/style`).map((phrase) => fill_in(phrase, words)),
    ...pick(aliases.filter((alias) => alias !== words), 3, `${id}/aliases`),
    ...pick(rephrasings(words), 2, `${id}/rephrase`),
    ...pick(variants, 2, `${id}/synonyms`),
    ...pick(twice, 2, `${id}/synonyms of synonyms`),
    fill_in(kTemplates[hash_text(`${id}/template`) % kTemplates.length], words),
  ];
  if (some_tags.length) captions.push(`${words}, ${pick(clean_tags, 2, `${id}/joined`).join(', ')}`, ...some_tags);
  if (category && !words.includes(category)) captions.push(`${words}, ${category}`);
  return unique_captions(captions);
}

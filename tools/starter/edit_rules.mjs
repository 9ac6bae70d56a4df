// The changes that edit queries name: one table. A rule's `say` are phrasings of the change, `back` of its reverse; the
// last phrasing of each list is never trained on (edits.mjs). Training has further ones: edit_wordings.mjs.

// Changes that a library's own names tell: the name with the words `from` becomes the name with `to`. An empty `from` means
// that `to` is added at the end.
export const kNameRules = [
  {kind: 'off', from: '', to: 'off', say: ['crossed out', 'with a line through it', 'struck out', 'turned off', 'with a diagonal stroke across it'],
   back: ['not crossed out', 'without the line through it', 'turned on', 'without the stroke across it']},
  {kind: 'off', from: '', to: 'slash', say: ['crossed out', 'with a line through it', 'struck out', 'turned off', 'with a diagonal stroke across it'],
   back: ['not crossed out', 'without the line through it', 'turned on', 'without the stroke across it']},
  {kind: 'plus', from: '', to: 'plus', say: ['with a plus sign', 'with a plus added', 'with a small plus', 'bearing a plus mark'],
   back: ['without the plus sign', 'take the plus away', 'no plus', 'lacking the plus mark']},
  {kind: 'minus', from: '', to: 'minus', say: ['with a minus sign', 'with a minus added', 'with a small minus', 'bearing a minus mark'],
   back: ['without the minus sign', 'take the minus away', 'no minus', 'lacking the minus mark']},
  {kind: 'x', from: '', to: 'x', say: ['with an x', 'with a small cross', 'with a cross added', 'bearing an x mark'],
   back: ['without the x', 'take the cross away', 'no cross', 'lacking the x mark']},
  {kind: 'x', from: '', to: 'remove', say: ['with an x', 'with a small cross', 'with a cross added', 'bearing an x mark'],
   back: ['without the x', 'take the cross away', 'no cross', 'lacking the x mark']},
  {kind: 'check', from: '', to: 'check', say: ['with a check mark', 'with a tick', 'with a tick added', 'bearing a check'],
   back: ['without the check mark', 'take the tick away', 'no tick', 'lacking the check']},
  {kind: 'circle', from: '', to: 'circle', say: ['in a circle', 'with a circle around it', 'inside a ring', 'enclosed by a circle'],
   back: ['without the circle', 'take the circle around it away', 'not in a circle', 'freed from its ring']},
  {kind: 'square', from: '', to: 'square', say: ['in a square', 'with a square around it', 'inside a box', 'enclosed by a square'],
   back: ['without the square', 'take the square around it away', 'not in a square', 'freed from its box']},
  {kind: 'square', from: '', to: 'box', say: ['in a square', 'with a square around it', 'inside a box', 'enclosed by a square'],
   back: ['without the square', 'take the square around it away', 'not in a square', 'freed from its box']},
  {kind: 'filled', from: '', to: 'fill', say: ['filled', 'solid instead of outlined', 'filled in', 'as a solid shape'],
   back: ['outlined', 'only the outline', 'not filled', 'as a line drawing']},
  {kind: 'filled', from: 'line', to: 'fill', say: ['filled', 'solid instead of outlined', 'filled in', 'as a solid shape'],
   back: ['outlined', 'only the outline', 'not filled', 'as a line drawing']},
  {kind: 'outlined', from: '', to: 'outline', say: ['outlined', 'only the outline', 'not filled', 'as a line drawing'],
   back: ['filled', 'solid instead of outlined', 'filled in', 'as a solid shape']},
  {kind: 'design', from: '', to: '2', say: ['another design', 'drawn in another way', 'a second design of it', 'the same thing, drawn differently'],
   back: ['the first design', 'drawn in the usual way', 'its plain design', 'the same thing, in its first drawing']},
  {kind: 'design', from: '', to: 'variant', say: ['another design', 'drawn in another way', 'a second design of it', 'the same thing, drawn differently'],
   back: ['the first design', 'drawn in the usual way', 'its plain design', 'the same thing, in its first drawing']},
  {kind: 'heart', from: '', to: 'heart', say: ['with a heart', 'with a small heart', 'with a heart added', 'bearing a heart'],
   back: ['without the heart', 'take the heart away', 'no heart', 'lacking the heart']},
  {kind: 'star', from: '', to: 'star', say: ['with a star', 'with a small star', 'with a star added', 'bearing a star'],
   back: ['without the star', 'take the star away', 'no star', 'lacking the star']},
  {kind: 'lock', from: '', to: 'lock', say: ['with a lock', 'with a padlock', 'locked', 'bearing a padlock'],
   back: ['without the lock', 'take the padlock away', 'no lock', 'lacking the padlock']},
  {kind: 'search', from: '', to: 'search', say: ['with a magnifying glass', 'with a search sign', 'with a magnifier added', 'bearing a magnifier'],
   back: ['without the magnifying glass', 'take the magnifier away', 'no magnifier', 'lacking the search sign']},
  {kind: 'settings', from: '', to: 'cog', say: ['with a gear', 'with a cog', 'with a gear wheel added', 'bearing a cogwheel'],
   back: ['without the gear', 'take the cog away', 'no gear', 'lacking the cogwheel']},
  {kind: 'settings', from: '', to: 'gear', say: ['with a gear', 'with a cog', 'with a gear wheel added', 'bearing a cogwheel'],
   back: ['without the gear', 'take the cog away', 'no gear', 'lacking the cogwheel']},
  {kind: 'alert', from: '', to: 'alert', say: ['with an exclamation mark', 'with a warning', 'with an alert sign', 'bearing an exclamation mark'],
   back: ['without the exclamation mark', 'take the warning away', 'no alert sign', 'lacking the exclamation mark']},
  {kind: 'alert', from: '', to: 'exclamation', say: ['with an exclamation mark', 'with a warning', 'with an alert sign', 'bearing an exclamation mark'],
   back: ['without the exclamation mark', 'take the warning away', 'no alert sign', 'lacking the exclamation mark']},
  {kind: 'question', from: '', to: 'question', say: ['with a question mark', 'with a small question mark', 'with a question mark added', 'bearing a question mark'],
   back: ['without the question mark', 'take the question mark away', 'no question mark', 'lacking the question mark']},
  {kind: 'several', from: '', to: 'multiple', say: ['several of them', 'more than one', 'a stack of them', 'two or more of it'],
   back: ['only one of them', 'a single one', 'just one', 'one instead of several']},
  {kind: 'dashed', from: '', to: 'dashed', say: ['dashed', 'with dashed lines', 'drawn in dashes', 'with broken lines'],
   back: ['with whole lines', 'not dashed', 'drawn in solid lines', 'with unbroken lines']},
  {kind: 'open', from: '', to: 'open', say: ['open', 'opened', 'in its open state', 'no longer closed'],
   back: ['closed', 'shut', 'in its closed state', 'no longer open']},
  {kind: 'edit', from: '', to: 'edit', say: ['with a pencil', 'with a pen', 'with a pencil added', 'bearing a pencil'],
   back: ['without the pencil', 'take the pen away', 'no pencil', 'lacking the pencil']},
  {kind: 'clock', from: '', to: 'clock', say: ['with a clock', 'with a small clock', 'with a clock added', 'bearing a clock'],
   back: ['without the clock', 'take the clock away', 'no clock', 'lacking the clock']},
  {kind: 'dollar', from: '', to: 'dollar', say: ['with a dollar sign', 'with a small dollar sign', 'with a dollar added', 'bearing a dollar sign'],
   back: ['without the dollar sign', 'take the dollar away', 'no dollar sign', 'lacking the dollar sign']},
  {kind: 'down', from: '', to: 'down', say: ['with an arrow down', 'with a downward arrow', 'with an arrow that points down', 'bearing an arrow downwards'],
   back: ['without the arrow down', 'take the arrow away', 'no arrow', 'lacking the downward arrow']},
  {kind: 'up', from: '', to: 'up', say: ['with an arrow up', 'with an upward arrow', 'with an arrow that points up', 'bearing an arrow upwards'],
   back: ['without the arrow up', 'take the arrow away', 'no arrow', 'lacking the upward arrow']},
  {kind: 'left to right', from: 'left', to: 'right', say: ['to the right', 'pointing right', 'right instead of left', 'turned towards the right'],
   back: ['to the left', 'pointing left', 'left instead of right', 'turned towards the left']},
  {kind: 'up to down', from: 'up', to: 'down', say: ['downwards', 'pointing down', 'down instead of up', 'turned towards the bottom'],
   back: ['upwards', 'pointing up', 'up instead of down', 'turned towards the top']},
  {kind: 'horizontal to vertical', from: 'horizontal', to: 'vertical', say: ['vertical', 'upright', 'vertical instead of horizontal', 'standing up'],
   back: ['horizontal', 'level', 'horizontal instead of vertical', 'lying down']},
];

// Changes that an emoji's code points tell: `from` is taken out and `to` put in its place; an empty `from` is a skin tone
// that is not there.
const kTones = {'1f3fb': 'light', '1f3fc': 'medium-light', '1f3fd': 'medium', '1f3fe': 'medium-dark', '1f3ff': 'dark'};
const tone_rule = (code, tone) => ({
  kind: 'skin tone', tone, old: 'yellow', from: '', to: code,
  say: [`with ${tone} skin`, `with a ${tone} skin tone`, `skin tone ${tone}`, `whose skin is ${tone}`],
  back: ['with yellow skin', 'without a skin tone', 'in plain yellow', 'whose skin is yellow']
});
const other_tone_rule = ([from, old], [to, tone]) => ({
  kind: 'skin tone', tone, old, from, to,
  say: [`with ${tone} skin`, `with a ${tone} skin tone`, `skin tone ${tone}`, `whose skin is ${tone}`],
  back: [`with ${old} skin`, `with a ${old} skin tone`, `skin tone ${old}`, `whose skin is ${old}`]
});
const kToneList = Object.entries(kTones);
export const kToneRules = [
  ...kToneList.map(([code, tone]) => tone_rule(code, tone)),
  ...kToneList.slice(1).map((tone, i) => other_tone_rule(kToneList[i], tone)),
];
const kWomen = {say: ['as a woman', 'a woman instead of a man', 'female', 'make it a woman'],
                back: ['as a man', 'a man instead of a woman', 'male', 'make it a man']};
export const kPeopleRules = [
  {kind: 'gender', from: '1f468', to: '1f469', ...kWomen},
  {kind: 'gender', from: '2642', to: '2640', ...kWomen},
];
export const kFacingRule = {
  kind: 'facing', ending: '-200d-27a1', say: ['facing right', 'looking to the right', 'turned to the right', 'going the other way'],
  back: ['facing left', 'looking to the left', 'turned to the left', 'going the usual way']
};
export const kBlackRule = {
  kind: 'black and white', say: ['in black and white', 'without colours', 'as a black drawing', 'with all colours gone'],
  back: ['in colour', 'coloured', 'with its colours', 'no longer black and white']
};

export const kColours = {
  red: '#d7263d', orange: '#f46036', yellow: '#f2c14e', green: '#1b998b', blue: '#1d4ed8', purple: '#7b2d8b',
  pink: '#ff5fa2', brown: '#7a4a21', grey: '#7f7f7f'
};

// Changes that are drawn here. `draw` gets the inside of an SVG with its box [x, y, width, height] and says what becomes of
// it: `inside`, and for recolouring the `colour` of the whole. `{c}` in a phrasing is the colour's name.
const around = ([x, y, width, height], transform, inside) => {
  const cx = x + width / 2;
  const cy = y + height / 2;
  return `<g transform="translate(${cx} ${cy}) ${transform} translate(${-cx} ${-cy})">${inside}</g>`;
};
export const kDrawnRules = [
  {kind: 'colour', coloured: true, needs_ink: true, say: ['in {c}', 'the same in {c}', 'make it {c}', 'recoloured {c}', 'painted {c} instead'],
   draw: (inside, box, colour) => ({inside, colour})},
  {kind: 'turned right', turns: true, say: ['turned to the right', 'rotated clockwise', 'a quarter turn to the right', 'rotated by 90 degrees clockwise'],
   draw: (inside, box) => ({inside: around(box, 'rotate(90)', inside)})},
  {kind: 'turned left', turns: true, say: ['turned to the left', 'rotated counterclockwise', 'a quarter turn to the left', 'rotated by 90 degrees counterclockwise'],
   draw: (inside, box) => ({inside: around(box, 'rotate(-90)', inside)})},
  {kind: 'upside down', turns: true, say: ['upside down', 'standing on its head', 'turned upside down', 'with its top at the bottom'],
   draw: (inside, box) => ({inside: around(box, 'rotate(180)', inside)})},
  {kind: 'mirrored', turns: true, say: ['mirrored', 'flipped left to right', 'as seen in a mirror', 'with left and right swapped'],
   draw: (inside, box) => ({inside: around(box, 'scale(-1 1)', inside)})},
  {kind: 'smaller', say: ['smaller', 'much smaller', 'shrunk to half its size', 'at half the size, in the middle'],
   draw: (inside, box) => ({inside: around(box, 'scale(0.5)', inside)})},
  {kind: 'framed', coloured: true, say: ['in a {c} frame', 'with a {c} frame', 'with a {c} border around it', 'framed in {c}'],
   draw: (inside, [x, y, width, height], colour) => {
     const line = width / 12;
     return {inside: `${around([x, y, width, height], 'scale(0.75)', inside)}<rect x="${x + line / 2}" y="${y + line / 2}" width="${
         width - line}" height="${height - line}" fill="none" stroke="${colour}" stroke-width="${line}"/>`};
   }},
  {kind: 'on a ground', coloured: true, say: ['on a {c} ground', 'with a {c} background', 'on {c}', 'before a {c} background'],
   draw: (inside, [x, y, width, height], colour) =>
       ({inside: `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${colour}" stroke="none"/>${inside}`})},
];

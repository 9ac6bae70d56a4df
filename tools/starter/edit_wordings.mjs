// Further wordings of the changes of edit_rules.mjs, by kind: for training alone. People say one change in many ways, and
// no test's wording may be learned from them, so no word stands here that of all wordings of the same change only the
// held-out one has (tests/edits_test.mjs). The last two of each list are for val-phrasing. `{c}` is a colour, `{tone}` and `{old}` are skin tones.

// Of a mark that is added to an object: "a plus", and other names of the same mark.
const mark = (a, ...others) => {
  const bare = a.replace(/^an? /, '');
  return {
    say: [`add ${a}`, `and ${a}`, `${bare} added`, `having ${a}`, `but with ${a}`, `that has ${a} on it`, `with ${a} in the corner`,
          `put ${a} on it`, `the same with ${a}`, `now with ${a}`, `showing ${a}`, `together with ${a}`, `i want ${a} there too`,
          ...others.flatMap((other) => [`add ${other}`, `having ${other}`, `that has ${other}`])],
    back: [`remove the ${bare}`, `but without ${a}`, `drop the ${bare}`, `delete the ${bare}`, `${bare} removed`, `the same without ${a}`,
           `that has no ${bare}`, `get rid of the ${bare}`, `just the icon, no ${bare}`, `leave out the ${bare}`, `hide the ${bare}`,
           `minus the ${bare}`, `i do not want the ${bare}`,
           ...others.map((other) => `remove ${other.replace(/^an? /, 'the ')}`)]
  };
};
const reversed = ({say, back}) => ({say: back, back: say});

const kFilled = {
  say: ['solid', 'the solid version', 'make it solid', 'the filled version', 'fill it', 'fill it in', 'but filled', 'filled with colour',
        'painted in', 'all black inside', 'bold and filled', 'a filled icon', 'filled style', 'glyph style', 'no longer hollow', 'not just the outline'],
  back: ['outline', 'the outline version', 'make it an outline', 'the outlined version', 'hollow', 'but outlined', 'empty inside', 'unfilled',
         'an outlined icon', 'outline style', 'just the outline', 'just its contour', 'no fill', 'remove the fill', 'not solid', 'white inside']
};

export const kTrainWordings = {
  'off': {
    say: ['disabled', 'switched off', 'turn it off', 'deactivated', 'off', 'muted', 'with a slash', 'slashed', 'but crossed out', 'cross it out',
          'strike it out', 'struck through', 'with a bar through it', 'the off version', 'not allowed', 'forbidden', 'unavailable', 'inactive',
          'put a line through it', 'make it disabled', 'no longer on', 'with a slash over it'],
    back: ['enabled', 'switched on', 'turn it on', 'activated', 'on', 'not muted', 'without a slash', 'remove the slash', 'without the slash',
           'remove the line', 'take the line away', 'the on version', 'allowed', 'available', 'active', 'not struck out', 'uncrossed',
           'no line through it', 'make it enabled', 'no longer crossed out', 'no longer off']
  },
  'plus': mark('a plus', 'a plus sign', 'a small plus', 'an add sign'),
  'minus': mark('a minus', 'a minus sign', 'a small minus', 'a dash'),
  'x': mark('an x', 'a cross', 'a close sign', 'a delete sign'),
  'check': mark('a check mark', 'a tick', 'a small tick', 'a checkmark'),
  'circle': {
    say: ['circled', 'put a circle around it', 'draw a circle around it', 'but in a circle', 'within a circle', 'inside a circle',
          'with a ring around it', 'surrounded with a circle', 'round badge version', 'in a round frame', 'add a circle', 'the circled version',
          'a circle with it inside', 'make it round', 'on a round badge'],
    back: ['remove the circle', 'but without a circle', 'drop the circle', 'not circled', 'without a circle around it', 'no circle',
           'take it out of the circle', 'delete the circle around it', 'remove the circle around it', 'just the icon, no circle',
           'no circle around it', 'leave out the circle', 'only what is inside the circle', 'bare']
  },
  'square': {
    say: ['boxed', 'put a square around it', 'draw a box around it', 'but in a square', 'within a square', 'inside a square', 'in a box',
          'with a box around it', 'surrounded with a square', 'square badge version', 'in a square frame', 'add a square', 'the boxed version',
          'a square with it inside', 'inside a rectangle', 'on a square badge'],
    back: ['remove the square', 'but without a square', 'drop the square', 'not squared', 'without a square around it', 'no square',
           'take it out of the square', 'delete the square around it', 'remove the square around it', 'just the icon, no square',
           'no square around it', 'leave out the square', 'only what is inside the square', 'bare']
  },
  'filled': kFilled,
  'outlined': reversed(kFilled),
  'design': {
    say: ['an alternative design', 'a different design', 'a different version', 'another version', 'another variant', 'a variant of it',
          'the alternative', 'the second version', 'version two', 'a different style', 'an alternate look', 'redrawn', 'not this one, another'],
    back: ['the original design', 'the original', 'the default version', 'the standard one', 'the first version', 'version one', 'the basic one',
           'the plain version', 'its usual look', 'the normal one', 'the main design', 'not this variant']
  },
  'heart': mark('a heart', 'a small heart', 'a love sign'),
  'star': mark('a star', 'a small star', 'a favourite sign'),
  'lock': mark('a lock', 'a small lock', 'a security sign'),
  'search': mark('a magnifying glass', 'a lens', 'a loupe'),
  'settings': mark('a gear', 'a cog', 'a settings sign', 'a settings icon'),
  'alert': mark('a warning', 'an alert', 'a warning sign', 'an attention sign'),
  'question': mark('a question mark', 'a help sign', 'a small question mark'),
  'several': {
    say: ['multiple', 'many', 'many of them', 'a few of them', 'a group of them', 'a pile of them', 'a set of them', 'lots of them',
          'stacked', 'the plural', 'more of them', 'not just one', 'a whole stack', 'repeated'],
    back: ['one', 'a lone one', 'only one', 'the single version', 'not many', 'not multiple', 'just a single one', 'the singular',
           'no stack', 'no more than one', 'on its own', 'fewer']
  },
  'dashed': {
    say: ['dotted', 'with a dashed line', 'with a dashed outline', 'make it dashed', 'a dashed version', 'in dashes', 'the outline in dashes',
          'with gaps in the lines', 'with dotted lines', 'dashed lines', 'not solid'],
    back: ['solid', 'with a solid line', 'with a solid outline', 'make it solid', 'the solid version', 'no dashes', 'not dotted',
           'without dashes', 'without gaps', 'continuous lines', 'whole lines']
  },
  'open': {
    say: ['make it open', 'open it', 'the open version', 'but open', 'opened up', 'wide open', 'unfolded', 'ajar', 'not shut', 'not locked',
          'unlocked', 'with it opened'],
    back: ['make it closed', 'close it', 'the closed version', 'but closed', 'closed up', 'shut tight', 'folded', 'not opened',
           'locked', 'with it closed', 'shut it']
  },
  'edit': mark('a pencil', 'a pen', 'an edit sign', 'an edit icon'),
  'clock': mark('a clock', 'a small clock', 'a watch', 'a time sign'),
  'dollar': mark('a dollar sign', 'a dollar', 'a money sign', 'a small dollar sign'),
  'down': mark('an arrow down', 'an arrow pointing down', 'a down arrow', 'a download arrow'),
  'up': mark('an arrow up', 'an arrow pointing up', 'an up arrow', 'an upload arrow'),
  'left to right': {
    say: ['right', 'facing right', 'going right', 'make it point right', 'point it right', 'the right version', 'rightwards', 'on the right',
          'in the right direction, not left', 'but right', 'aimed right', 'from left to right', 'the other direction'],
    back: ['left', 'facing left', 'going left', 'make it point left', 'point it left', 'the left version', 'leftwards', 'on the left',
           'in the left direction, not right', 'but left', 'aimed left', 'from right to left', 'the other direction']
  },
  'up to down': {
    say: ['down', 'facing down', 'going down', 'make it point down', 'point it down', 'the down version', 'on the underside', 'downward',
          'in the down direction, not up', 'but down', 'aimed down', 'below', 'the other direction'],
    back: ['up', 'facing up', 'going up', 'make it point up', 'point it up', 'the up version', 'on the upper side', 'upward',
           'in the up direction, not down', 'but up', 'aimed up', 'above', 'the other direction']
  },
  'horizontal to vertical': {
    say: ['make it vertical', 'the vertical version', 'not horizontal', 'but vertical', 'portrait', 'vertically', 'from side to side becomes from top to bottom',
          'as a column', 'in a vertical layout'],
    back: ['make it horizontal', 'the horizontal version', 'not vertical', 'but horizontal', 'landscape', 'horizontally', 'from top to bottom becomes from side to side',
           'as a row', 'in a horizontal layout']
  },
  'skin tone': {
    say: ['{tone} skin', 'with {tone} coloured skin', '{tone} skin tone', 'but with {tone} skin', 'make the skin {tone}', 'change the skin to {tone}',
          'a person with {tone} skin', 'in {tone} skin tone', 'with the {tone} skin tone', 'the {tone} one', '{tone} complexion', 'skin colour {tone}'],
    back: ['{old} skin', 'with {old} coloured skin', '{old} skin tone', 'but with {old} skin', 'make the skin {old}', 'change the skin to {old}',
           'a person with {old} skin', 'in {old} skin tone', 'the {old} one', '{old} complexion', 'skin colour {old}']
  },
  'gender': {
    say: ['woman', 'a woman', 'but a woman', 'a female version', 'the female one', 'the same with a woman', 'a lady', 'not a man', 'change him to a woman',
          'with a woman instead', 'a girl', 'she instead of he', 'feminine'],
    back: ['man', 'a man', 'but a man', 'a male version', 'the male one', 'the same with a man', 'a gentleman', 'not a woman', 'change her to a man',
           'with a man instead', 'a boy', 'he instead of she', 'masculine']
  },
  'facing': {
    say: ['right', 'looking right', 'face right', 'pointing right', 'heading to the right', 'but facing right', 'rightwards', 'moving to the right', 'not to the left'],
    back: ['left', 'looking left', 'face left', 'pointing left', 'heading to the left', 'but facing left', 'leftwards', 'moving to the left', 'not to the right']
  },
  'black and white': {
    say: ['black and white', 'black', 'monochrome', 'no colour', 'without colour', 'colourless', 'in grey', 'only in black', 'a black and white version',
          'make it black and white', 'as line art', 'remove the colours', 'not coloured', 'greyscale', 'black outline only'],
    back: ['colour', 'colourful', 'in full colour', 'a colour version', 'make it colourful', 'add colour', 'add colours', 'with colour', 'painted',
           'the coloured version', 'in bright colours', 'full of colour', 'colour it', 'not grey']
  },
  'colour': {
    say: ['{c}', 'but in {c}', 'but {c}', '{c} coloured', 'a {c} one', 'the {c} version', 'make it all {c}', 'colour it {c}', 'change the colour to {c}',
          'turn it {c}', 'in the colour {c}', 'with {c} lines', 'drawn in {c}', 'i want it in {c}', 'a {c} version of it', '{c} please']
  },
  'turned right': {
    say: ['turn it to the right', 'rotate it to the right', 'rotate clockwise', 'rotated right', 'turned clockwise', 'a quarter turn clockwise',
          'rotate it a quarter turn to the right', 'on its right side', 'tipped over to the right', 'fallen to the right', 'but turned right', 'spin it clockwise']
  },
  'turned left': {
    say: ['turn it to the left', 'rotate it to the left', 'rotate counterclockwise', 'rotated left', 'turned counterclockwise', 'a quarter turn counterclockwise',
          'rotate it a quarter turn to the left', 'on its left side', 'tipped over to the left', 'fallen to the left', 'but turned left',
          'rotated anticlockwise', 'spin it counterclockwise']
  },
  'upside down': {
    say: ['turn it upside down', 'flip it upside down', 'flipped upside down', 'the wrong way up', 'on its head', 'head down', 'turned over', 'inverted',
          'rotated upside down', 'a half turn', 'but upside down', 'stand it on its head', 'flipped over']
  },
  'mirrored': {
    say: ['mirror it', 'mirror image', 'its mirror image', 'flip it', 'flipped', 'flip it horizontally', 'flipped horizontally', 'reflected', 'reversed',
          'the other way round', 'but mirrored', 'a mirrored version', 'reflect it', 'flipped to the other side', 'in a mirror']
  },
  'smaller': {
    say: ['make it smaller', 'shrink it', 'shrunk', 'small', 'a small version', 'tiny', 'reduced', 'but smaller', 'scaled down', 'a smaller version of it',
          'less big', 'with more room around it', 'with a wide margin', 'half as large', 'zoomed out', 'little', 'further away']
  },
  'framed': {
    say: ['put a {c} frame around it', 'add a {c} frame', 'add a {c} border', '{c} frame', '{c} border', 'with a {c} frame around it', 'with a {c} border',
          'inside a {c} frame', 'in a {c} box', 'within a {c} border', 'surrounded with {c}', 'a {c} edge around it', 'with a {c} outline around it',
          'but in a {c} frame', 'draw a {c} border around it']
  },
  'on a ground': {
    say: ['{c} background', 'on a {c} background', 'put it on a {c} background', 'make the background {c}', 'change the background to {c}', 'the background in {c}',
          'but on {c}', 'on top of {c}', 'over {c}', 'with {c} behind it', '{c} behind it', 'on a {c} surface', 'add a {c} background', 'with the background {c}',
          'on a {c} square']
  },
};

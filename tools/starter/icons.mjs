// Readers of the icon libraries: each returns records {id, image, captions, source, licence, group}.
import {readdirSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

import {by_text, picture_digest, read_json, stem, walk} from './files.mjs';
import {clean_text, icon_captions, name_to_words} from './words.mjs';

const kShowsNumber = new Set([
  'dice', 'number', 'numbers', 'numeric', 'hexagon', 'circle', 'square', 'volume', 'signal', 'timer', 'time',
  'stage', 'grade', 'level', 'bar', 'bars', 'h'
]);

// Endings like the 2 in "message-2" only number designs, unless there is no "message" to be a design of, or
// the picture shows the number ("dice-2").
export function without_design_number(name, exists) {
  const match = /^(.*[a-z])-\d((?:-[a-z]+)*)$/.exec(name);
  return match && exists(match[1]) && !kShowsNumber.has(match[1].split('-').at(-1)) ? match[1] + match[2] :
                                                                                      name;
}

export const record = (source, licence, {id, image, group, ...rest}) => ({
  id: `${source}/${id}`,
  image,
  captions: icon_captions({id: `${source}/${id}`, ...rest}),
  source,
  licence,
  group: `${source}/${group}`
});

export function read_lucide(packages) {
  const root = join(packages, 'lucide-static');
  const tags = read_json(join(root, 'tags.json'));
  const paths = walk(join(root, 'icons'), ['.svg']);
  // A renamed icon stays under its old names too: equal drawings, of which one is listed in tags.json.
  const by_digest = new Map();
  for (const path of paths) {
    const digest = picture_digest(path);
    by_digest.set(digest, [...(by_digest.get(digest) ?? []), path]);
  }
  const exists = (name) => name in tags;
  const result = [];
  for (const same of by_digest.values()) {
    const image = same.find((path) => exists(stem(path))) ?? same[0];
    const name = stem(image);
    const aliases = same.filter((path) => path !== image)
                        .map((path) => name_to_words(without_design_number(stem(path), exists)));
    const words = name_to_words(without_design_number(name, exists));
    result.push(record(
        'lucide', 'ISC',
        {id: name, image, group: name, words, style: 'outline', aliases, tags: tags[name] ?? []}));
  }
  return result;
}

export function read_tabler(packages) {
  const root = join(packages, '@tabler/icons');
  const about = read_json(join(root, 'icons.json'));
  const exists = (name) => name in about;
  const result = [];
  for (const [folder, style] of [['outline', 'outline'], ['filled', 'fill']]) {
    for (const image of walk(join(root, 'icons', folder), ['.svg'])) {
      const name = stem(image);
      const info = about[name] ?? {tags: [], category: ''};
      const brand = name.startsWith('brand-');
      const words = name_to_words(without_design_number(brand ? name.slice('brand-'.length) : name, exists));
      const aliases = brand ? [`${words} logo`, `${words} brand`] : [];
      const tags = info.tags.map((tag) => String(tag ?? ''))
                       .filter((tag) => tag.length > 1 && !(brand && /^(brand|logo)$/.test(tag)));
      result.push(record('tabler', 'MIT', {
        id: `${folder}/${name}`,
        image,
        group: name,
        words,
        style,
        aliases,
        tags,
        category: info.category === 'System' ? '' : clean_text(info.category)
      }));
    }
  }
  return result;
}

export async function read_phosphor(packages) {
  const root = join(packages, '@phosphor-icons/core');
  const {icons} = await import(pathToFileURL(join(root, 'dist/index.mjs')).href);
  const about = new Map(icons.map((icon) => [icon.name, icon]));
  const styles =
      {regular: 'outline', thin: 'thin', light: 'light', bold: 'bold', fill: 'fill', duotone: 'duotone'};
  const result = [];
  for (const [weight, style] of Object.entries(styles)) {
    for (const image of walk(join(root, 'assets', weight), ['.svg'])) {
      const name = weight === 'regular' ? stem(image) : stem(image).slice(0, -(weight.length + 1));
      const icon = about.get(name) ?? {tags: [], categories: []};
      const brand = name.endsWith('-logo');
      const words = name_to_words(brand ? name.slice(0, -'-logo'.length) : name);
      const aliases =
          [...(brand ? [`${words} logo`] : []), ...(icon.alias ? [name_to_words(icon.alias.name)] : [])];
      result.push(record('phosphor', 'MIT', {
        id: `${weight}/${name}`,
        image,
        group: name,
        words,
        style,
        aliases,
        tags: icon.tags,
        category: icon.categories.find((category) => category !== 'system') ?? ''
      }));
    }
  }
  return result;
}

export function read_remixicon(packages) {
  const root = join(packages, 'remixicon/icons');
  const names = new Set(walk(root, ['.svg']).map((path) => stem(path).replace(/-(line|fill)$/, '')));
  const exists = (name) => names.has(name);
  const result = [];
  for (const folder of readdirSync(root).sort(by_text)) {
    for (const image of walk(join(root, folder), ['.svg'])) {
      const name = stem(image).replace(/-(line|fill)$/, '');
      const style = stem(image).endsWith('-fill') ? 'fill' : 'outline';
      const words = name_to_words(without_design_number(name, exists));
      const aliases = folder === 'Logos' ? [`${words} logo`] : [];
      result.push(record('remixicon', 'Apache-2.0', {
        id: stem(image),
        image,
        group: name,
        words,
        style,
        aliases,
        category: folder === 'Others' ? '' : folder.toLowerCase()
      }));
    }
  }
  return result;
}

export function read_mdi(packages) {
  const root = join(packages, '@mdi/svg');
  const result = [];
  for (const icon of read_json(join(root, 'meta.json')).sort((a, b) => by_text(a.name, b.name))) {
    const outlined = /-outline\b/.test(icon.name);
    const plain = (name) => name_to_words(name.replace(/-(outline|variant)\b/g, '')
                                              .replace(/^alpha-([a-z])\b/, 'letter-$1')
                                              .replace(/^numeric-/, 'number-'));
    const categories = icon.tags.map((tag) => clean_text(tag.replace(/\s*[/+]\s*/g, ' ')));
    const words = plain(icon.name);
    const aliases = icon.aliases.map(plain);
    if (icon.tags.includes('Brand / Logo')) aliases.unshift(`${words} logo`);
    result.push(record('mdi', 'Apache-2.0', {
      id: icon.name,
      image: join(root, 'svg', `${icon.name}.svg`),
      group: icon.name.replace(/-outline\b/, ''),
      words,
      style: outlined ? 'outline_variant' : 'solid',
      aliases,
      category: categories[0] ?? ''
    }));
  }
  return result;
}

// Held out of training. The one caption is the published name in words and nothing of ours: it is the query.
export function read_bootstrap(packages) {
  return walk(join(packages, 'bootstrap-icons/icons'), ['.svg'])
      .map((image) => ({
             id: `bootstrap-icons/${stem(image)}`,
             image,
             captions: [name_to_words(stem(image))],
             source: 'bootstrap-icons',
             licence: 'MIT',
             group: `bootstrap-icons/${stem(image).replace(/-fill\b/, '')}`
           }));
}

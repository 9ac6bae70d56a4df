// What all readers of image sets need of the file system: sorted walks, contents compared as pictures.
import {createHash} from 'node:crypto';
import {readdirSync, readFileSync, statSync} from 'node:fs';
import {basename, extname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

// Larger drawings take seconds to render and are maps and traced photographs, not what an icon search is for.
export const kMaxSvgBytes = 300 * 1024;

// A plain order of code units: the same on every machine, whatever its locale.
export const by_text = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// Regular files in `folder`, sorted, as full paths; links are left out, folders named in `skip` not entered.
export function walk(folder, extensions, skip = []) {
  const result = [];
  const entries = readdirSync(folder, {withFileTypes: true}).sort((a, b) => by_text(a.name, b.name));
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && !skip.includes(entry.name)) result.push(...walk(path, extensions, skip));
    if (entry.isFile() && extensions.includes(extname(entry.name).toLowerCase())) result.push(path);
  }
  return result;
}

export const stem = (path) => basename(path, extname(path));
export const read_json = (path) => JSON.parse(readFileSync(path, 'utf8'));
export const file_size = (path) => statSync(path).size;

// A digest of what a file draws. In SVG, comments, white space and names (id, class) draw nothing.
export function picture_digest(path) {
  const bytes = readFileSync(path);
  if (extname(path).toLowerCase() !== '.svg') return createHash('sha256').update(bytes).digest('hex');
  const text = bytes.toString('utf8')
                   .replace(/<!--[\s\S]*?-->/g, '')
                   .replace(/<metadata[\s\S]*?<\/metadata>/g, '')
                   .replace(/\s(id|class)="[^"]*"/g, '')
                   .replace(/\s+/g, ' ')
                   .replace(/ ?([<>]) ?/g, '$1');
  return createHash('sha256').update(text).digest('hex');
}

// All outlines of an SVG (its `d` attributes), without white space: equal for equal shapes under other
// attributes.
export function outline_digest(path) {
  const outlines = [...readFileSync(path, 'utf8').matchAll(/\sd="([^"]*)"/g)].map(
      (match) => match[1].replace(/[\s,]+/g, ' ').trim());
  const drawn = outlines.filter((outline) => !/^M ?0 0h24v24H0z$/i.test(outline)).sort();
  return drawn.length ? createHash('sha256').update(drawn.join('\n')).digest('hex') : '';
}

// Runs `main` where the module of this URL is the program that node was given; an error is one line under the
// program's name and exit code 1.
export async function run_as_program(url, main) {
  const path = fileURLToPath(url);
  if (process.argv[1] !== path) return;
  try {
    await main();
  } catch (error) {
    process.stderr.write(`${stem(path)}: ${error.message}\n`);
    process.exitCode = 1;
  }
}

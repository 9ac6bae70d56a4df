// Makes the one script that draws a report's charts: Vega, Vega-Lite and Vega's expression interpreter in a
// row, their licences in front.
//
//   node bundle.mjs --out FILE
//
// The interpreter is what lets a page forbid `eval`: without it Vega compiles a chart's expressions to
// functions.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const modules = join(dirname(fileURLToPath(import.meta.url)), "node_modules");

// What only the packages' command lines and type checkers need; nothing of it is in the scripts.
const notInScripts = new Set(["commander", "iconv-lite", "rw", "vega-typings", "yargs"]);

// The packages whose code the scripts hold: `roots` and all that they depend on.
export function packagesBehind(roots, dependenciesOf) {
  const found = new Set();
  const visit = (name) => {
    if (found.has(name) || notInScripts.has(name) || name.startsWith("@types/")) return;
    found.add(name);
    for (const dependency of dependenciesOf(name)) visit(dependency);
  };
  for (const root of roots) visit(root);
  return [...found].sort();
}

// One block a licence text, with the packages it is of. A comment's end inside a text is defused.
export function licenceComment(packages, licenceOf) {
  const packagesOf = new Map();
  for (const name of packages) {
    const text = licenceOf(name);
    packagesOf.set(text, [...(packagesOf.get(text) ?? []), name]);
  }
  const blocks = [...packagesOf].map(([text, names]) => `${names.join(", ")}:\n\n${text}`);
  return `/*!\n${blocks.join("\n\n---\n\n").replaceAll("*/", "* /")}\n*/\n`;
}

// An ES module that imports from vega-util alone, as a plain script over the global `vega`.
export function plainInterpreter(source) {
  const imported = source.match(/^import \{([^}]*)\} from 'vega-util';$/m);
  const exported = source.match(/^export \{ (\w+) as expressionInterpreter \};$/m);
  const lines = (word) => source.match(new RegExp(`^${word} `, "gm"))?.length ?? 0;
  if (!imported || !exported || lines("import") !== 1 || lines("export") !== 1) {
    throw new Error("vega-interpreter: imports or exports something else than this script knows");
  }
  const body = source
    .replace(imported[0], `const {${imported[1]}} = vega;`)
    .replace(exported[0], `globalThis.vegaInterpreter = ${exported[1]};`);
  return `(function () {\n"use strict";\n${body}})();\n`;
}

// A page holds the script between <script> and </script>: nothing in it may look like either, or like a
// comment's start, after which browsers read on differently.
export function checkInlineable(name, script) {
  const bad = script.match(/<\/?script|<!--/i);
  if (bad) throw new Error(`${name}: has "${bad[0]}" in it, which would end or open a script inside a page`);
  return script;
}

function withoutSourceMap(script) {
  return script.replace(/^\/\/# sourceMappingURL=.*$/m, "").trimEnd() + "\n";
}

// A browser reads a page's line ends as \n, and the page's security policy has the hash of what it reads.
export const unixLines = (text) => text.replace(/\r\n?/g, "\n");

function main(out) {
  const read = (...path) => readFileSync(join(modules, ...path), "utf8");
  const description = (name) => JSON.parse(read(name, "package.json"));
  const licenceOf = (name) => {
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].find((each) => existsSync(join(modules, name, each)));
    if (!file) throw new Error(`${name}: no licence file in the package`);
    return read(name, file).trim();
  };
  const roots = ["vega", "vega-lite", "vega-interpreter"];
  const packages = packagesBehind(roots, (name) => Object.keys(description(name).dependencies ?? {}));
  const versions = roots.map((name) => `${name} ${description(name).version}`).join(", ");
  const script = unixLines(
    `// ${versions}: scripts of other people, under these licences.\n` +
    licenceComment(packages, licenceOf) +
    withoutSourceMap(read("vega", "build", "vega.min.js")) +
    withoutSourceMap(read("vega-lite", "build", "vega-lite.min.js")) +
      plainInterpreter(withoutSourceMap(read("vega-interpreter", "build", "vega-interpreter.js"))),
  );
  checkInlineable("charts", script);
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(`${out}.new`, script);
  renameSync(`${out}.new`, out);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [flag, out] = process.argv.slice(2);
  if (flag !== "--out" || !out) {
    console.error("usage: node bundle.mjs --out FILE");
    process.exit(2);
  }
  main(out);
}

// Builds the page into built/, whose files the program carries and git keeps (docs/adr/0013-the-page-is-built-ahead.md).
//
//   node build.mjs            types checked, built, and built/SOURCES says of what
//   node build.mjs --check    exit code 1 where built/ is not what these sources build
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const built = join(here, "built");
const check = process.argv.includes("--check");

execFileSync(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--noEmit", "-p", here], { stdio: "inherit" });
const into = check ? mkdtempSync(join(tmpdir(), "saccade-page-")) : built;
await build({ root: here, logLevel: "warn", build: { outDir: into, emptyOutDir: true } });
if (check) {
  const files = new Set([...readdirSync(into), ...readdirSync(built).filter((name) => name !== "SOURCES")]);
  const read = (folder, name) => {
    try {
      return readFileSync(join(folder, name));
    } catch {
      return Buffer.alloc(0);
    }
  };
  const differ = [...files].filter((name) => !read(into, name).equals(read(built, name)));
  rmSync(into, { recursive: true });
  if (differ.length > 0) {
    console.log(`src/saccade/serve/page/built: ${differ.join(", ")}: not what the sources build (./dev page does it)`);
    process.exit(1);
  }
} else {
  writeFileSync(join(built, "SOURCES"), execFileSync(join(here, "../../../../tools/check/page"), ["--sources"]));
}

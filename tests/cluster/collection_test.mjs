// Collections in a Weaviate cluster of three nodes, used by `saccade` as folders are: workers that share their inputs, roots
// that hosts mount elsewhere, shards and replicas, a folder that is watched, a new model behind an alias, queries of all kinds and filters against the same
// items in a folder, three servers and the page over one class, a node that is killed during import and search, and an engine that
// is down. The cost of `search --exact-rescore` is measured.
import assert from "node:assert/strict";
import { appendFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ask, draw, drawings, nodePorts, run, start, startNode, stop, stopAll, until } from "./programs.mjs";

const folder = mkdtempSync(join(tmpdir(), "saccade-nodes-"));
const nodes = [];
const servers = [];
let hosts = "";
let dim = 0;
const environment = { HOME: join(folder, "home") };

const saccade = (...options) => run(folder, process.env.SACCADE_PROGRAM, options, environment);
async function succeeds(...options) {
  const done = await saccade(...options);
  assert.equal(done.code, 0, `saccade ${options.join(" ")}\n${done.out}${done.err}`);
  return done.out;
}
const answers = async (...options) => JSON.parse(await succeeds(...options, "--json"));
const address = (name, options = "replicas=3&shards=3") => `weaviate://${hosts}/${name}?${options}`;
// Weaviate's own answer.
async function asked(path) {
  const { status, json, text } = await ask(`http://127.0.0.1:${nodes[0].http}${path}`);
  assert.equal(status, 200, `${path}: ${text}`);
  return json;
}

// Starts a server, and returns its address.
const serve = (...collections) => start(
  folder,
  process.env.SACCADE_PROGRAM,
  ["serve", "-q", ...collections.flatMap((collection) => ["-c", collection]), "--listen", "127.0.0.1:0"],
  environment,
  (child) => child.said.match(/http:\/\/127\.0\.0\.1:\d+/)?.[0],
);

// Two answers say the same, apart from ids, which each collection gives, and from how the images were found.
function assertAlike(theirs, ours, at) {
  if (typeof ours === "number" && typeof theirs === "number") {
    assert.ok(Math.abs(theirs - ours) < 1e-4, `${at}: ${theirs} in the cluster, ${ours} in a folder`);
  } else if (ours === null || typeof ours !== "object") {
    assert.equal(theirs, ours, at);
  } else {
    const keys = (value) => Object.keys(value ?? {}).filter((key) => key !== "id" && key !== "approximate").sort();
    assert.deepEqual(keys(theirs), keys(ours), at);
    for (const key of keys(ours)) assertAlike(theirs[key], ours[key], `${at}.${key}`);
  }
}

// The page's packages and a browser, as in the page's own tests.
const pageFolder = fileURLToPath(new URL("../../src/saccade/serve/page/", import.meta.url));
const browserPath = [process.env.CHROMIUM ?? "", "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
const noBrowser = !existsSync(join(pageFolder, "node_modules/playwright-core"))
  ? "npm's packages are not fetched (./dev page does it)"
  : !browserPath
    ? "no Chromium"
    : false;

// A generator of numbers in [0, 1) from a seed (mulberry32).
function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// Writes items with random metadata and rows in the form that `collection import` reads.
function writeItems(to, count, seed) {
  const random = generator(seed);
  const pick = (list) => list[Math.floor(random() * list.length)];
  mkdirSync(to, { recursive: true });
  const rows = new Float32Array(count * dim);
  let lines = "";
  for (let i = 0; i < count; i++) {
    let squares = 0;
    for (let c = 0; c < dim; c++) {
      const value = random() + random() + random() - 1.5;
      rows[i * dim + c] = value;
      squares += value * value;
    }
    for (let c = 0; c < dim; c++) rows[i * dim + c] /= Math.sqrt(squares);
    const item = { path: `/photos/${pick(["birds", "Boote", "a b", "x=y"])}/IMG_${i}${pick([".jpg", ".JPG", "*.png"])}` };
    item.hash = i.toString(16).padStart(64, "0");
    if (random() < 0.9) Object.assign(item, { width: 1 + Math.floor(random() * 500), height: 1 + Math.floor(random() * 500) });
    if (random() < 0.9) item.size = Math.floor(random() * 1e6);
    if (random() < 0.9) item.mtime_ns = Math.floor(1.2e9 + random() * 5e8) * 1e9;
    item.format = pick(["jpeg", "png", "webp"]);
    item.caption = pick(["", "a red Bird", "Zwei V\u00f6gel?", "50% \"off\" [x]", "boat * sail", "  edge ", "l\u00e4nge \\ b"]);
    if (random() < 0.5) item.taken = new Date(Math.floor(1.3e9 + random() * 3e8) * 1000).toISOString().slice(0, 19);
    if (random() < 0.4) Object.assign(item, { latitude: random() * 180 - 90, longitude: random() * 360 - 180 });
    if (random() < 0.5) item.rating = 1 + Math.floor(random() * 5);
    if (random() < 0.5) item.camera = pick(["Kamera X100", "kamera x200", "Other"]);
    if (random() < 0.5) item.keywords = [pick(["sea", "Sea side", "sky"]), pick(["a*b", "night", "d\u00e9j\u00e0"])];
    if (random() < 0.3) item.place = pick(["Z\u00fcrich", "Bern"]);
    lines += `${JSON.stringify(item)}\n`;
  }
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${count}, ${dim}), }`;
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
  const head = Buffer.alloc(10);
  head.write("\x93NUMPY\x01\x00", "latin1");
  head.writeUInt16LE(padded.length, 8);
  writeFileSync(join(to, "rows.npy"), Buffer.concat([head, Buffer.from(padded, "latin1"), Buffer.from(rows.buffer)]));
  writeFileSync(join(to, "items.jsonl"), lines);
}

// What an export holds: each line of items.jsonl with its row, by path.
async function exported(collection, to) {
  await succeeds("collection", "export", "-c", collection, to);
  const lines = readFileSync(join(to, "items.jsonl"), "utf8").trim().split("\n");
  const npy = readFileSync(join(to, "rows.npy"));
  const begin = 10 + npy.readUInt16LE(8);
  assert.equal(npy.length, begin + lines.length * dim * 4);
  return new Map(lines.map((line, i) => [JSON.parse(line).path, line + npy.subarray(begin + i * dim * 4, begin + (i + 1) * dim * 4).toString("hex")]));
}

const startAt = async (at) => (servers[at] = await startNode(folder, nodes, at));
// None is ready before all of them have formed the cluster, and a node that joins needs the first one's port.
const startAll = () => Promise.all([0, 1, 2].map(async (at) => {
  await new Promise((resolve) => setTimeout(resolve, at * 2000));
  await startAt(at);
}));
function kill(child) {
  return new Promise((resolve) => {
    child.on("exit", resolve);
    child.kill("SIGKILL");
  });
}

before(async () => {
  mkdirSync(join(folder, "home"));
  draw(join(folder, "drawings"));
  for (let at = 0; at < 3; at++) nodes.push(await nodePorts());
  hosts = nodes.map((node) => `127.0.0.1:${node.http}`).join(",");
  await startAll();
  const first = join(folder, "first");
  await succeeds("index", "-q", "-c", first, "-m", "starter", join(folder, "drawings"));
  dim = (await answers("collection", "info", "-c", first)).checkpoint.dim;
}, { timeout: 300_000 });

after(async () => {
  await stopAll();
  rmSync(folder, { recursive: true, force: true });
});

test("workers that share their inputs fill one class, and the images are found", async () => {
  const inputs = join(folder, "drawings");
  const into = address("Drawings");
  const both = await Promise.all([1, 2].map((shard) => saccade("index", "-q", "-c", into, "-m", "starter", "--shard", `${shard}/2`, inputs, "--json")));
  for (const one of both) assert.equal(one.code, 0, one.out + one.err);
  assert.equal(both.reduce((sum, one) => sum + JSON.parse(one.out).added, 0), Object.keys(drawings).length);
  const info = await answers("collection", "info", "-c", into);
  assert.equal(info.items, Object.keys(drawings).length);
  assert.equal(info.checkpoint.dim, dim);
  for (const name of Object.keys(drawings)) {
    const found = await answers("search", "-q", "-c", into, "--keyword-weight", "0", name);
    assert.equal(found.hits[0].path, join(inputs, `${name}.svg`));
    assert.match(found.approximate.engine, /^Weaviate 1\.35/);
    const like = await answers("search", "-q", "-c", into, "--image", join(inputs, `${name}.svg`));
    assert.equal(like.hits[0].path, join(inputs, `${name}.svg`));
    assert.ok(like.hits[0].score > 0.999);
  }
  const again = await answers("index", "-q", "-c", into, inputs);
  assert.equal(again.added, 0);
  assert.equal(again.unchanged, Object.keys(drawings).length);
  rmSync(join(inputs, "a star.svg"));
  appendFileSync(join(inputs, "a house.svg"), " ");
  const pruned = await answers("index", "-q", "-c", into, "--prune", inputs);
  assert.equal(pruned.removed, 1);
  assert.equal(pruned.updated, 1);
  assert.equal((await answers("collection", "info", "-c", into)).items, 3);
  await succeeds("collection", "verify", "-c", into);
  assert.equal((await answers("collection", "remove", "-c", into, "--filter", "path~heart")).removed, 1);
  assert.equal((await answers("index", "-q", "-c", into, inputs)).stayed_out, 1);
}, { timeout: 300_000 });

test("a root that hosts mount elsewhere is one collection with one encoding", async () => {
  const names = Object.keys(drawings);
  const mounts = [join(folder, "mounted"), join(folder, "mnt", "nas")];
  for (const mount of mounts) {
    for (const path of draw(join(mount, "icons"))) utimesSync(path, 1_700_000_000, 1_700_000_000);
  }
  const [here, there] = mounts.map((mount) => `${address("Mounted")}&root=photos=${mount}`);
  // All objects by UUID, with their times of change.
  const stored = () => until(() => "all objects are listed", async () => {
    const { objects } = await asked("/v1/objects?class=Mounted&limit=100");
    return objects.length === names.length && objects.sort((a, b) => (a.id < b.id ? -1 : 1));
  });
  const made = await answers("index", "-q", "-c", here, "-m", "starter", mounts[0]);
  assert.equal(made.added, names.length);
  assert.ok(made.encoder_used);
  const before = await stored();
  assert.deepEqual(before.map(({ properties }) => JSON.parse(properties.item).path).sort(), names.map((name) => `photos/icons/${name}.svg`).sort());
  for (const prune of [[], ["--prune"]]) {
    const again = await answers("index", "-q", "-c", there, ...prune, mounts[1]);
    assert.equal(again.unchanged, names.length);
    assert.equal(again.encoder_used, false);
    for (const count of ["added", "updated", "moved", "removed", "metadata_read"]) assert.equal(again[count], 0, count);
    assert.deepEqual(await stored(), before);
  }
  for (const [at, mount] of [[here, mounts[0]], [there, mounts[1]]]) {
    for (const name of names) {
      const found = await answers("search", "-q", "-c", at, "--keyword-weight", "0", name);
      assert.equal(found.hits[0].path, join(mount, "icons", `${name}.svg`));
      assert.equal(found.searched, names.length);
    }
    // Filters compare the stored path.
    const one = await answers("search", "-q", "-c", at, "--filter", 'path="photos/icons/a star.svg"', "a heart");
    assert.deepEqual(one.hits.map((hit) => hit.path), [join(mount, "icons", "a star.svg")]);
  }
}, { timeout: 300_000 });

test("shards and replicas of the address are those of its classes", async () => {
  const inputs = join(folder, "one");
  draw(inputs, ["a heart"]);
  await succeeds("index", "-q", "-c", address("Sharded", "shards=6&replicas=3"), "-m", "starter", inputs);
  await succeeds("index", "-q", "-c", `weaviate://${hosts}/Plain`, "-m", "starter", inputs);
  // The shards that each node has of a class.
  const shards = async (name) => {
    const { json } = await ask(`http://127.0.0.1:${nodes[0].http}/v1/nodes/${name}?output=verbose`);
    return (json?.nodes ?? []).map((node) => (node.shards ?? []).filter((shard) => shard.class === name).map((shard) => shard.name));
  };
  const sharded = await asked("/v1/schema/Sharded");
  assert.equal(sharded.shardingConfig.desiredCount, 6);
  assert.equal(sharded.shardingConfig.actualCount, 6);
  assert.equal(sharded.replicationConfig.factor, 3);
  assert.equal((await asked("/v1/schema/ShardedNotes")).replicationConfig.factor, 3);
  let seen = [];
  await until(() => `each node has six shards: ${JSON.stringify(seen)}`, async () => {
    seen = await shards("Sharded");
    return seen.length === 3 && seen.every((names) => names.length === 6 && new Set(names).size === 6);
  });
  assert.equal(new Set(seen.flat()).size, 6);
  // By default there is one shard a node, and each is kept once.
  const plain = await asked("/v1/schema/Plain");
  assert.equal(plain.shardingConfig.desiredCount, 3);
  assert.equal(plain.replicationConfig.factor, 1);
  await until(() => `three shards are kept once: ${JSON.stringify(seen)}`, async () => {
    seen = (await shards("Plain")).flat();
    return seen.length === 3 && new Set(seen).size === 3;
  });
}, { timeout: 120_000 });

test("a folder that is watched is followed into the cluster", async () => {
  const inputs = join(folder, "watched");
  draw(inputs, ["a heart", "a star"]);
  const into = address("Watched");
  assert.equal((await answers("index", "-q", "-c", into, "-m", "starter", inputs)).added, 2);
  const watching = await start(
    folder,
    process.env.SACCADE_PROGRAM,
    ["watch", "-c", into, "--settle", "0.3", "--json", inputs],
    environment,
    (child) => child.said.includes("are removed from the collection") && child,
  );
  // Sums of what the lines of JSON report.
  const reported = () => {
    const reports = watching.said.split("\n").slice(0, -1).filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
    return ["added", "updated", "removed", "moved"].map((count) => reports.reduce((sum, report) => sum + report[count], 0));
  };
  const follows = (...wanted) => until(() => `added, updated, removed, moved are ${wanted}:\n${watching.said}`, () => {
    assert.equal(watching.exitCode, null, watching.said);
    return reported().join() === wanted.join();
  });
  const best = async (name) => (await answers("search", "-q", "-c", into, "--keyword-weight", "0", "--no-group-duplicates", name)).hits;
  const items = async () => (await answers("collection", "info", "-c", into)).items;

  const [house] = draw(inputs, ["a house"]);
  await follows(1, 0, 0, 0);
  await until(() => "the new image is found", async () => (await best("a house"))[0].path === house);
  assert.equal(await items(), 3);

  writeFileSync(house, drawings["an envelope"]);
  await follows(1, 1, 0, 0);
  const [envelope] = draw(join(folder, "not-watched"), ["an envelope"]);
  await until(() => "the changed image has the embedding of its new content", async () => {
    const { hits } = await answers("search", "-q", "-c", into, "--image", envelope);
    return hits[0].path === house && hits[0].score > 0.999;
  });
  assert.equal(await items(), 3);

  rmSync(join(inputs, "a star.svg"));
  await follows(1, 1, 1, 0);
  await until(() => "the removed image is found no more", async () => {
    const paths = (await best("a star")).map((hit) => hit.path).sort();
    return paths.join() === [join(inputs, "a heart.svg"), house].sort().join();
  });
  assert.equal(await items(), 2);
  await stop(watching);
  await succeeds("collection", "verify", "-c", into);
}, { timeout: 300_000 });

test("queries of all kinds are answered like a folder's, by three servers too", async () => {
  const inputs = join(folder, "alike");
  const paths = draw(inputs);
  const [heart, , house] = paths;
  const [local, into] = [join(folder, "alike-local"), address("Alike")];
  for (const to of [local, into]) assert.equal((await answers("index", "-q", "-c", to, "-m", "starter", inputs)).added, paths.length);
  for (const query of [
    ["a heart"],
    ["a heart -house"],
    ["--image", house],
    ["but gold", "--image", heart],
    ["a star", "--image", heart, "--image", house],
    ["--keyword-weight", "0", "--rerank", "starter", "a star"],
    ["--explain", "an envelope"],
    ["but brown", "--image", heart, "--rerank", "starter", "--explain"],
  ]) {
    const [ours, theirs] = await Promise.all([local, into].map((from) => answers("search", "-q", "-c", from, ...query)));
    assert.match(theirs.approximate.engine, /^Weaviate/);
    assert.ok(ours.hits.length > 0);
    assertAlike(theirs, ours, query.join(" "));
  }

  const one = await serve(local, into);
  const [ids, wanted] = [{}, {}];
  for (const name of ["alike-local", "Alike"]) {
    const { json } = await ask(`${one}/api/search`, { collection: name, text: "a house" });
    ids[name] = json.hits.find((hit) => hit.path === house).id;
    const like = await ask(`${one}/api/search`, { collection: name, like: ids[name] });
    assert.equal(like.status, 200, like.text);
    wanted[name] = like.json.hits.map(({ path, score }) => ({ path, score }));
    assert.ok(wanted[name].every(({ path }) => path !== house), like.text);
  }
  assertAlike(wanted.Alike, wanted["alike-local"], "like");

  const servers = await Promise.all([1, 2, 3].map(() => serve(into)));
  for (const body of [{ text: "a star", k: 4 }, { like: ids.Alike, k: 4 }, { like: ids.Alike, text: "but red", k: 4 }, { filter: "path~heart" }]) {
    const [first, ...others] = await Promise.all(servers.map(async (server) => {
      const { status, json, text } = await ask(`${server}/api/search`, body);
      assert.equal(status, 200, text);
      return json.hits;
    }));
    assert.ok(first.length > 0);
    for (const other of others) assert.deepEqual(other, first);
  }
}, { timeout: 300_000 });

test("the page shows a collection of the cluster", { skip: noBrowser, timeout: 300_000 }, async () => {
  const inputs = join(folder, "shown");
  const paths = draw(inputs);
  await succeeds("index", "-q", "-c", address("Shown"), "-m", "starter", inputs);
  const served = await serve(address("Shown"));
  const { chromium } = createRequire(join(pageFolder, "package.json"))("playwright-core");
  const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(60_000);
    const failed = [];
    page.on("pageerror", (error) => failed.push(`${error}`));
    page.on("response", (response) => response.status() >= 500 && failed.push(`${response.status()} ${response.url()}`));
    const shown = () => page.waitForSelector('#results[aria-busy="false"] .tile-link').then(() => page.$$eval("#results .tile-link", (links) => links.map((link) => Number(link.dataset.id))));
    await page.goto(`${served}/`);
    assert.equal((await shown()).length, paths.length);
    await page.goto(`${served}/?q=${encodeURIComponent("a heart")}`);
    const found = await shown();
    const { json } = await ask(`${served}/api/search`, { text: "a heart" });
    assert.equal(found[0], json.hits[0].id);
    assert.equal(json.hits[0].path, join(inputs, "a heart.svg"));
    assert.deepEqual(failed, []);
  } finally {
    await browser.close();
  }
});

test("a new model takes an old one's place behind an alias while searches run, and none fails", async (t) => {
  const inputs = join(folder, "renewed-drawings");
  draw(inputs);
  const count = Object.keys(drawings).length;
  // The starter under another name and fingerprint.
  const renewed = join(folder, "renewed");
  cpSync(new URL("../../models/starter", import.meta.url), renewed, { recursive: true });
  appendFileSync(join(renewed, "config.json"), "\n");
  const [first, second, alias] = [address("Older"), address("Newer"), `weaviate://${hosts}/Current`];
  await succeeds("index", "-q", "-c", first, "-m", "starter", inputs);
  const made = await ask(`http://127.0.0.1:${nodes[0].http}/v1/aliases`, { alias: "Current", class: "Older" });
  assert.equal(made.status, 200, made.text);
  const served = await start(
    folder,
    process.env.SACCADE_PROGRAM,
    ["serve", "-q", "-c", alias, "--listen", "127.0.0.1:0"],
    environment,
    (child) => child.said.match(/http:\/\/127\.0\.0\.1:\d+/)?.[0],
  );
  const model = async () => (await ask(`${served}/api/collections/Current`)).json.model;
  assert.equal(await model(), "starter");
  let answered = 0;
  let going = true;
  const failed = [];
  const search = async (text) => {
    for (let i = 0; going; i++) {
      const { status, json, text: said } = await ask(`${served}/api/search`, { text: `${text} ${i}`, k: 2 });
      if (status === 200 && json.searched === count && json.hits.length > 0) answered++;
      else failed.push(`${status}: ${said}`);
    }
  };
  const searching = [search("a star"), search("a house")];
  const command = ["collection", "reencode", "-q", "-c", alias, "--to", second, "--switch", alias];
  const done = await answers(...command, "-m", renewed);
  assert.equal(done.added, count);
  assert.equal(done.switched, true);
  const begin = performance.now();
  await until(() => "the new model is served", async () => (await model()) === "renewed", 20);
  t.diagnostic(`followed ${Math.round(performance.now() - begin)} ms after the switch`);
  const before = answered;
  await until(() => "searches go on", () => answered > before + 20);
  going = false;
  await Promise.all(searching);
  assert.deepEqual(failed, []);
  assert.equal((await asked("/v1/aliases/Current")).class, "Newer");
  // The new class has the same images, and its own embeddings are those of its model.
  for (const name of Object.keys(drawings)) {
    const like = await answers("search", "-q", "-c", alias, "--image", join(inputs, `${name}.svg`));
    assert.equal(like.hits[0].path, join(inputs, `${name}.svg`));
    assert.ok(like.hits[0].score > 0.999);
  }
  assert.equal((await answers("collection", "info", "-c", alias)).checkpoint.name, "renewed");
  assert.equal((await answers(...command)).already, true);
  const again = await saccade("collection", "reencode", "-q", "-c", first, "--to", second);
  assert.equal(again.code, 1);
  assert.match(again.err, /the alias Current leads to it/);
}, { timeout: 300_000 });

test("500 random filters leave the same items as in a folder", async () => {
  writeItems(join(folder, "items"), 240, 1);
  const local = join(folder, "local");
  for (const into of [address("Random"), local]) {
    await succeeds("collection", "import", "-q", "-c", into, "-m", "starter", "--no-files", join(folder, "items"));
  }
  const served = await serve(local, address("Random"));
  const random = generator(7);
  const pick = (list) => list[Math.floor(random() * list.length)];
  const number = () => pick(["=", "!=", "<", "<=", ">", ">="]);
  const quoted = (text) => `"${text.replace(/[\\"]/g, "\\$&")}"`;
  const whole = (most) => Math.floor(random() * most);
  const leaf = () => pick([
    () => `width${number()}${whole(500)}`,
    () => `height${number()}${whole(500)}`,
    () => `pixels${number()}${whole(250)}k`,
    () => `aspect${number()}${(random() * 3).toFixed(2)}`,
    () => `size${number()}${whole(1000)}kB`,
    () => `date${number()}${2008 + whole(10)}${pick(["", "-03", "-11-20"])}`,
    () => `taken${number()}${2011 + whole(9)}${pick(["", "-07"])}`,
    () => `latitude${number()}${whole(90) - 45}`,
    () => `longitude${number()}${whole(360) - 180}`,
    () => `rating${number()}${whole(6)}`,
    () => `photograph${pick(["=", "!="])}${pick(["yes", "no"])}`,
    () => `format${pick(["=", "!=", "~"])}${pick(["jpg", "png", "webp", "e"])}`,
    () => `caption${pick(["=", "!=", "~", "!~"])}${quoted(pick(["", "a red bird", "V\u00d6GEL", "*bird", "?off?", "\"", "boat *", "  edge ", " ", "\\", "%", "bo?t*"]))}`,
    () => `camera${pick(["=", "!=", "~", "!~"])}${quoted(pick(["kamera x100", "KAMERA", "*x?00", "other", ""]))}`,
    () => `keyword${pick(["=", "!=", "~", "!~"])}${quoted(pick(["sea", "SEA*", "a*b", "d\u00e9j\u00e0", "i", "s?y", ""]))}`,
    () => `place${pick(["=", "!=", "~", "!~"])}${quoted(pick(["z\u00fcrich", "b", "*n", ""]))}`,
    () => `path${pick(["=", "!=", "~", "!~"])}${quoted(pick(["*/birds/*", "boote", "/photos/a b/*", "x=y", "*.JPG", "img_1", "/photos/birds/IMG_3.jpg", "?photos*"]))}`,
    () => `hash${pick(["=", "~"])}${pick(["0".repeat(63) + "5", "a0", "*1f"])}`,
  ])();
  const tree = (depth) => (depth === 0 || random() < 0.4 ? leaf() : pick([
    () => `(${tree(depth - 1)} and ${tree(depth - 1)})`,
    () => `(${tree(depth - 1)} or ${tree(depth - 1)})`,
    () => `not ${tree(depth - 1)}`,
  ])());
  let some = 0;
  for (let i = 0; i < 500; i++) {
    const filter = tree(3);
    const [ours, theirs] = await Promise.all(["local", "Random"].map(async (name) => {
      const { status, json, text } = await ask(`${served}/api/collections/${name}/images?k=240&filter=${encodeURIComponent(filter)}`);
      assert.equal(status, 200, `${name}: ${filter}: ${text}`);
      assert.equal(json.images.length, json.total, filter);
      return json.images.map((image) => image.path).sort();
    }));
    assert.deepEqual(theirs, ours, filter);
    if (ours.length > 0 && ours.length < 240) some++;
  }
  assert.ok(some > 200, `${some} of 500 filters leave some items and not all`);
  // The last page that Weaviate lists is shorter than others, and there is none behind it.
  for (const offset of [9_990, 10_000, 20_000]) {
    const { status, text } = await ask(`${served}/api/collections/Random/images?k=60&offset=${offset}`);
    assert.equal(status, 200, `${offset}: ${text}`);
  }
}, { timeout: 300_000 });

test("the cost of --exact-rescore is measured", async (t) => {
  const count = 12_000;
  writeItems(join(folder, "costs"), count, 3);
  const local = join(folder, "costs-local");
  const into = address("Costs", "shards=3");
  for (const to of [local, into]) {
    await succeeds("collection", "import", "-q", "-c", to, "-m", "starter", "--no-files", join(folder, "costs"));
  }
  // The median time of five searches, and the last answer.
  const measured = async (...options) => {
    const times = [];
    let found;
    for (let i = 0; i < 5; i++) {
      const begin = performance.now();
      found = await answers("search", "-q", "--keyword-weight", "0", "--no-group-duplicates", ...options, "a red bird");
      times.push(performance.now() - begin);
    }
    return { time: Math.round(times.sort((a, b) => a - b)[2]), found, paths: found.hits.map((hit) => hit.path) };
  };
  const exact = await measured("-c", local);
  assert.equal(exact.paths.length, 10);
  t.diagnostic(`search among ${count} images of ${dim} values, median of 5, with the program's start and the text's encoding:`);
  t.diagnostic(`in a folder, exact: ${exact.time} ms`);
  for (const rescore of [256, 1_000, 10_000]) {
    const { time, found, paths } = await measured("-c", into, "--exact-rescore", `${rescore}`);
    const { compared } = found.approximate;
    // A node's index of vectors may give somewhat less.
    assert.ok(compared > 0.9 * rescore && compared <= rescore, `--exact-rescore ${rescore} compared ${compared} images`);
    assert.equal(found.searched, count);
    assert.equal(paths.length, 10);
    const same = paths.filter((path) => exact.paths.includes(path)).length;
    t.diagnostic(`--exact-rescore ${rescore}: ${time} ms, ${compared} compared, ${same} of the exact 10 best`);
  }
  // The import measured match probabilities on a sample, which the class keeps.
  const cut = await answers("search", "-q", "-c", into, "--min-probability", "0.01", "a red bird");
  assert.equal(cut.matching.tells, true);
  assert.deepEqual(cut.matching.sample, { images: 4096, of: count });
  assert.ok(cut.hits.length > 0 && cut.matching.passed >= cut.hits.length);
  assert.match(await succeeds("search", "-q", "-c", into, "a red bird"), /match probabilities from a sample of 4,096 of 12,000 images/);
  // The nodes of the next tests start again without it.
  for (const name of ["Costs", "CostsNotes"]) {
    assert.equal((await ask(`http://127.0.0.1:${nodes[0].http}/v1/schema/${name}`, undefined, {}, "DELETE")).status, 200);
  }
}, { timeout: 400_000 });

test("a node that is killed in an import and in searches loses nothing", async () => {
  const count = 2000;
  writeItems(join(folder, "many"), count, 2);
  const into = address("Many");
  const local = join(folder, "many-local");
  await succeeds("collection", "import", "-q", "-c", local, "-m", "starter", "--no-files", join(folder, "many"));
  const importing = saccade("collection", "import", "-q", "-c", into, "-m", "starter", "--no-files", join(folder, "many"));
  for (;;) {
    const { json } = await ask(`http://127.0.0.1:${nodes[0].http}/v1/graphql`, { query: "{Aggregate{Many{meta{count}}}}" });
    const there = json?.data?.Aggregate?.Many?.[0]?.meta?.count ?? 0;
    if (there > count / 10) {
      assert.ok(there < count, "the import ended before the node was killed");
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await kill(servers[1]);
  const imported = await importing;
  assert.equal(imported.code, 0, imported.out + imported.err);
  const [ours, theirs] = [await exported(local, join(folder, "out-local")), await exported(into, join(folder, "out-many"))];
  assert.equal(theirs.size, count);
  for (const [path, whole] of ours) assert.equal(theirs.get(path), whole, path);
  // Searches with one node down, and while another is killed.
  const wanted = await answers("search", "-q", "-c", local, "--keyword-weight", "0", "--no-group-duplicates", "a red bird");
  const paths = (found) => found.hits.map((hit) => hit.path);
  const search = () => answers("search", "-q", "-c", into, "--keyword-weight", "0", "--no-group-duplicates", "a red bird");
  assert.deepEqual(paths(await search()), paths(wanted));
  await startAt(1);
  const running = Array.from({ length: 6 }, search);
  await kill(servers[2]);
  for (const found of await Promise.all(running)) assert.deepEqual(paths(found), paths(wanted));
  await startAt(2);
}, { timeout: 400_000 });

test("an engine that is down is one sentence, and a server recovers without restart", async () => {
  const into = address("Random");
  const served = await serve(into);
  const found = async () => (await ask(`${served}/api/search`, { text: "a red bird", k: 5 }));
  assert.equal((await ask(`${served}/readyz`)).status, 200);
  assert.equal((await found()).json.hits.length, 5);
  await Promise.all(servers.map(stop));
  assert.equal((await ask(`${served}/readyz`)).status, 503);
  assert.equal((await found()).status, 503);
  const down = await saccade("search", "-q", "-c", into, "a red bird");
  assert.equal(down.code, 1);
  assert.match(down.err, /Weaviate does not answer/);
  assert.equal(down.err.trim().split("\n").length, 1, down.err);
  await startAll();
  for (const end = Date.now() + 60_000; (await ask(`${served}/readyz`)).status !== 200;) {
    assert.ok(Date.now() < end, "not ready again after 60 s");
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  assert.equal((await found()).json.hits.length, 5);
}, { timeout: 300_000 });

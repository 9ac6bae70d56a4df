// Weaviate with `saccade serve` as its vectorizer: a server that runs its module multi2vec-clip, which asks ours for the
// vectors of objects and of queries.
//
//   SACCADE_PROGRAM=build/release/bin/saccade WEAVIATE_PROGRAM=.../weaviate-server node --test tests/cluster/weaviate_test.mjs
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ask, drawings, nodePorts, start, startNode, stopAll } from "./programs.mjs";

const key = "cluster-test-key-0123456789";
const folder = mkdtempSync(join(tmpdir(), "saccade-cluster-"));
let saccade = "";
let weaviate = "";

async function graphql(query) {
  const { json } = await ask(`${weaviate}/v1/graphql`, { query });
  assert.equal(json.errors, undefined, JSON.stringify(json.errors));
  return json.data.Get;
}

async function embedding(input) {
  const { json } = await ask(`${saccade}/v1/embeddings`, { input: [input] }, { authorization: `Bearer ${key}` });
  return json.data[0].embedding;
}
const cosine = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const near = (a, b, bound, what) => assert.ok(Math.abs(a - b) <= bound, `${what}: ${a}, expected ${b} within ${bound}`);

async function makeClass(name, settings, properties) {
  const made = await ask(`${weaviate}/v1/schema`, {
    class: name,
    vectorizer: "multi2vec-clip",
    vectorIndexType: "flat",
    moduleConfig: { "multi2vec-clip": settings },
    properties,
  });
  assert.equal(made.status, 200, made.text);
}
const add = (name, properties) => ask(`${weaviate}/v1/objects`, { class: name, properties });

before(async () => {
  const keys = join(folder, "keys");
  writeFileSync(keys, `${key}\n`, { mode: 0o600 });
  mkdirSync(join(folder, "home"));
  saccade = await start(
    folder,
    process.env.SACCADE_PROGRAM,
    ["serve", "-q", "-m", "starter", "--listen", "127.0.0.1:0", "--key-file", keys],
    { HOME: join(folder, "home") },
    (child) => child.said.match(/http:\/\/127\.0\.0\.1:\d+/)?.[0],
  );
  const nodes = [await nodePorts()];
  await startNode(folder, nodes, 0, {
    CLIP_INFERENCE_API: saccade.replace("http://", `http://saccade:${key}@`),
    ENABLE_MODULES: "multi2vec-clip",
    DEFAULT_VECTORIZER_MODULE: "multi2vec-clip",
  });
  weaviate = `http://127.0.0.1:${nodes[0].http}`;
  await makeClass("Drawing", { imageFields: ["image"] }, [
    { name: "name", dataType: ["text"] },
    { name: "image", dataType: ["blob"] },
  ]);
  for (const [name, image] of Object.entries(drawings)) {
    const added = await add("Drawing", { name, image: image.toString("base64") });
    assert.equal(added.status, 200, added.text);
  }
}, { timeout: 300_000 });

after(async () => {
  await stopAll();
  rmSync(folder, { recursive: true, force: true });
});

test("the module shows the encoder", async () => {
  const { json } = await ask(`${weaviate}/v1/meta`);
  const { json: models } = await ask(`${saccade}/api/models`, undefined, { "x-api-key": key });
  assert.equal(json.modules["multi2vec-clip"].model.fingerprint, models.models[0].fingerprint);
});

test("objects have the embeddings of their images", async () => {
  const { Drawing: found } = await graphql("{Get{Drawing{name _additional{vector}}}}");
  assert.equal(found.length, Object.keys(drawings).length);
  for (const { name, _additional } of found) {
    const own = await embedding({ image: drawings[name].toString("base64") });
    near(cosine(_additional.vector, own), 1, 1e-5, name);
  }
});

test("nearText finds the drawing of the words, at the cosine of the two", async () => {
  for (const [name, image] of Object.entries(drawings)) {
    const { Drawing: found } = await graphql(
      `{Get{Drawing(nearText:{concepts:["${name}"]} limit:4){name _additional{distance}}}}`,
    );
    assert.equal(found.length, 4);
    assert.equal(found[0].name, name);
    const [text, own] = [await embedding(name), await embedding({ image: image.toString("base64") })];
    near(found[0]._additional.distance, 1 - cosine(text, own), 1e-3, name);
  }
});

test("nearImage finds the same drawing on another ground", async () => {
  for (const [name, image] of Object.entries(drawings)) {
    const other = Buffer.from(image.toString().replace('fill="white"', 'fill="lightyellow"'));
    const { Drawing: found } = await graphql(
      `{Get{Drawing(nearImage:{image:"${other.toString("base64")}"} limit:2){name _additional{distance}}}}`,
    );
    assert.equal(found[0].name, name);
    const [seen, own] = [await embedding({ image: other.toString("base64") }), await embedding({ image: image.toString("base64") })];
    near(found[0]._additional.distance, 1 - cosine(seen, own), 1e-3, name);
    assert.ok(found[1]._additional.distance > found[0]._additional.distance);
  }
});

test("an object of a text and an image has their weighted mean, and an empty text is one", async () => {
  const weights = { textFields: [0.25], imageFields: [0.75] };
  await makeClass("Captioned", { imageFields: ["image"], textFields: ["caption"], weights }, [
    { name: "caption", dataType: ["text"] },
    { name: "image", dataType: ["blob"] },
  ]);
  const image = drawings["a star"].toString("base64");
  for (const caption of ["a star in the night", ""]) {
    const added = await add("Captioned", { caption, image });
    assert.equal(added.status, 200, added.text);
    const text = await embedding(caption || " ");
    const seen = await embedding({ image });
    const mean = text.map((value, i) => 0.25 * value + 0.75 * seen[i]);
    const length = (vector) => Math.sqrt(cosine(vector, vector));
    near(cosine(added.json.vector, mean) / length(added.json.vector) / length(mean), 1, 1e-5, `"${caption}"`);
  }
});

test("what we refuse is what Weaviate says", async () => {
  const broken = await add("Drawing", { name: "none", image: Buffer.from("no image").toString("base64") });
  assert.notEqual(broken.status, 200);
  assert.match(broken.text, /fail with status 4\d\d: .*images/);
  await makeClass("WithoutKey", { textFields: ["name"], inferenceUrl: saccade }, [{ name: "name", dataType: ["text"] }]);
  const refused = await add("WithoutKey", { name: "a bell" });
  assert.notEqual(refused.status, 200);
  assert.match(refused.text, /fail with status 401: a key is needed/);
});

// Weaviate with `saccade serve` as its vectorizer: a server that runs its module multi2vec-clip, which asks ours for the
// vectors of objects and of queries.
//
//   SACCADE_PROGRAM=build/release/bin/saccade WEAVIATE_PROGRAM=.../weaviate-server node --test tests/cluster/weaviate_test.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

const key = "cluster-test-key-0123456789";
const folder = mkdtempSync(join(tmpdir(), "saccade-cluster-"));
const processes = [];
let saccade = "";
let weaviate = "";

// What the starter checkpoint knows: icons of one shape.
const svg = (shape) => Buffer.from(
  `<svg xmlns="http://www.w3.org/2000/svg" width="96" height="96" viewBox="0 0 24 24"><rect width="24" height="24" fill="white"/>${shape}</svg>`,
);
const drawings = {
  "a heart": svg('<path fill="red" d="M12 21C5 15 2 11 2 7.5A5 5 0 0 1 12 6a5 5 0 0 1 10 1.5C22 11 19 15 12 21z"/>'),
  "a star": svg('<path fill="gold" d="M12 2l3 7h7l-5.5 4.5 2 7.5-6.5-4.5L5.5 21l2-7.5L2 9h7z"/>'),
  "a house": svg('<path fill="brown" d="M2 12L12 3l10 9h-3v9h-5v-6h-4v6H5v-9z"/>'),
  "an envelope": svg('<path fill="none" stroke="black" stroke-width="1.5" d="M2 5h20v14H2zM2 5l10 8 10-8"/>'),
};

// Starts a program; `ready` waits until it answers, and fails when it ends before that.
async function start(program, options, environment, ready) {
  const child = spawn(program, options, { env: { ...process.env, ...environment }, cwd: folder });
  child.said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (child.said += data));
  processes.push(child);
  for (const end = Date.now() + 120_000; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
    const found = await ready(child);
    if (found) return found;
    const ended = child.exitCode !== null || child.signalCode !== null;
    assert.ok(!ended && Date.now() < end, `${program}: ${ended ? "ended" : "not ready after 120 s"}\n${child.said.slice(-4000)}`);
  }
}

// By its pid; killed if it does not end within 20 s.
function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return undefined;
  return new Promise((resolve) => {
    const late = setTimeout(() => child.kill("SIGKILL"), 20_000);
    child.on("exit", () => {
      clearTimeout(late);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

const freePorts = (count) => Promise.all(
  Array.from({ length: count }, () => new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => resolve(server));
  })),
).then((servers) => Promise.all(servers.map((server) => {
  const { port } = server.address();
  return new Promise((resolve) => server.close(() => resolve(port)));
})));

async function ask(address, body, headers = {}, method = body === undefined ? "GET" : "POST") {
  const response = await fetch(address, {
    method,
    headers: { "content-type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, json: text === "" ? undefined : JSON.parse(text), text };
}

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
  for (const made of ["home", "data"]) mkdirSync(join(folder, made));
  saccade = await start(
    process.env.SACCADE_PROGRAM,
    ["serve", "-q", "-m", "starter", "--listen", "127.0.0.1:0", "--key-file", keys],
    { HOME: join(folder, "home") },
    (child) => child.said.match(/http:\/\/127\.0\.0\.1:\d+/)?.[0],
  );
  const [http, grpc, profiling, gossip, data, raft, raftRpc] = await freePorts(7);
  weaviate = await start(
    process.env.WEAVIATE_PROGRAM,
    ["--host", "127.0.0.1", "--port", `${http}`, "--scheme", "http"],
    {
      CLIP_INFERENCE_API: saccade.replace("http://", `http://saccade:${key}@`),
      ENABLE_MODULES: "multi2vec-clip",
      DEFAULT_VECTORIZER_MODULE: "multi2vec-clip",
      AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED: "true",
      DISABLE_TELEMETRY: "true",
      PERSISTENCE_DATA_PATH: join(folder, "data"),
      CLUSTER_HOSTNAME: "node1",
      CLUSTER_IN_LOCALHOST: "true",
      CLUSTER_BIND_ADDR: "127.0.0.1",
      CLUSTER_ADVERTISE_ADDR: "127.0.0.1",
      CLUSTER_GOSSIP_BIND_PORT: `${gossip}`,
      CLUSTER_DATA_BIND_PORT: `${data}`,
      RAFT_PORT: `${raft}`,
      RAFT_INTERNAL_RPC_PORT: `${raftRpc}`,
      RAFT_BOOTSTRAP_EXPECT: "1",
      GRPC_PORT: `${grpc}`,
      GO_PROFILING_PORT: `${profiling}`,
    },
    async () => {
      const address = `http://127.0.0.1:${http}`;
      const answer = await fetch(`${address}/v1/.well-known/ready`).catch(() => undefined);
      return answer?.ok ? address : undefined;
    },
  );
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
  await Promise.all(processes.map(stop));
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

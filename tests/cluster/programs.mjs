// Programs on loopback for the tests of this folder, and requests to them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

const processes = [];

// What the starter checkpoint knows: icons of one shape.
const svg = (shape) => Buffer.from(
  `<svg xmlns="http://www.w3.org/2000/svg" width="96" height="96" viewBox="0 0 24 24"><rect width="24" height="24" fill="white"/>${shape}</svg>`,
);
export const drawings = {
  "a heart": svg('<path fill="red" d="M12 21C5 15 2 11 2 7.5A5 5 0 0 1 12 6a5 5 0 0 1 10 1.5C22 11 19 15 12 21z"/>'),
  "a star": svg('<path fill="gold" d="M12 2l3 7h7l-5.5 4.5 2 7.5-6.5-4.5L5.5 21l2-7.5L2 9h7z"/>'),
  "a house": svg('<path fill="brown" d="M2 12L12 3l10 9h-3v9h-5v-6h-4v6H5v-9z"/>'),
  "an envelope": svg('<path fill="none" stroke="black" stroke-width="1.5" d="M2 5h20v14H2zM2 5l10 8 10-8"/>'),
};

// Writes drawings into a folder, each under its name, and returns their paths.
export function draw(to, names = Object.keys(drawings)) {
  mkdirSync(to, { recursive: true });
  return names.map((name) => {
    const path = join(to, `${name}.svg`);
    writeFileSync(path, drawings[name]);
    return path;
  });
}

// Waits until `met` returns something true, and returns that.
export async function until(what, met, seconds = 60) {
  for (const end = Date.now() + seconds * 1000; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
    const found = await met();
    if (found) return found;
    assert.ok(Date.now() < end, `not so after ${seconds} s: ${what()}`);
  }
}

// Starts a program in `folder`; `ready` waits until it answers, and fails when it ends before that.
export async function start(folder, program, options, environment, ready) {
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

// Ends a program by its pid; it is killed if it does not end within 20 s.
export function stop(child) {
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

export const freePorts = (count) => Promise.all(
  Array.from({ length: count }, () => new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => resolve(server));
  })),
).then((servers) => Promise.all(servers.map((server) => {
  const { port } = server.address();
  return new Promise((resolve) => server.close(() => resolve(port)));
})));

export async function ask(address, body, headers = {}, method = body === undefined ? "GET" : "POST") {
  const response = await fetch(address, {
    method,
    headers: { "content-type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, json: text === "" ? undefined : JSON.parse(text), text };
}

export const stopAll = () => Promise.all(processes.map(stop));

// Runs the program to its end: its exit code and what it wrote.
export function run(folder, program, options, environment = {}) {
  const child = spawn(program, options, { env: { ...process.env, ...environment }, cwd: folder });
  processes.push(child);
  const done = { out: "", err: "", child };
  child.stdout.on("data", (data) => (done.out += data));
  child.stderr.on("data", (data) => (done.err += data));
  return new Promise((resolve) => child.on("close", (code, signal) => resolve({ ...done, code, signal })));
}

const isFree = (port) => new Promise((resolve) => {
  const server = createServer();
  server.on("error", () => resolve(false));
  server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
});

// A free port before another one.
async function freePair() {
  for (;;) {
    const [port] = await freePorts(1);
    if (port < 65535 && (await isFree(port + 1))) return port;
  }
}

// The ports of a Weaviate node. Other nodes take the ports of its data and of its calls to follow those of gossip and Raft.
export async function nodePorts() {
  const [http, tls, grpc, profiling] = await freePorts(4);
  const [gossip, raft] = [await freePair(), await freePair()];
  return { http, tls, grpc, profiling, gossip, data: gossip + 1, raft, raftRpc: raft + 1 };
}

// Starts a Weaviate node, number `at` of those with these ports, and returns its process when it is ready.
export async function startNode(folder, nodes, at, environment = {}, options = []) {
  const { http, grpc, profiling, gossip, data, raft, raftRpc } = nodes[at];
  const name = `node${at + 1}`;
  mkdirSync(join(folder, `data-${name}`), { recursive: true });
  const others = at === 0 ? {} : { CLUSTER_JOIN: `127.0.0.1:${nodes[0].gossip}` };
  const cluster = nodes.length === 1 ? {} : { RAFT_JOIN: nodes.map((node, i) => `node${i + 1}:${node.raft}`).join(",") };
  return start(
    folder,
    process.env.WEAVIATE_PROGRAM,
    ["--host", "127.0.0.1", "--port", `${http}`, "--scheme", "http", ...options],
    {
      AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED: "true",
      DISABLE_TELEMETRY: "true",
      PERSISTENCE_DATA_PATH: join(folder, `data-${name}`),
      CLUSTER_HOSTNAME: name,
      CLUSTER_IN_LOCALHOST: "true",
      CLUSTER_BIND_ADDR: "127.0.0.1",
      CLUSTER_ADVERTISE_ADDR: "127.0.0.1",
      CLUSTER_GOSSIP_BIND_PORT: `${gossip}`,
      CLUSTER_DATA_BIND_PORT: `${data}`,
      RAFT_PORT: `${raft}`,
      RAFT_INTERNAL_RPC_PORT: `${raftRpc}`,
      RAFT_BOOTSTRAP_EXPECT: `${nodes.length}`,
      GRPC_PORT: `${grpc}`,
      GO_PROFILING_PORT: `${profiling}`,
      ...others,
      ...cluster,
      ...environment,
    },
    async (child) => {
      const answer = await fetch(`http://127.0.0.1:${http}/v1/.well-known/ready`).catch(() => undefined);
      return answer?.ok ? child : undefined;
    },
  );
}

// Access to a Weaviate node: TLS with a certificate that the system does not trust, and keys. Each test has a node of its own.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ask, draw, drawings, nodePorts, run, startNode, stopAll } from "./programs.mjs";

const folder = mkdtempSync(join(tmpdir(), "saccade-access-"));
const inputs = join(folder, "drawings");
const names = Object.keys(drawings);
// Nothing of this machine's environment is trusted, sent or asked.
const environment = {
  HOME: join(folder, "home"),
  SSL_CERT_FILE: "",
  REQUESTS_CA_BUNDLE: "",
  CURL_CA_BUNDLE: "",
  SACCADE_WEAVIATE_KEY: "",
  SACCADE_WEAVIATE_KEY_FILE: "",
  no_proxy: "localhost,127.0.0.1",
};

const saccade = (variables, options) => run(folder, process.env.SACCADE_PROGRAM, options, { ...environment, ...variables });
async function answers(variables, options) {
  const done = await saccade(variables, [...options, "--json"]);
  assert.equal(done.code, 0, `saccade ${options.join(" ")}\n${done.out}${done.err}`);
  return JSON.parse(done.out);
}
// Expects a failure that one sentence tells, and returns the sentence.
async function refused(variables, options, sentence) {
  const done = await saccade(variables, options);
  assert.equal(done.code, 1, `saccade ${options.join(" ")}\n${done.out}${done.err}`);
  assert.match(done.err, sentence);
  assert.equal(done.err.trim().split("\n").length, 1, done.err);
  assert.equal(done.out, "");
  return done.err;
}
const index = (collection, from = inputs) => ["index", "-q", "-c", collection, "-m", "starter", from];
const search = (collection, text) => ["search", "-q", "-c", collection, "--keyword-weight", "0", text];
const finds = async (variables, collection) => {
  for (const name of names) {
    assert.equal((await answers(variables, search(collection, name))).hits[0].path, join(inputs, `${name}.svg`));
  }
};

async function startAlone(name, variables, optionsOf = () => []) {
  const ports = await nodePorts();
  const own = join(folder, name);
  mkdirSync(own);
  await startNode(own, [ports], 0, variables, optionsOf(ports));
  return ports;
}

before(() => {
  mkdirSync(join(folder, "home"));
  draw(inputs);
});

after(async () => {
  await stopAll();
  rmSync(folder, { recursive: true, force: true });
});

test("a node under TLS is used if its certificate is trusted, and refused if not", async () => {
  const [key, certificate] = [join(folder, "key.pem"), join(folder, "certificate.pem")];
  execFileSync("openssl", [
    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate,
  ], { stdio: "pipe" });
  const { http, tls } = await startAlone("tls", {}, (ports) => [
    "--scheme", "https", "--tls-host", "127.0.0.1", "--tls-port", `${ports.tls}`, "--tls-certificate", certificate, "--tls-key", key,
  ]);
  const into = `weaviates://localhost:${tls}/Drawing`;
  assert.equal((await answers({ SSL_CERT_FILE: certificate }, index(into))).added, names.length);
  for (const variable of ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"]) await finds({ [variable]: certificate }, into);

  const untrusted = /https:\/\/localhost:\d+: Weaviate does not answer: the server's certificate is not trusted: .+ \(SSL_CERT_FILE names/;
  await refused({}, search(into, "a star"), untrusted);
  await refused({}, index(`weaviates://localhost:${tls}/Untrusted`), untrusted);
  assert.equal((await ask(`http://127.0.0.1:${http}/v1/schema/Untrusted`)).status, 404);
  // The certificate is for localhost alone.
  await refused(
    { SSL_CERT_FILE: certificate },
    search(`weaviates://127.0.0.1:${tls}/Drawing`, "a star"),
    /the server's certificate is not trusted: .*127\.0\.0\.1/,
  );
  await refused({ SSL_CERT_FILE: join(folder, "none.pem") }, search(into, "a star"), /no certificates can be read from .*none\.pem/);
  // The other scheme on either port.
  await refused({}, search(`weaviate://localhost:${tls}/Drawing`, "a star"), /status 400: Client sent an HTTP request to an HTTPS server/);
  await refused({ SSL_CERT_FILE: certificate }, search(`weaviates://localhost:${http}/Drawing`, "a star"), /Weaviate does not answer: /);
}, { timeout: 300_000 });

test("a node that asks for keys gets one from the environment or a file, and lacks are named", async () => {
  const keys = { writer: "writer-0123456789abcdef", reader: "reader-0123456789abcdef", wrong: "wrong-0123456789abcdef" };
  const { http } = await startAlone("keys", {
    AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED: "false",
    AUTHENTICATION_APIKEY_ENABLED: "true",
    AUTHENTICATION_APIKEY_ALLOWED_KEYS: `${keys.writer},${keys.reader}`,
    AUTHENTICATION_APIKEY_USERS: "writer,reader",
    AUTHORIZATION_ADMINLIST_ENABLED: "true",
    AUTHORIZATION_ADMINLIST_USERS: "writer",
    AUTHORIZATION_ADMINLIST_READONLY_USERS: "reader",
  });
  const at = (name) => `weaviate://127.0.0.1:${http}/${name}`;
  const into = at("Drawing");
  const file = join(folder, "writer.key");
  writeFileSync(file, `${keys.writer}\n`, { mode: 0o600 });
  const variables = String.raw`\(SACCADE_WEAVIATE_KEY or SACCADE_WEAVIATE_KEY_FILE\)`;
  const isMissing = new RegExp(`http://127.0.0.1:${http}: the key is missing ${variables}: anonymous access not enabled`);
  const isRefused = new RegExp(`http://127.0.0.1:${http}: the key is refused ${variables}: .*invalid api key`);
  const mayNot = new RegExp(`the key is refused ${variables}: .*insufficient permissions`);

  for (const command of [index(into), search(into, "a star")]) {
    await refused({}, command, isMissing);
    const said = await refused({ SACCADE_WEAVIATE_KEY: keys.wrong }, command, isRefused);
    assert.ok(!said.includes(keys.wrong), said);
  }
  assert.equal((await answers({ SACCADE_WEAVIATE_KEY_FILE: file }, index(into))).added, names.length);
  await finds({ SACCADE_WEAVIATE_KEY_FILE: file }, into);
  // The variable goes before the file.
  await finds({ SACCADE_WEAVIATE_KEY: keys.writer, SACCADE_WEAVIATE_KEY_FILE: join(folder, "none.key") }, into);
  await refused({ SACCADE_WEAVIATE_KEY: keys.wrong, SACCADE_WEAVIATE_KEY_FILE: file }, search(into, "a star"), isRefused);
  // A file that is missing is not a class that is missing.
  for (const command of [index(into), search(into, "a star")]) {
    await refused({ SACCADE_WEAVIATE_KEY_FILE: join(folder, "none.key") }, command, /SACCADE_WEAVIATE_KEY_FILE: .*none\.key: No such file/);
  }

  // A key that may only read.
  const reader = { SACCADE_WEAVIATE_KEY: keys.reader };
  await finds(reader, into);
  await refused(reader, index(at("Other")), mayNot);
  const more = join(folder, "more");
  mkdirSync(more);
  writeFileSync(join(more, "night.svg"), drawings["a star"].toString().replace('fill="white"', 'fill="navy"'));
  await refused(reader, index(into, more), mayNot);
  const authorization = { authorization: `Bearer ${keys.writer}` };
  assert.equal((await ask(`http://127.0.0.1:${http}/v1/schema/Other`, undefined, authorization)).status, 404);
  assert.equal((await answers({ SACCADE_WEAVIATE_KEY: keys.writer }, ["collection", "info", "-c", into])).items, names.length);
}, { timeout: 300_000 });

// The page in a browser, over a server and a collection of its own: every feature, what axe-core finds, a silent console,
// and nothing fetched from elsewhere.
//
//   SACCADE_PROGRAM=build/release/bin/saccade node --test tests/
//
// Says "skipped", and why, where the program, npm's packages or Chromium are not there.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { makeCollections, makeSecondModel, takenCard } from "./collection.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = join(here, "node_modules");
const program = process.env.SACCADE_PROGRAM ?? "";
const browserPath = [process.env.CHROMIUM ?? "", "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
const missing = !existsSync(program)
  ? `SACCADE_PROGRAM names no program ("${program}")`
  : !existsSync(join(modules, "playwright-core"))
    ? "npm's packages are not fetched (./dev page does it)"
    : !browserPath
      ? "no Chromium"
      : false;
if (missing) console.log(`skipped: ${missing}`);

const require = createRequire(join(here, "package.json"));
const folder = mkdtempSync(join(tmpdir(), "saccade-page-"));
const environment = { ...process.env, OMP_WAIT_POLICY: "passive", XDG_CACHE_HOME: join(folder, "cache") };
const servers = [];
let browser;
let address = "";
let context;
let page;
const said = []; // in the console, and what was asked for elsewhere
const announced = []; // parts of what the console will say, each once

function serve(...options) {
  const server = spawn(program, ["serve", "-q", "--listen", "127.0.0.1:0", ...options], { env: environment });
  servers.push(server);
  return new Promise((resolve, reject) => {
    let out = "";
    let err = "";
    server.stdout.on("data", (data) => {
      out += data;
      const found = out.match(/http:\/\/127\.0\.0\.1:\d+/);
      if (found) resolve(found[0]);
    });
    server.stderr.on("data", (data) => (err += data));
    server.on("exit", (code) => reject(new Error(`saccade serve ended with ${code}: ${err}`)));
  });
}

async function open(path, { width = 1280, height = 860, ...more } = {}) {
  await context?.close();
  context = await browser.newContext({ viewport: { width, height }, reducedMotion: "reduce", ...more });
  page = await context.newPage();
  page.setDefaultTimeout(120_000);
  page.on("console", (message) => {
    const known = announced.findIndex((part) => message.text().includes(part));
    if (known >= 0) announced.splice(known, 1);
    else said.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => said.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(address) && !url.startsWith("data:") && !url.startsWith("blob:")) said.push(`asked for ${url}`);
  });
  await page.goto(address + path);
  await settled();
}

// What stands in the field is answered, and the first pictures are there: the page is at work from the letter on.
async function settled() {
  await page.waitForSelector('#results[aria-busy="false"] .tile-link, #results[aria-busy="false"] .notice, main.notice, main.docs');
}
const ids = () => page.$$eval("#results .tile-link", (links) => links.map((link) => Number(link.dataset.id)));
const parameter = (name) => page.evaluate((wanted) => new URL(location.href).searchParams.get(wanted), name);
const status = () => page.textContent(".status");
async function api(path, body) {
  const response = await fetch(address + path, body ? { method: "POST", body: JSON.stringify(body) } : {});
  return response.json();
}
async function search(text) {
  await page.fill('input[name="q"]', text);
  await page.waitForFunction((wanted) => new URL(location.href).searchParams.get("q") === wanted, text);
  await settled();
}
async function axe(what) {
  await page.evaluate(readFileSync(join(modules, "axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(() =>
    window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }),
  );
  const told = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`);
  assert.deepEqual(told, [], what);
}
const image = () => ({ name: "mine.svg", mimeType: "image/svg+xml", buffer: readFileSync(join(modules, "bootstrap-icons/icons/alarm.svg")) });

describe("the page", { skip: missing }, () => {
  before(async () => {
    const { chromium } = require("playwright-core");
    browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--disable-gpu"] });
    await makeCollections({ folder, program, icons: join(modules, "bootstrap-icons/icons"), browser, environment });
    makeSecondModel(join(folder, "second"), join(here, "../../../../tests/golden/blip2-itm"));
    address = await serve("-c", join(folder, "icons"), "-c", join(folder, "cards"), "-m", join(folder, "second"));
  });
  after(async () => {
    await browser?.close();
    for (const server of servers) server.kill();
    rmSync(folder, { recursive: true });
  });

  test("begins with the newest pictures, in their own proportions", async () => {
    await open("/");
    assert.match(await status(), /328 pictures/);
    const tiles = await page.$$eval("#results .tile", (all) =>
      all.slice(0, 8).map((tile) => ({ width: tile.clientWidth, height: tile.clientHeight, id: Number(tile.querySelector("a").dataset.id) })),
    );
    const list = await api("/api/collections/icons/images?k=8");
    assert.deepEqual(tiles.map((tile) => tile.id), list.images.map((picture) => picture.id));
    for (const [i, { width, height }] of tiles.entries()) {
      const { width: w, height: h } = list.images[i];
      assert.ok(Math.abs(width / height - w / h) < 0.03 * (w / h), `${width} x ${height} for ${w} x ${h}`);
    }
  });

  test("a wide picture on paper keeps its height", async () => {
    await open("/");
    await page.waitForSelector(".small.paper");
    // Of one that is three times as wide as high: the margin is a share of the shorter side.
    const margin = await page.$eval(".small.paper", (image) => {
      const tile = image.closest(".tile");
      tile.style.width = `${3 * tile.clientHeight}px`;
      const style = getComputedStyle(image);
      return (parseFloat(style.paddingTop) + parseFloat(style.paddingBottom)) / image.clientHeight;
    });
    assert.ok(margin > 0.1 && margin < 0.3, `${margin} of its height`);
  });

  test("answers while one types, and asks for no more than it has to", async () => {
    await open("/");
    const asked = [];
    page.on("request", (request) => {
      const body = request.method() === "POST" ? request.postDataJSON() : null;
      if (body && body.offset === 0) asked.push(body.text); // what follows as one scrolls begins further down
    });
    // Letter by letter, but in one turn of the page: no clock decides how much is asked.
    await page.evaluate((text) => {
      const field = document.querySelector('input[name="q"]');
      for (let i = 1; i <= text.length; ++i) {
        field.value = text.slice(0, i);
        field.dispatchEvent(new InputEvent("input", { bubbles: true }));
      }
    }, "shopping cart");
    await settled();
    assert.match(await status(), /searched/);
    assert.deepEqual(asked, ["shopping cart"]);
    const answer = await api("/api/collections/icons/search", { text: "shopping cart", k: 60 });
    assert.deepEqual((await ids()).slice(0, 20), answer.hits.map((hit) => hit.id).slice(0, 20));
    await axe("hits");
    await page.goBack();
    await page.waitForSelector(".welcome");
    assert.equal(await page.inputValue('input[name="q"]'), "");
    await page.goForward();
    await settled();
    assert.equal(await page.inputValue('input[name="q"]'), "shopping cart");
  });

  test("goes on as one scrolls, and nothing moves", async () => {
    await open("/?q=arrow");
    const places = () => page.$$eval("#results .tile", (all) => all.slice(0, 30).map((tile) => [tile.offsetLeft, tile.offsetTop, tile.offsetWidth]));
    const first = await ids();
    const before_ = await places();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await page.waitForFunction((n) => document.querySelectorAll("#results .tile").length > n, first.length);
    const all = await ids();
    assert.deepEqual(all.slice(0, first.length), first);
    assert.equal(new Set(all).size, all.length);
    assert.deepEqual(await places(), before_);
  });

  test("more like this; this picture, but", async () => {
    await open("/?q=bell");
    const [first] = await ids();
    await page.hover(".tile");
    await page.click(".tile:first-child .tile-actions button:nth-child(1)");
    await page.waitForFunction(() => location.search.includes("like="));
    await settled();
    assert.equal(await parameter("like"), String(first));
    assert.equal(await parameter("q"), null);
    assert.ok(!(await ids()).includes(first));
    await page.hover(".tile");
    const [second] = await ids();
    await page.click(".tile:first-child .tile-actions button:nth-child(2)");
    await page.waitForFunction((id) => location.search.includes(`like=${id}`), second);
    assert.equal(await page.evaluate(() => document.activeElement.name), "q");
    await search("fill");
    const composed = { like: second, text: "fill", compose: "slerp", k: 60 };
    const expected = (weight) => api("/api/collections/icons/search", { ...composed, text_weight: weight }).then((json) => json.hits.map((hit) => hit.id));
    assert.deepEqual((await ids()).slice(0, 20), (await expected(0.5)).slice(0, 20));
    await page.fill('.balance input[type="range"]', "0.9");
    await settled();
    assert.deepEqual((await ids()).slice(0, 20), (await expected(0.9)).slice(0, 20));
    await axe("a picture and words");
    await page.click(".reference button");
    await page.waitForFunction(() => !location.search.includes("like="));
  });

  test("a picture that is picked, pasted or dropped", async () => {
    await open("/");
    const data = `data:image/svg+xml;base64,${image().buffer.toString("base64")}`;
    const expected = (await api("/api/collections/icons/search", { image: data, k: 60 })).hits.map((hit) => hit.id).slice(0, 20);
    await page.setInputFiles('input[type="file"]', image());
    await page.waitForSelector(".reference");
    await settled();
    assert.deepEqual((await ids()).slice(0, 20), expected);
    await page.reload();
    await settled();
    assert.deepEqual((await ids()).slice(0, 20), expected, "after a reload");
    for (const kind of ["paste", "drop"]) {
      await open("/");
      await page.evaluate(
        ([type, base64]) => {
          const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
          const transfer = new DataTransfer();
          transfer.items.add(new File([bytes], "mine.svg", { type: "image/svg+xml" }));
          const event =
            type === "paste"
              ? new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true })
              : new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
          document.body.dispatchEvent(event);
        },
        [kind, image().buffer.toString("base64")],
      );
      await page.waitForSelector(".reference");
      await settled();
      assert.deepEqual((await ids()).slice(0, 20), expected, kind);
    }
    await open("/?image=gone");
    assert.match(await page.textContent("#results"), /bring it again/);
  });

  test("filters are chips, with counts, or the filter language", async () => {
    await open("/?q=red");
    await page.click('.chip:text("Format")');
    await axe("a panel of values");
    await page.click('.panel label:has-text("JPEG")');
    await page.waitForFunction(() => location.search.includes("f="));
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Format");
    await page.waitForFunction(() => document.querySelectorAll("#results .tile").length < 8);
    const facets = await api("/api/collections/icons/facets");
    const jpeg = facets.facets.find((one) => one.name === "format").values.find((one) => one.name === "jpeg");
    assert.match(await status(), new RegExp(`^${jpeg.items} pictures searched`));
    await page.click('.chip:text("Folder")');
    await page.click('.panel label:has-text("icons")');
    await page.waitForSelector("#results .notice");
    assert.match(await page.textContent("#results"), /No picture passes/);
    await axe("nothing is left");
    await page.click('#results button:text("Show all")');
    await page.waitForFunction(() => document.querySelectorAll("#results .tile").length > 20);
    await page.click('.chip:text("Filter")');
    await page.fill(".language input", "width>");
    announced.push("400 (Bad Request)");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".language .wrong");
    assert.match(await page.textContent("#results"), /The filter cannot be read/);
    await page.fill(".language input", "height>500");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => new URL(location.href).searchParams.get("filter") === "height>500");
    await settled();
    assert.match(await status(), /^3 pictures searched/);
  });

  test("near-duplicates are folded, and unfold", async () => {
    await open("/?c=cards&q=red+card");
    const folded = await ids();
    assert.equal(folded.length, 6);
    const badges = await page.$$eval(".copies", (all) => all.map((one) => one.textContent));
    assert.deepEqual(badges, ["1", "1"]);
    await page.click(".copies");
    await page.waitForFunction(() => document.querySelectorAll(".tile.copy").length === 1);
    await page.click('.chip:text("Near-duplicates")');
    await page.waitForFunction(() => document.querySelectorAll("#results .tile").length === 8);
    assert.equal(await parameter("fold"), "no");
  });

  test("newest first, among what matches", async () => {
    await open("/?q=arrow");
    await page.click('.chip:text("Newest first")');
    await page.waitForFunction(() => document.querySelector(".status").textContent.includes("newest first"));
    const answer = await api("/api/collections/icons/search", { text: "arrow", k: 240, order: "date" });
    assert.deepEqual(await ids(), answer.hits.map((hit) => hit.id));
  });

  test("a picture, large, says which date it goes by", async () => {
    const { images: pictures } = await api("/api/collections/cards/images?k=60");
    for (const { id, path } of pictures) {
      const facts = await api(`/api/collections/cards/images/${id}`);
      const taken = path.includes(`card-${takenCard}.`);
      assert.equal(facts.dated_by, taken ? "taken" : "file");
      await open(`/?c=cards&open=${id}`);
      await page.waitForSelector(".viewer[open] .facts");
      const shown = await page.textContent(".facts");
      assert.ok(shown.includes(taken ? "July 14, 2019 · when it was taken" : " · of the file"), shown);
    }
  });

  test("one picture, large: facts, keys, and why it is a hit", async () => {
    await open("/?q=red+bell");
    const [first, second] = await ids();
    await page.click(".tile-link");
    await page.waitForSelector(".viewer[open] .facts");
    await axe("a picture, large");
    const facts = await api(`/api/collections/icons/images/${first}`);
    const text = await page.textContent(".about");
    for (const wanted of [facts.path.split("/").at(-1), facts.caption, `${facts.width} × ${facts.height}`, facts.format.toUpperCase()]) {
      assert.ok(text.includes(wanted), wanted);
    }
    assert.equal(await page.getAttribute(".actions a[download]", "href"), facts.file);
    await page.waitForFunction(() => document.querySelector(".large").naturalWidth > 0);
    await page.click(".disclose");
    await page.waitForSelector(".words");
    assert.deepEqual(await page.$$eval(".word", (all) => all.map((one) => one.firstChild.textContent)), ["red", "bell"]);
    assert.ok(await page.isVisible("canvas.heat"));
    await axe("why");
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction((id) => location.search.includes(`open=${id}`), second);
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction((id) => location.search.includes(`open=${id}`), first);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".viewer", { state: "detached" });
    await page.waitForFunction(() => !location.search.includes("open="));
    await page.waitForFunction((id) => Number(document.activeElement.dataset.id) === Number(id), first); // a frame later
    await page.click(".tile-link");
    await page.fill(".but input", "slash");
    await page.keyboard.press("Enter");
    await page.waitForFunction((id) => location.search === `?q=slash&like=${id}`, first);
  });

  test("says what of a long text was read, and reads the rest", async () => {
    await open("/");
    await search("bell ".repeat(60).trim());
    await page.waitForSelector('.banner:has-text("the model read the first")');
    await page.click('.banner button:text("Read all of it")');
    await page.waitForSelector('.banner:has-text("in 2 parts"), .banner:has-text("in 3 parts"), .banner:has-text("in 4 parts")');
    assert.equal(await parameter("long"), "whole");
  });

  test("says so where probably nothing matches", async () => {
    const { matching } = await api("/api/collections/icons/search", { text: "the of and", k: 1 });
    assert.equal(matching.tells, true, matching.reason);
    await open("/?q=the+of+and");
    assert.equal(await page.isVisible(".banner.nothing"), matching.there < 0.2);
    await open("/?q=battery+full&likely=yes");
    const answer = await api("/api/collections/icons/search", { text: "battery full", k: 60, min_probability: 0.2 });
    assert.deepEqual(await ids(), answer.hits.map((hit) => hit.id));
    // Each picture says how likely it is right, in words, and with the probability behind them.
    await open("/?q=bell");
    const bells = await api("/api/collections/icons/search", { text: "bell", k: 60 });
    const said = await page.$$eval("#results .tile-link", (links) => links.map((link) => link.title));
    assert.ok(said.length > 0);
    // The page may have asked for the next hits already.
    assert.deepEqual(said.slice(0, bells.hits.length), bells.hits.slice(0, said.length).map(({ match, match_probability }) =>
      `${match[0].toUpperCase()}${match.slice(1)} (match probability ${match_probability.right.toFixed(2)})`));
  });

  test("shows how a text of several parts was understood", async () => {
    await open("/");
    await search("bell:2 -red");
    assert.deepEqual(await page.$$eval(".parts li", (all) => all.map((one) => one.textContent)), ["bell × 2", "not red"]);
    await axe("parts of a text");
    await search("bell");
    await page.waitForFunction(() => !document.querySelector(".parts"));
  });

  test("finds by what pictures show, by what they are called, or by both", async () => {
    await open("/?q=file");
    const expected = async (words) => (await api("/api/collections/icons/search", { text: "file", keyword_weight: words, k: 60 })).hits.map((hit) => hit.id).slice(0, 20);
    const shown = async () => (await ids()).slice(0, 20);
    assert.deepEqual(await shown(), await expected(0.5));
    for (const [place, words] of [[1, 0], [3, 0.9]]) {
      await page.click('.chip:text-is("Words")');
      if (words === 0) await axe("the words' weight");
      await page.click(`.shares label:nth-of-type(${place}) input`);
      await page.waitForFunction((value) => new URL(location.href).searchParams.get("names") === value, String(words));
      await page.keyboard.press("Escape");
      await settled();
      assert.deepEqual(await shown(), await expected(words), `words: ${words}`);
    }
    assert.notDeepEqual(await expected(0), await expected(0.9));
  });

  test("a second model looks at the best hits again", async () => {
    await open("/?q=arrow&likely=yes");
    await page.focus('.chip:text-is("Second look")');
    await page.keyboard.press("Enter");
    await axe("a second look");
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => new URL(location.href).searchParams.get("second") === "second");
    assert.equal(await parameter("likely"), null, "its scores have no probabilities");
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Second look");
    await settled();
    const again = await api("/api/collections/icons/search", { text: "arrow", k: 60, rerank: "second", rerank_depth: 32 });
    const plain = await api("/api/collections/icons/search", { text: "arrow", k: 60 });
    const idsOf = (answer) => answer.hits.map((hit) => hit.id);
    assert.notDeepEqual(idsOf(again).slice(0, 32), idsOf(plain).slice(0, 32));
    assert.deepEqual((await ids()).slice(0, 60), idsOf(again));
    assert.match(await status(), /^328 pictures searched, the best 32 looked at again by second, in /);
    assert.equal(await page.textContent(".below"), "Not looked at again");
    assert.equal((await page.$$("ul.rows:first-child .tile")).length, 32);
    await axe("after a second look");
    // What follows as one scrolls comes behind them, and nothing comes twice.
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await page.waitForFunction(() => document.querySelectorAll("#results .tile").length > 60);
    const all = await ids();
    assert.deepEqual(all.slice(0, 60), idsOf(again));
    assert.equal(new Set(all).size, all.length);
    await page.click('.chip:text("Newest first")');
    await page.waitForFunction(() => !new URL(location.href).searchParams.has("second"));
    // In a bookmark, of a model that is served no longer.
    await open("/?q=arrow&second=gone");
    await page.waitForSelector('.banner:has-text("There is no model “gone” here")');
    assert.deepEqual((await ids()).slice(0, 60), idsOf(plain));
    await page.click('.banner button:text("Close")');
    await page.waitForFunction(() => !location.search.includes("second"));
  });

  test("several collections", async () => {
    await open("/");
    await page.selectOption("select", "cards");
    await page.waitForFunction(() => location.search === "?c=cards");
    await page.waitForFunction(() => document.querySelector(".status").textContent.startsWith("8 pictures"));
    assert.equal(await page.textContent(".welcome h1"), "cards");
  });

  test("an unknown collection in the address is an error, and not another collection", async () => {
    await open("/?c=nowhere&q=bell");
    assert.match(await page.textContent("main.notice h1"), /No collection “nowhere”/);
    assert.equal((await page.$$("#results")).length, 0);
    await axe("an unknown collection");
    await page.click('.choices button:text-is("cards")');
    await page.waitForSelector("#results .tile-link");
    assert.equal(await parameter("c"), "cards");
    assert.equal(await parameter("q"), "bell");
  });

  test("says what the answer notes, and warns of the collection", async () => {
    await open("/");
    const said = { compose: "the query is a sum", matching: "weak", effective_length: null };
    await page.route("**/search", async (route) => {
      const json = await (await route.fetch()).json();
      await route.fulfill({ json: { ...json, notes: { ...said, tokens: "all 4 tokens read" }, warnings: ["the text was cut"] } });
    });
    await search("bell");
    assert.deepEqual(await page.$$eval(".notes li", (all) => all.map((one) => one.textContent)), ["The query is a sum", "Weak"]);
    await page.waitForSelector('.banner:has-text("The text was cut")');
    // Warnings come with the collection; this one is made.
    await page.route("**/api/collections", async (route) => {
      const json = await (await route.fetch()).json();
      json.collections[0].warnings = ["all pictures are photographs"];
      await route.fulfill({ json });
    });
    await page.reload();
    await page.waitForSelector('.banner.warning:has-text("All pictures are photographs")');
    await axe("a warning");
    await page.click('.banner.warning button:text("Close")');
    assert.equal((await page.$$(".banner.warning")).length, 0);
    await page.reload();
    await settled();
    assert.equal((await page.$$(".banner.warning")).length, 0, "closed in this tab");
  });

  test("a filter that leaves nothing says why", async () => {
    await open("/?filter=camera~Nikon");
    const { nothing } = await api("/api/collections/icons/images?filter=camera~Nikon");
    assert.ok(nothing);
    assert.ok((await page.textContent("#results .notice")).includes(nothing));
    await open("/?q=bell&filter=camera~Nikon");
    assert.ok((await page.textContent("#results .notice")).includes(nothing));
  });

  test("cameras are filters", async () => {
    await open("/?c=cards");
    await page.click('.chip:text-is("Camera")');
    await page.click('.panel label:has-text("Canon EOS R5")');
    await page.waitForFunction(() => document.querySelector(".status").textContent.startsWith("1 picture"));
  });

  test("shows the API, without a network", async () => {
    await open("/docs", {});
    await page.waitForSelector(".route");
    const document_ = await api("/api/openapi.json");
    const operations = Object.values(document_.paths).flatMap((methods) => Object.keys(methods));
    assert.equal((await page.$$(".route")).length, operations.length);
    const first = await page.$('.route:has-text("/api/collections/{name}/search"):has-text("POST")');
    await (await first.$("summary")).click();
    assert.match(await first.textContent(), /Body, application\/json: Search/);
    await axe("the API");
    await open("/docs", { width: 390, height: 844, colorScheme: "dark" });
    await page.waitForSelector(".route");
    assert.ok((await page.evaluate(() => document.body.scrollWidth - innerWidth)) <= 0);
    await axe("the API at 390");
  });

  test("by keyboard alone", async () => {
    await open("/?q=arrow");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.name), "q");
    const all = await ids();
    await page.focus(".tile-link");
    await page.keyboard.press("ArrowRight");
    const focused = () => page.evaluate(() => Number(document.activeElement.dataset.id));
    assert.equal(await focused(), all[1]);
    await page.keyboard.press("ArrowDown");
    assert.ok(all.indexOf(await focused()) > 3);
    await page.keyboard.press("ArrowUp");
    assert.equal(await focused(), all[1]);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".viewer[open]");
    assert.equal(await parameter("open"), String(all[1]));
    await page.keyboard.press("Escape");
    await page.waitForSelector(".viewer", { state: "detached" });
    await page.waitForFunction((id) => Number(document.activeElement.dataset.id) === id, all[1]);
    await page.keyboard.press("/");
    await page.keyboard.type("bell"); // the field's words are chosen: typing replaces them
    await page.waitForFunction(() => new URL(location.href).searchParams.get("q") === "bell");
    await settled();
    const answer = await api("/api/collections/icons/search", { text: "bell", k: 60 });
    assert.deepEqual((await ids()).slice(0, 20), answer.hits.map((hit) => hit.id).slice(0, 20));
  });

  test("at 390, 820 and 1440 pixels, light and dark", async () => {
    for (const [width, colorScheme] of [[390, "dark"], [390, "light"], [820, "dark"], [1440, "dark"]]) {
      for (const path of ["/", "/?q=bell"]) {
        await open(path, { width, height: 844, colorScheme });
        const wider = await page.evaluate(() => document.body.scrollWidth - innerWidth);
        assert.ok(wider <= 0, `${path} at ${width}: ${wider} pixels too wide`);
        await axe(`${path} at ${width}, ${colorScheme}`);
      }
      await page.click(".tile-link");
      await page.waitForSelector(".viewer[open] .facts");
      await axe(`a picture at ${width}, ${colorScheme}`);
    }
  });

  test("has been silent, and asked nobody else", () => assert.deepEqual(said, []));

  test("errors are said, and tried again", async () => {
    await open("/");
    let refusals = 1;
    await page.route("**/search", (route) =>
      refusals-- > 0 ? route.fulfill({ status: 503, headers: { "Retry-After": "1" }, json: { error: { message: "busy" } } }) : route.continue(),
    );
    await search("bell");
    assert.ok((await ids()).length > 10);
    await page.unroute("**/search");
    await page.route("**/search", (route) => route.abort());
    await page.fill('input[name="q"]', "bells");
    await page.waitForSelector('#results .notice:has-text("does not answer")');
    await page.unroute("**/search");
    await page.click('#results button:text("Try again")');
    await page.waitForSelector("#results .tile-link");

    // What a proxy answers in the server's place is no answer.
    await page.route("**/search", (route) => route.fulfill({ status: 200, contentType: "text/html", body: "<p>Log in</p>" }));
    await page.fill('input[name="q"]', "bell bell");
    await page.waitForSelector('#results .notice:has-text("Something else than Saccade answered")');
    await page.unroute("**/search");

    // The models are asked for until they are known, and who answers with an error is not said to be silent.
    let refused = 1;
    let asked = 0;
    await page.route("**/api/collections", (route) =>
      refused-- > 0 ? route.fulfill({ status: 503, json: { error: { message: "starting" } } }) : route.continue(),
    );
    await page.route("**/api/models", (route) => {
      ++asked;
      return route.continue();
    });
    await page.goto(`${address}/`);
    await page.waitForSelector('main.notice:has-text("starting")');
    assert.equal(await page.textContent("main.notice h1"), "That did not work");
    await page.waitForSelector("#results .tile-link", { timeout: 15_000 });
    for (let i = 0; i < 50 && asked === 0; ++i) await page.waitForTimeout(50);
    assert.equal(asked, 1);
    await page.unroute("**/api/collections");
    await page.unroute("**/api/models");

    // Pictures that a link names and that are there no longer.
    await open("/?q=bell&like=999999");
    await page.waitForSelector('#results .notice:has-text("That picture is gone")');
    await axe("a picture that is gone");
    await page.click('#results button:text("Search by the words alone")');
    await page.waitForSelector("#results .tile-link");
    assert.equal(await parameter("like"), null);
    await open("/?q=bell&open=999999");
    await page.waitForSelector('.viewer [role="alert"]:has-text("no such item")');
    assert.equal(await page.$(".viewer .but"), null);
    said.length = 0;
  });

  test("has a folder indexed, adds pictures and removes them", async () => {
    const more = join(folder, "new pictures");
    const uploads = join(folder, "uploads");
    mkdirSync(more);
    mkdirSync(uploads);
    const names = readdirSync(join(modules, "bootstrap-icons/icons")).filter((name) => name.endsWith(".svg")).slice(1, 260);
    for (const name of names) {
      copyFileSync(join(modules, "bootstrap-icons/icons", name), join(more, name));
      utimesSync(join(more, name), 1, Date.UTC(2022, 0, 1) / 1000); // older than what is sent below
    }
    address = await serve("-c", join(folder, "cards"), "--index-folder", more, "--allow-write", uploads);
    await open("/");
    await axe("a collection that can be changed");
    await page.click('.chip:text("Index new pictures")');
    await page.waitForSelector(".news progress");
    await page.waitForSelector('.changes .banner:has-text("pictures added from new pictures")');
    await settled();
    const total = (await api("/api/collections/cards")).items;
    assert.ok(total > 200, `${total} pictures`);
    await page.waitForFunction((n) => document.querySelector(".status").textContent.includes(`${n} pictures`), total);
    await page.click('.changes button:text("Close")');

    await page.setInputFiles('input[aria-label="Pictures to add"]', [
      image(),
      { name: "none.png", mimeType: "image/png", buffer: Buffer.from("no picture") },
    ]);
    await page.waitForSelector('.changes .banner.wrong:has-text("none.png")');
    await page.waitForFunction((n) => document.querySelector(".status").textContent.includes(`${n} pictures`), total + 1);
    const { images: pictures } = await api("/api/collections/cards/images?k=1");
    assert.ok(pictures[0].path.startsWith(uploads));
    await page.goto(`${address}/?open=${pictures[0].id}`);
    await page.click('.actions button:text("Remove")');
    await page.click('.actions button:text("Really remove it?")');
    await page.waitForSelector('.changes .banner:has-text("stays out")');
    assert.equal(existsSync(pictures[0].path), false);
    await page.waitForFunction((n) => document.querySelector(".status").textContent.includes(`${n} pictures`), total);
    said.length = 0;
  });

  test("asks for the server's key", async () => {
    const keys = join(folder, "keys");
    writeFileSync(keys, "0123456789abcdef\n");
    chmodSync(keys, 0o600);
    address = await serve("-c", join(folder, "cards"), "--key-file", keys);
    await open("/");
    await axe("the key");
    await page.fill('input[type="password"]', "0123456789abcdeg");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".wrong");
    await page.fill('input[type="password"]', "0123456789abcdef");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#results .tile-link");
    await page.waitForFunction(() => document.querySelector("#results img").naturalWidth > 0);
    await search("red card");
    assert.equal(await page.$('.chip:text-is("Second look")'), null, "no other model is served");
  });
});

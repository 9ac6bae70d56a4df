import assert from "node:assert/strict";
import test from "node:test";
import { checkInlineable, licenceComment, packagesBehind, plainInterpreter, unixLines } from "../bundle.mjs";

test("the packages behind a script are those it depends on, without command lines", () => {
  const dependencies = { a: ["b", "yargs", "@types/b"], b: ["c", "a"], c: [] };
  assert.deepEqual(packagesBehind(["a"], (name) => dependencies[name]), ["a", "b", "c"]);
});

test("each licence stands once, with its packages, and cannot end the comment", () => {
  const texts = { a: "Free */ alert(1)", b: "Other", c: "Free */ alert(1)" };
  const comment = licenceComment(["a", "b", "c"], (name) => texts[name]);
  assert.equal(comment.match(/alert/g).length, 1);
  assert.match(comment, /a, c:/);
  assert.match(comment, /b:/);
  assert.equal(comment.indexOf("*/"), comment.length - 3);
});

test("the interpreter becomes a plain script, and a module of another shape is refused", () => {
  const script = plainInterpreter(
    "import { isString } from 'vega-util';\nconst run = (x) => isString(x);\n" +
      "export { run as expressionInterpreter };\n",
  );
  globalThis.vega = { isString: (x) => typeof x === "string" };
  new Function(script)();
  assert.equal(globalThis.vegaInterpreter("x"), true);
  assert.throws(() => plainInterpreter("export { run as expressionInterpreter };"), /something else/);
  assert.throws(
    () =>
      plainInterpreter(
        "import { a } from 'vega-util';\nimport b from 'c';\nexport { a as expressionInterpreter };",
      ),
    /something else/,
  );
});

test("a script that a page cannot hold is refused", () => {
  assert.equal(checkInlineable("x", "a < b"), "a < b");
  assert.throws(() => checkInlineable("x", 's = "</SCRIPT>"'), /SCRIPT/);
  assert.throws(() => checkInlineable("x", 's = "<!-- "'), /<!--/);
});

test("lines end as browsers read them", () => {
  assert.equal(unixLines("a\r\nb\rc\n"), "a\nb\nc\n");
});

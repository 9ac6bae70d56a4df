import assert from "node:assert/strict";
import test from "node:test";
import { lines } from "../bundle.mjs";

test("a line a town, by latitude, with its region and country", () => {
  const towns = [
    { name: "Lyon", lat: "45.74846", lng: "4.84671", country: "FR", admin1: "84" },
    { name: "Nowhere\tat all", lat: "-1", lng: "2", country: "XX", admin1: "" },
    { name: "Monaco", lat: "43.7333", lng: "7.4167", country: "MC", admin1: "00" },
    { name: "Lost", lat: "91", lng: "0", country: "XX" },
    { name: " ", lat: "1", lng: "1", country: "XX" },
  ];
  const regions = [{ code: "FR.84", name: "Auvergne-Rhône-Alpes" }, { code: "MC.00", name: "Monaco" }];
  assert.deepEqual(lines(towns, regions), [
    "-1.0000\t2.0000\tNowhere at all, XX",
    "43.7333\t7.4167\tMonaco, MC",
    "45.7485\t4.8467\tLyon, Auvergne-Rhône-Alpes, FR",
  ]);
});

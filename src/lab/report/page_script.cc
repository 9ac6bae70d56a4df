// The page's script and the style of reports, as texts.
#include "lab/report/page_builder.h"

namespace saccade::lab {

std::string_view page_script() {
  return R"js("use strict";
(() => {
  const root = document.documentElement;
  const table = (id) => JSON.parse(document.getElementById(id).textContent);
  const records = (data) =>
    data.rows.map((row) => Object.fromEntries(data.columns.map((column, i) => [column, row[i]])));

  // A text that a spreadsheet would take for a formula gets an apostrophe in front.
  const csvCell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const safe = /^\s*[=+\-@]|^[\t\r\n]/.test(text) ? "'" + text : text;
    return /[",\r\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };
  const csv = (data) =>
    [data.columns, ...data.rows].map((row) => row.map(csvCell).join(",") + "\r\n").join("");

  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button) return;
    const data = table(button.dataset.table);
    if (button.dataset.save === "csv") save(data.name + ".csv", "text/csv;charset=utf-8", "\ufeff" + csv(data));
    else save(data.name + ".json", "application/json", JSON.stringify(records(data), null, 1) + "\n");
  });

  const views = new Map();
  const theme = () => {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue("--" + name).trim();
    const font = getComputedStyle(document.body).fontFamily;
    return {
      colour,
      config: {
        background: "transparent",
        font,
        view: { stroke: null },
        axis: {
          labelColor: colour("soft"), titleColor: colour("soft"), gridColor: colour("line"),
          domainColor: colour("line"), tickColor: colour("line"), labelFontSize: 11, titleFontSize: 11,
          titleFontWeight: "normal", gridOpacity: 0.7, labelLimit: 110, tickCount: 5,
        },
        text: { fill: colour("soft"), fontSize: 11 },
        rule: { color: colour("soft") },
        line: { color: colour("soft") },
      },
    };
  };

  // Draws what has not been drawn since the last change of colours. What is hidden has no width: later.
  let round = 0;
  const draw = async () => {
    if (!globalThis.vega || !globalThis.vegaLite) return;
    const mine = ++round;
    const { colour, config } = theme();
    for (const figure of document.querySelectorAll("figure[data-chart]:not([data-drawn])")) {
      const plot = figure.querySelector(".plot");
      if (plot.clientWidth === 0) continue;
      try {
        const spec = JSON.parse(figure.querySelector("script.spec").textContent, (key, value) => {
          const series = typeof value === "string" && /^series:(\d+)$/.exec(value);
          return series ? colour("s" + (Number(series[1]) % 8)) : value;
        });
        spec.data = { name: "table", values: records(table(figure.dataset.chart)) };
        views.get(figure)?.finalize();
        plot.replaceChildren();
        const runtime = vega.parse(vegaLite.compile(spec, { config }).spec, {}, { ast: true });
        const view = new vega.View(runtime, {
          renderer: "svg", container: plot, hover: true, expr: vegaInterpreter,
        });
        views.set(figure, view);
        await view.runAsync();
        figure.dataset.drawn = "yes";
      } catch (error) {
        figure.dataset.drawn = "failed";
        plot.textContent = "This chart could not be drawn: " + error.message;
        console.error(error);
      }
      if (mine !== round) return;
    }
    root.dataset.charts = "drawn";
  };
  const redraw = () => {
    delete root.dataset.charts;
    for (const figure of document.querySelectorAll("figure[data-drawn]")) delete figure.dataset.drawn;
    draw();
  };

  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", redraw);
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
    root.dataset.theme = isDark ? "light" : "dark";
    redraw();
  });
  document.addEventListener("toggle", draw, true);
  draw();
})();
)js";
}

std::string_view report_style() {
  return R"css(
main, body > header, body > footer { max-width: 1160px; }
body > header { display: flex; flex-wrap: wrap; align-items: start; gap: 8px 16px; }
body > header > div { flex: 1 1 240px; min-width: 0; }
body > header nav { flex-basis: 100%; }
body > header h1 { font-size: 26px; letter-spacing: -.015em; overflow-wrap: anywhere; }
button { font: inherit; font-size: 13px; color: var(--accent); background: var(--card); border: 1px solid
  var(--line); border-radius: 99px; padding: 1px 10px; cursor: pointer; }
button:hover, button:focus-visible { border-color: var(--accent); }
#theme { padding: 3px 12px; color: var(--text); }
section { padding-top: 36px; }
h2 { margin: 0 0 4px; font-size: 21px; font-weight: 650; letter-spacing: -.012em; }
h3 { margin: 28px 0 6px; font-size: 17px; font-weight: 650; overflow-wrap: anywhere; }
h4 { margin: 0; font-size: 14px; font-weight: 650; overflow-wrap: anywhere; }
section p { margin: 4px 0 10px; max-width: 78ch; overflow-wrap: anywhere; }
.words { max-width: 78ch; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 16px;
  margin: 12px 0; align-items: start; }
figure, .table, .run, .example { margin: 0; min-width: 0; background: var(--card); border: 1px solid
  var(--line); border-radius: 12px; padding: 14px 16px; }
.table { margin: 12px 0; }
figure p { margin: 2px 0 8px; font-size: 13px; }
figure .foot { margin: 8px 0 0; }
.plot { width: 100%; min-width: 0; min-height: 40px; overflow: hidden; }
.plot.square { aspect-ratio: 1; }
.plot svg { display: block; max-width: 100%; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; list-style: none; margin: 0 0 8px; padding: 0;
  font-size: 13px; }
.legend li { overflow-wrap: anywhere; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
.table .caption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 4px 16px;
  margin: 0 0 8px;  max-width: none; font-size: 13px; color: var(--soft); }
.save { font-size: 13px; color: var(--soft); white-space: nowrap; }
.save button { padding: 0 8px; font-size: 12px; }
.scroll { overflow-x: auto; max-height: 560px; overflow-y: auto; }
.scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: var(--card); text-align: left; font-weight: 600; color: var(--soft);
  vertical-align: bottom; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { white-space: nowrap; }
td.wrap, th.wrap { white-space: normal; }
tr:last-child td { border-bottom: 0; }
.scroll th:first-child, .scroll td:first-child { position: sticky; left: 0; background: var(--card);
  min-width: 6.5em; max-width: 42vw; white-space: normal; overflow-wrap: anywhere; }
.scroll th:first-child { z-index: 1; }
.n { text-align: right; }
small { color: var(--soft); font-size: 12px; }
code { font-size: 12.5px; overflow-wrap: anywhere; }
.tag { display: inline-block; padding: 0 8px; border-radius: 99px; border: 1px solid var(--line); color:
  var(--soft); font-size: 12.5px; }
.tag.apart { color: var(--accent); border-color: currentColor; }
.run { margin: 12px 0; }
.run dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 10px 0 0; font-size:
  13.5px; }
.run dt { color: var(--soft); } .run dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
.examples { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 16px;
  margin: 12px 0; }
.example > p { margin: 0 0 8px; font-size: 14.5px; }
.example .head { display: flex; gap: 12px; align-items: start; margin-bottom: 8px; }
.example .head .thumb { width: 92px; flex: none; }
.side-by-side { display: grid; gap: 12px 20px; margin: 12px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 240px), 1fr)); }
.side-by-side .thumb { max-width: 168px; }
.strip { display: grid; grid-template-columns: repeat(auto-fill, minmax(84px, 1fr)); gap: 8px; list-style:
  none; margin: 0; padding: 0; font-size: 12px; color: var(--soft); }
.strip.five { grid-template-columns: repeat(5, minmax(0, 1fr)); max-width: 560px; }
.strip .thumb { margin-bottom: 5px; border-radius: 8px; border: 1px solid var(--line); }
.strip .right .thumb { outline: 2px solid var(--accent); outline-offset: 1px; }
.thumb span { font-size: 11px; padding: 4px; max-height: 100%; overflow: hidden; }
.answers { margin: 0; padding-left: 22px; font-size: 13.5px; }
.answers li { overflow-wrap: anywhere; } .answers .right { color: var(--accent); font-weight: 600; }
.note { padding: 8px 12px; border-radius: 8px; color: var(--warn); background: var(--warn-page); max-width:
  78ch; }
.figures { margin-top: 8px; font-size: 13px; }
details > summary { cursor: pointer; color: var(--accent); }
section > details { margin-top: 14px; }
details h4 { margin-top: 12px; }
section > details > summary { font-weight: 600; }
@media (max-width: 520px) { main, body > header, body > footer { padding-left: 14px; padding-right: 14px; }
  .run dl { grid-template-columns: 1fr; } .run dt { margin-top: 6px; } figure, .table, .run, .example {
  padding: 12px; } }
@media print { nav, .save, #theme { display: none; } figure, .example { break-inside: avoid; } }
)css";
}

}  // namespace saccade::lab

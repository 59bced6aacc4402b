// The model's numbers: tiles, classes, frequently confused classes.

import { chip } from "./classes.js";
import { $, count, element } from "./dom.js";

const three = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
const distance = (value) => (value === null || value === undefined ? "–" : String(Number(value.toFixed(2))));
const width = (value) => `${100 * value}%`;
const percent = (value) => `${(100 * value).toFixed(1)} %`;

function tile(name, figure, words, middle = null) {
  return element("div", { className: "tile" },
    element("dt", { textContent: name }),
    element("dd", { className: "figure", textContent: figure }),
    ...(middle ? [element("dd", {}, middle)] : []),
    element("dd", { className: "hint", textContent: words }));
}

function range(low, at, high) {
  const sure = element("i", { className: "sure" });
  const maybe = element("i");
  const mark = element("b");
  sure.style.width = width(low);
  maybe.style.left = width(low);
  maybe.style.width = width(high - low);
  mark.style.left = width(at);
  const made = element("div", { className: "range" }, sure, maybe, mark);
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", `on a scale from 0 to 1: ${three(low)} to ${three(high)}, expected ${three(at)}`);
  return made;
}

function cells(row, header, ...values) {
  const name = element("th", { scope: "row" }, header);
  row.append(name, ...values.map((value) => element("td", {}, ...(Array.isArray(value) ? value : [value]))));
  return row;
}

function share(value) {
  const bar = element("i");
  bar.style.width = width(value);
  return [element("span", { className: "share", ariaHidden: "true" }, bar), percent(value)];
}

export function showNumbers(found) {
  const said = {
    computing: "being computed …",
    failed: "could not be computed",
    ready: found.queries ? `${count(found.queries)} queries on ${count(found.codes)} codes` : "",
  };
  $("numbers-status").textContent = said[found.state];
  $("notes").replaceChildren(...found.notes.map((note) => element("li", { textContent: note })));
  const tiles = [];
  if (found.map !== null) {
    tiles.push(tile("mAP", three(found.map), `${three(found.map_worst)} to ${three(found.map_best)} over the order of ties`,
      range(found.map_worst, found.map, found.map_best)));
  }
  if (found.ratio !== null) {
    tiles.push(tile("Ratio", three(found.ratio), `min D_inter ${distance(found.inter)} over max D_intra ${distance(found.intra)}`));
    tiles.push(tile("Ratio at 99.9 %", three(found.ratio_999), "without the farthest of a thousand codes, and the nearest of a thousand pairs of classes"));
  }
  if (found.knn_accuracy !== null) tiles.push(tile("k-NN", percent(found.knn_accuracy), "of the queries are classified right by a vote of the nearest codes"));
  if (found.precision_within_2 !== null) tiles.push(tile("Precision within 2 bits", three(found.precision_within_2), "a query that finds nothing counts as 0"));
  $("tiles").replaceChildren(...tiles);
  $("classes").hidden = !found.classes.length;
  $("classes").querySelector("tbody").replaceChildren(...found.classes.map((row) =>
    cells(element("tr"), chip(row.label), count(row.codes), distance(row.inter), row.nearest === null ? "–" : chip(row.nearest),
      distance(row.intra), distance(row.intra_mean))));
  $("confused").hidden = !found.confused?.length;
  $("confused").querySelector("tbody").replaceChildren(...(found.confused ?? []).map((row) =>
    cells(element("tr"), chip(row.label), chip(row.taken_for), count(row.queries), share(row.share))));
}

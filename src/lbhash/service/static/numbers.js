// The model's numbers: tiles, classes, frequently confused classes.

import { chip } from "./classes.js";
import { $, count, element } from "./dom.js";

const three = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
const distance = (value) => (value === null || value === undefined ? "–" : String(Number(value.toFixed(2))));
const width = (value) => `${100 * value}%`;
const percent = (value) => `${(100 * value).toFixed(1)} %`;

function tile(name, figure, words, help, middle = null) {
  return element("div", { className: "tile", title: help },
    element("dt", {}, element("span", { className: "helped", textContent: name })),
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

let empty = false;

export function showNumbers(found) {
  // Folded where there are none; what the user folds or unfolds stays so.
  const { searched = [], stored = [] } = found.trained ?? {};
  const none = found.state !== "computing" && found.map === null && !found.classes.length && !searched.length && !stored.length;
  if (none !== empty) $("numbers").open = !none;
  empty = none;
  const said = {
    computing: "being computed …",
    failed: "could not be computed",
    ready: found.queries ? `${count(found.queries)} queries on ${count(found.base)} of ${count(found.codes)} codes` : none ? "none" : "",
  };
  $("numbers-status").textContent = said[found.state];
  $("notes").replaceChildren(...found.notes.map((note) => element("li", { textContent: note })));
  const tiles = [];
  if (found.map !== null) {
    tiles.push(tile("mAP", three(found.map), `${three(found.map_worst)} to ${three(found.map_best)} over the order of ties`,
      "Mean average precision: how close to the front the codes of the query's class are when all codes are ordered by the number of bits that differ. 1 is best.",
      range(found.map_worst, found.map, found.map_best)));
    tiles.push(tile("Macro mAP", three(found.map_macro), "the mean over the classes",
      "Each class's own mAP, and the mean of these: a small class counts as much as a large one."));
  }
  if (found.ratio !== null) {
    tiles.push(tile("Ratio", three(found.ratio), `min D_inter ${distance(found.inter)} over max D_intra ${distance(found.intra)}`,
      "The smallest distance between the centers of two classes (D_inter) over the largest distance of a code from its own class's center (D_intra). The larger, the better the classes are apart."));
    tiles.push(tile("Ratio at 99.9 %", three(found.ratio_999), "without the farthest of a thousand codes, and the nearest of a thousand pairs of classes",
      "The same ratio, without the few codes and pairs that are worst."));
  }
  if (found.knn_accuracy !== null) tiles.push(tile("k-NN", percent(found.knn_accuracy), "of the queries are classified right by a vote of the nearest codes",
    "Each query gets the class that most of its nearest codes have."));
  if (found.precision_within_2 !== null) tiles.push(tile("Precision within 2 bits", three(found.precision_within_2), "a query that finds nothing counts as 0",
    "The share of the query's class among the codes that differ from it in at most 2 bits."));
  $("tiles").replaceChildren(...tiles);
  $("searched").hidden = !searched.length;
  $("searched").querySelector("tbody").replaceChildren(...searched.map((row) =>
    cells(element("tr"), row.name, three(row.map), three(row.map_macro), three(row.knn_accuracy), three(row.by_bits.map),
      `${three(row.by_bits.map_worst)}–${three(row.by_bits.map_best)}`)));
  $("stored").hidden = !stored.length;
  $("stored").classList.toggle("unlabeled", stored.every((row) => row.map === null));
  $("stored").querySelector("tbody").replaceChildren(...stored.map((row) =>
    cells(element("tr"), row.name, count(row.bytes), three(row.map), three(row.recall), three(row.reranked))));
  $("classes").hidden = !found.classes.length;
  const weakest = [...found.classes].sort((a, b) => (a.map ?? 2) - (b.map ?? 2));
  $("classes").querySelector("tbody").replaceChildren(...weakest.map((row) =>
    cells(element("tr"), chip(row.label), three(row.map), count(row.codes), distance(row.inter), row.nearest === null ? "–" : chip(row.nearest),
      distance(row.intra), distance(row.intra_mean))));
  $("confused").hidden = !found.confused?.length;
  $("confused").querySelector("tbody").replaceChildren(...(found.confused ?? []).map((row) =>
    cells(element("tr"), chip(row.label), chip(row.taken_for), count(row.queries), share(row.share))));
}

// The page: queries, their results, and errors.

import { Failure, dropToken, get, hasToken, keepToken, pictureOf, search } from "./api.js";
import { bitsOf } from "./bits.js";
import { chip, named } from "./classes.js";
import { $, count, counted, element } from "./dom.js";
import { CodeMap } from "./map.js";
import { showNumbers } from "./numbers.js";

const SAMPLES = 8;
const TINY = 64; // pixels; smaller images are shown enlarged, with sharp pixels
const PATIENCE = 150; // milliseconds before the page shows that it waits

let about = null;
let query = null; // {row}, {id} or {file}
let running = null; // the AbortController of the running search
let shownGeneration = null;
let again = () => {};

const codeMap = new CodeMap({ choose: (id) => ask({ id }), picture });

// -------------------------------------------------------------------------------------------------------- images

function picture(row, alt) {
  if (!about?.pictures) return null;
  const image = element("img", { className: "picture", alt, loading: "lazy", decoding: "async" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= TINY));
  image.addEventListener("error", () => image.replaceWith(element("span", { className: "missing", textContent: "no image" })));
  pictureOf(row).then((url) => { image.src = url; }, () => image.dispatchEvent(new Event("error")));
  return image;
}

// -------------------------------------------------------------------------------------------------------- search

function options() {
  const radius = Number($("radius").value);
  return { k: Number($("k").value), ...(radius < about.bits ? { radius } : {}) };
}

function saySliders() {
  $("k-says").textContent = $("k").value;
  const radius = Number($("radius").value);
  $("radius-says").textContent = radius < about.bits ? counted(radius, "bit") : "any distance";
}

async function ask(next) {
  query = next;
  await searchNow();
  // On a phone the neighbors are below the query.
  if ($("neighbors").getBoundingClientRect().top > 0.7 * innerHeight) $("neighbors").scrollIntoView({ behavior: pace() });
}

const pace = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

async function searchNow() {
  if (!query || !about) return;
  if (query.file && query.file.size > about.limits.max_body) {
    warn(`The image is too large: it has ${count(query.file.size)} bytes, and the limit is ${count(about.limits.max_body)}.`);
    return;
  }
  running?.abort();
  const mine = (running = new AbortController());
  const slow = setTimeout(() => {
    $("cards").setAttribute("aria-busy", "true");
    $("status").textContent = "searching …";
  }, PATIENCE);
  try {
    const found = await search(query, options(), mine.signal);
    if (mine !== running) return;
    calm();
    show(found);
    remember();
  } catch (error) {
    if (error.name === "AbortError" || mine !== running) return;
    $("status").textContent = "";
    fail(error, searchNow);
  } finally {
    clearTimeout(slow);
    if (mine === running) $("cards").removeAttribute("aria-busy");
  }
}

function show(found) {
  const { neighbors, query: asked } = found;
  $("empty").hidden = neighbors.length > 0;
  $("samples").replaceChildren();
  $("empty-words").textContent = neighbors.length ? "" : `No code is within ${counted(Number($("radius").value), "bit")} of this query. Choose a larger radius to find more.`;
  $("status").textContent = `${counted(neighbors.length, "neighbor")} in ${found.milliseconds.total.toFixed(1)} ms`;
  $("cards").replaceChildren(...neighbors.map((neighbor) => card(neighbor, asked)));
  showAsked(asked);
  codeMap.mark({ id: asked.id, row: asked.row }, neighbors.map((neighbor) => neighbor.id));
  if (asked.row !== null) $("row").value = asked.row;
  else if (asked.id !== null && about.rows === null) $("row").value = asked.id;
}

function card(neighbor, asked) {
  const { distance, id, label, row } = neighbor;
  const name = row === null ? `id ${id}` : `row ${row}`;
  const button = element("button", { type: "button", className: "card" },
    row === null ? null : picture(row, ""),
    element("span", { className: "card-line" }, element("b", { textContent: counted(distance, "bit") }), label === null ? null : chip(label)),
    bitsOf(neighbor.code, asked.bits, asked.code),
    element("span", { className: "card-line" }, element("span", { className: "row-of", textContent: name }), verdict(label, asked.label)));
  button.title = `Search with ${name}`;
  const said = label === null ? "" : `, class ${named(label)}`;
  button.setAttribute("aria-label", `${name}${said}, ${counted(distance, "bit")} away; search with it`);
  button.addEventListener("click", () => {
    ask(row === null ? { id } : { row });
    $("neighbors").focus({ preventScroll: true });
    $("neighbors").scrollIntoView({ behavior: pace() });
  });
  return element("li", {}, button);
}

function verdict(label, wanted) {
  if (label === null || wanted === null) return null;
  if ([].concat(label).some((one) => [].concat(wanted).includes(one))) return null;
  return element("span", { className: "verdict", textContent: "other class" });
}

function showAsked(asked) {
  $("asked").hidden = false;
  $("asked-name").textContent = asked.row !== null ? `Row ${asked.row}` : asked.id !== null ? `Id ${asked.id}` : "Your image";
  $("asked-label").replaceChildren(...(asked.label === null ? [] : [chip(asked.label)]));
  const shown = asked.row !== null ? picture(asked.row, "") : null;
  $("asked-picture").replaceChildren(...(shown ? [shown] : []));
  $("asked-bits").replaceChildren(bitsOf(asked.code, asked.bits));
  $("asked-code").textContent = asked.code;
  if (!query.file) $("preview").replaceChildren();
}

// A search by row or id is written into the address, so that it can be saved, shared and returned to.
function remember() {
  if (query.file) return;
  const hash = `#${new URLSearchParams(query)}`;
  if (location.hash !== hash) history.pushState(null, "", hash);
}

function recall() {
  const held = new URLSearchParams(location.hash.slice(1));
  for (const name of ["row", "id"]) {
    if (/^\d+$/.test(held.get(name) ?? "")) return { [name]: Number(held.get(name)) };
  }
  return null;
}

// ------------------------------------------------------------------------------------------------------ errors

function warn(text, retry = null) {
  $("alert").hidden = false;
  $("alert-text").textContent = text;
  $("alert-again").hidden = retry === null;
  again = retry ?? (() => {});
}

function calm() {
  $("alert").hidden = true;
}

function fail(error, retry) {
  if (!(error instanceof Failure)) throw error;
  if (error.kind === "token") openDoor(retry);
  else warn(error.message, error.kind === "refused" ? null : retry);
}

function openDoor(retry) {
  $("door-why").textContent = hasToken()
    ? "The token is wrong."
    : "The person who started the service knows it. The browser forgets it when you close this tab.";
  dropToken();
  $("door").onclose = () => {
    keepToken($("token").value);
    $("token").value = "";
    retry();
  };
  if (!$("door").open) $("door").showModal();
}

// -------------------------------------------------------------------------------------------------------- start

async function begin() {
  try {
    about = await get("about");
  } catch (error) {
    fail(error, begin);
    return;
  }
  calm();
  setUp();
  const held = recall();
  if (held) await ask(held);
  else invite();
  keepUp();
}

function setUp() {
  const facts = [`${count(about.codes)} codes of ${counted(about.bits, "bit")}`, about.method, `${about.kind} index`, `generation ${about.generation}`];
  $("facts").replaceChildren(...facts.flatMap((fact) => [element("span", { textContent: fact }), " "]));
  $("drop").hidden = !about.takes_pictures;
  $("no-pictures").hidden = about.takes_pictures;
  $("row-name").textContent = about.rows === null ? "Id" : `Row, 0 to ${count(about.rows - 1)}`;
  if (about.rows !== null) $("row").max = about.rows - 1;
  $("random").hidden = about.rows === null;
  $("k").max = Math.max(1, Math.min(60, about.codes));
  if (shownGeneration === null) {
    $("radius").max = about.bits;
    $("radius").value = about.bits;
  }
  saySliders();
}

const randomRow = () => Math.floor(Math.random() * about.rows);

function invite() {
  const from = about.takes_pictures ? "Choose an image or a row" : "Choose a row";
  if (!about.codes) {
    $("empty-words").textContent = "The index has no codes yet. Add some, and search them here.";
    return;
  }
  $("empty-words").textContent = about.rows === null ? "Enter the id of a code to see its neighbors." : `${from} to see the nearest codes.`;
  if (about.rows === null || !about.pictures) return;
  const rows = new Set(Array.from({ length: Math.min(SAMPLES, about.rows) }, randomRow));
  $("samples").replaceChildren(...[...rows].map((row) => {
    const button = element("button", { type: "button", ariaLabel: `Search with row ${row}` }, picture(row, ""));
    button.addEventListener("click", () => ask({ row }));
    return element("li", {}, button);
  }));
}

// Loads the map and the numbers when they are ready, and again when the index has changed.
async function keepUp() {
  let pause = 5000;
  try {
    const [health, map] = await Promise.all([get("health"), get("map")]);
    const summary = await get("summary");
    if (health.generation !== about.generation) {
      about = await get("about");
      setUp();
      if (query) searchNow();
    }
    showMap(map);
    showNumbers(summary);
    shownGeneration = health.generation;
    if (map.pending || map.state === "computing" || summary.state === "computing") pause = 700;
    if (again === waitForIt) calm();
  } catch (error) {
    if (error instanceof Failure && error.kind === "token") return void openDoor(keepUp);
    if (error instanceof Failure && error.kind === "gone" && $("alert").hidden) warn(error.message, waitForIt);
    pause = 3000;
  }
  setTimeout(keepUp, pause);
}

// keepUp tries again by itself; the button tries at once.
async function waitForIt() {
  try {
    await get("health");
    calm();
    searchNow();
  } catch (error) {
    fail(error, waitForIt);
  }
}

let mapShown = "";

function showMap(map) {
  const words = { pca: "by principal components", tsne: "by t-SNE" };
  const pending = map.pending ? "; a better map is being computed …" : "";
  const said = { computing: "being computed …", failed: "could not be computed", ready: `${counted(map.ids.length, "code")}, ${words[map.kind]}${pending}` }[map.state];
  if ($("map-status").textContent !== said) $("map-status").textContent = said;
  const shown = `${map.generation}/${map.kind}`;
  if (map.state !== "ready" || shown === mapShown) return;
  mapShown = shown;
  codeMap.show(map);
}

// ------------------------------------------------------------------------------------------------------- events

let pause = 0;
function soon() {
  saySliders();
  clearTimeout(pause);
  pause = setTimeout(searchNow, 120);
}

function takeFile(file) {
  if (!file || !about?.takes_pictures) return;
  if (file.type && !file.type.startsWith("image/")) {
    warn(`${file.name} is not an image.`);
    return;
  }
  const image = element("img", { alt: "" });
  image.addEventListener("load", () => URL.revokeObjectURL(image.src));
  image.src = URL.createObjectURL(file);
  $("preview").replaceChildren(image);
  ask({ file });
}

$("k").addEventListener("input", soon);
$("radius").addEventListener("input", soon);
$("query").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = $("row").value.trim();
  if (!about || !/^\d+$/.test(value)) {
    $("row").focus();
    return;
  }
  ask(about.rows === null ? { id: Number(value) } : { row: Number(value) });
});
$("random").addEventListener("click", () => ask({ row: randomRow() }));
$("file").addEventListener("change", () => {
  takeFile($("file").files[0]);
  $("file").value = "";
});
$("alert-again").addEventListener("click", () => again());
$("door").addEventListener("cancel", (event) => event.preventDefault());

addEventListener("dragover", (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
});
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) $("drop").classList.remove("over");
});
addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  takeFile(event.dataTransfer.files[0]);
});
addEventListener("paste", (event) => takeFile(event.clipboardData?.files[0]));
addEventListener("popstate", () => {
  const held = recall();
  if (held) ask(held);
});

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
$("theme").addEventListener("click", () => {
  const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("lbhash-theme", root.dataset.theme);
  } catch {
    // Without storage, the theme lasts until the page is closed.
  }
  codeMap.draw();
});
dark.addEventListener("change", () => codeMap.draw());

begin();

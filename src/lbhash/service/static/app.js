// The page: queries, their results, and errors.

import { Failure, dropToken, get, hasToken, imageOf, keepToken, pictureOf, search } from "./api.js";
import { bitsOf } from "./bits.js";
import { chip, named } from "./classes.js";
import { $, count, counted, element } from "./dom.js";
import { CodeMap } from "./map.js";
import { showNumbers } from "./numbers.js";

const SAMPLES = 8;
const TINY = 64; // pixels; smaller images are shown enlarged, with sharp pixels
const NEIGHBORS = 12;
const DOUBTFUL = 0.99; // of the rows, one of a hundred is as unlike the others
const RANKINGS = { real: "the query's outputs", hamming: "bits that differ", outputs: "stored outputs", embeddings: "stored embeddings" };
const UNSPOKEN = ["row", "thumbnail"]; // columns that the page neither says nor filters by
const PATIENCE = 150; // milliseconds before the page shows that it waits

let info = null;
let query = null; // {id} (a text), {row} of the data, {text} or {file}: what is searched
let good = null; // what the neighbors on the page were found with
let listed = []; // the neighbors on the page
let running = null; // the AbortController of the running search
let again = () => {};

const codeMap = new CodeMap({ choose: (id) => ask({ id: String(id) }), picture });

// -------------------------------------------------------------------------------------------------------- images

// The image of an item by its id, or of a row of the data.
function picture(of) {
  const image = element("img", { className: "picture", alt: "", loading: "lazy", decoding: "async" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= TINY));
  image.addEventListener("error", () => image.replaceWith(element("span", { className: "missing", textContent: "no image" })));
  pictureOf(imageOf(of, info.generation)).then((url) => { image.src = url; }, () => image.dispatchEvent(new Event("error")));
  return image;
}

// -------------------------------------------------------------------------------------------------------- search

function options() {
  const radius = Number($("radius").value);
  const value = $("value").value.trim();
  return {
    k: Number($("k").value),
    ...(radius < info.bits ? { radius } : {}),
    ...(value ? { where: { [$("column").value]: value } } : {}), // the service makes a number of text where it must
    ...ranking(),
  };
}

function ranking() {
  const by = $("ranking").value;
  return by === "real" ? {} : by === "hamming" ? { ranking: by } : { rerank: by }; // an item has no outputs: its bits count
}

function saySliders() {
  $("k-says").textContent = $("k").value;
  const radius = Number($("radius").value);
  $("radius-says").textContent = radius < info.bits ? counted(radius, "bit") : "any distance";
}

async function ask(next) {
  query = next;
  await searchNow();
  // On a phone the neighbors are below the query.
  if ($("neighbors").getBoundingClientRect().top > 0.7 * innerHeight) showNeighbors();
}

const pace = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");
const showNeighbors = () => $("neighbors").scrollIntoView({ behavior: pace() });

// Searches with something that will be gone, or out of sight: the focus moves to the neighbors.
function follow(next) {
  ask(next);
  $("neighbors").focus({ preventScroll: true });
  showNeighbors();
}

async function searchNow() {
  if (!query || !info) return;
  running?.abort();
  const mine = (running = new AbortController());
  const asked = query;
  const slow = setTimeout(() => {
    $("cards").setAttribute("aria-busy", "true");
    $("status").textContent = "searching …";
  }, PATIENCE);
  try {
    if (asked.file && asked.file.size > info.limits.max_body) {
      throw new Failure("refused", `The image is too large: it has ${count(asked.file.size)} bytes, and the limit is ${count(info.limits.max_body)}.`);
    }
    const found = await search(asked, options(), mine.signal);
    if (mine !== running) return;
    good = asked;
    calm();
    show(found);
    remember();
  } catch (error) {
    if (error.name === "AbortError" || mine !== running) return;
    query = good; // what failed is forgotten, unless the user tries again
    if (asked.file) $("preview").replaceChildren();
    fail(error, () => ask(asked));
  } finally {
    clearTimeout(slow);
    if (mine === running) $("cards").removeAttribute("aria-busy");
  }
}

function show(found) {
  const { neighbors, query: asked } = found;
  $("empty").hidden = neighbors.length > 0;
  $("samples").replaceChildren();
  const tight = Number($("radius").value) < info.bits;
  const loosen = tight ? ` within ${counted(Number($("radius").value), "bit")} of this query` : "";
  const filtered = $("value").value.trim() ? ` where ${$("column").value} is ${$("value").value.trim()}` : "";
  $("empty-words").textContent = neighbors.length ? "" : `No code is${loosen}${filtered}.${tight ? " Choose a larger radius to find more." : ""}`;
  const order = `, ranked by ${RANKINGS[found.ranking]}`;
  $("status").textContent = `${counted(neighbors.length, "neighbor")} in ${found.milliseconds.total.toFixed(1)} ms${filtered}${order}`;
  const main = longest([asked, ...neighbors]);
  $("cards").classList.toggle("wide", main !== null && !neighbors.some((one) => one.image));
  $("cards").replaceChildren(...neighbors.map((neighbor) => card(neighbor, asked, main)));
  showAsked(asked, main);
  showDoubt(asked.doubt);
  listed = neighbors;
  suggest();
  codeMap.mark(asked.id, neighbors.map((neighbor) => neighbor.id));
  if (query.text) $("text").value = query.text;
  if (asked.id !== null) $("item").value = asked.id;
}

// The metadata that a card says in words, and of these the column with the longest text.
const spoken = ({ metadata }) =>
  Object.entries(metadata).filter(([name, value]) => ![info.label, ...UNSPOKEN].includes(name) && value !== null && value !== "");

function longest(found) {
  const lengths = new Map();
  for (const [name, value] of found.flatMap(spoken)) {
    if (typeof value === "string") lengths.set(name, (lengths.get(name) ?? 0) + value.length);
  }
  return [...lengths].sort((a, b) => b[1] - a[1])[0]?.[0] ?? null;
}

function card(neighbor, asked, main) {
  const { hamming, id, label } = neighbor;
  const text = neighbor.metadata[main] ?? null;
  const others = spoken(neighbor).filter(([column]) => column !== main).map(([column, value]) => `${column}: ${value}`);
  const button = element("button", { type: "button", className: "card" },
    neighbor.image ? picture(neighbor) : null,
    text === null ? null : element("span", { className: "text", textContent: text }),
    element("span", { className: "card-line" }, element("b", { textContent: counted(hamming, "bit") }), label === null ? null : chip(label)),
    bitsOf(neighbor.code, asked.bits, asked.code),
    element("span", { className: "card-line" }, element("span", { className: "row-of", textContent: [`id ${id}`, ...others].join(" · ") }), verdict(label, asked.label)));
  button.title = `Search with id ${id}`;
  button.addEventListener("click", () => follow({ id: String(id) }));
  return element("li", {}, button);
}

function verdict(label, wanted) {
  if (label === null || wanted === null) return null;
  if ([].concat(label).some((one) => [].concat(wanted).includes(one))) return null;
  return element("span", { className: "verdict", textContent: "other class" });
}

function showAsked(asked, main) {
  $("asked").hidden = false;
  $("asked-name").textContent = query.row !== undefined ? `Row ${query.row}` : asked.id !== null ? `Id ${asked.id}` : query.text ? "Your text" : "Your image";
  $("asked-label").replaceChildren(...(asked.label === null ? [] : [chip(asked.label)]));
  $("asked-text").textContent = asked.metadata[main] ?? query.text ?? "";
  const shown = asked.image ? picture(asked) : query.row !== undefined && info.images ? picture(query) : null;
  $("asked-picture").replaceChildren(...(shown ? [shown] : []));
  $("asked-bits").replaceChildren(bitsOf(asked.code, asked.bits, null, asked.unsure));
  const few = asked.unsure.length;
  $("asked-unsure").textContent = few ? `${few} of ${counted(asked.bits, "bit")} ${few === 1 ? "is" : "are"} unsure (dotted)` : "";
  $("asked-code").textContent = asked.code;
  if (!query.file) $("preview").replaceChildren();
}

function showDoubt(doubt) {
  $("doubt").hidden = doubt === null;
  if (doubt === null) return;
  const doubtful = doubt >= DOUBTFUL;
  $("doubt").classList.toggle("doubtful", doubtful);
  const share = doubt === 1 ? "every row" : `${Math.floor(100 * doubt)} % of its rows`;
  $("doubt").textContent = doubtful
    ? `Doubtful: this query is less like the data than ${share}. Its neighbors may mean nothing.`
    : `Less like the data than ${share}.`;
}

// ------------------------------------------------------------------------------------------------------- options

function setUpOptions() {
  const columns = Object.keys(info.metadata).filter((name) => !UNSPOKEN.includes(name));
  $("filter").hidden = !columns.length;
  choices($("column"), columns.map((name) => [name, name]));
  // The query's outputs are known of a row or an image, or if the index has them.
  const able = info.rows !== null || info.takes_images || info.takes_texts;
  const rankings = [...(able ? ["real"] : []), "hamming", ...info.rerank];
  $("rankings").hidden = rankings.length < 2;
  choices($("ranking"), rankings.map((name) => [name, RANKINGS[name]]));
}

function choices(select, pairs) {
  const before = select.value;
  select.replaceChildren(...pairs.map(([value, textContent]) => element("option", { value, textContent })));
  if (pairs.some(([value]) => value === before)) select.value = before;
}

// Values for the filter: the classes on the map, and what the neighbors have.
function suggest() {
  const column = $("column").value;
  const values = column === info.label ? codeMap.classes : listed.map((one) => one.metadata[column]);
  const known = new Set(values.flat().filter((value) => value !== null && value !== undefined).map(String));
  $("values").replaceChildren(...[...known].slice(0, 200).map((value) => element("option", { value })));
}

// ------------------------------------------------------------------------------------------------------- address

// A search by row, id or text is written into the address with its options, so that it can be saved, shared and returned to.
function remember() {
  if (query.file) return;
  const { where, ...others } = options();
  const [[column, value]] = where ? Object.entries(where) : [[]];
  const hash = `#${new URLSearchParams({ ...query, ...others, ...(where ? { column, value } : {}) })}`;
  if (location.hash === hash) return;
  const same = JSON.stringify(recalled()) === JSON.stringify(query);
  history[same ? "replaceState" : "pushState"](null, "", hash);
}

const held = () => new URLSearchParams(location.hash.slice(1));

// The query that the address holds, or null.
function recalled() {
  const [row, id, text] = [held().get("row"), held().get("id"), held().get("text")];
  if (/^\d{1,15}$/.test(row ?? "")) return { row: Number(row) };
  return id ? { id } : text ? { text } : null;
}

// Sets the options to those of the address; those that it does not hold, to what they are at first.
function recallOptions() {
  const given = held();
  $("k").value = /^\d+$/.test(given.get("k") ?? "") ? given.get("k") : NEIGHBORS;
  $("radius").value = /^\d+$/.test(given.get("radius") ?? "") ? given.get("radius") : info.bits;
  const known = [...$("column").options].some((option) => option.value === given.get("column"));
  if (known) $("column").value = given.get("column");
  $("value").value = (known && given.get("value")) || "";
  const by = given.get("rerank") ?? given.get("ranking");
  $("ranking").value = [...$("ranking").options].some((option) => option.value === by) ? by : $("ranking").options[0]?.value;
  saySliders();
}

// ------------------------------------------------------------------------------------------------------ errors

function warn(text, retry = null) {
  $("neighbors").classList.add("old");
  $("status").textContent = $("cards").childElementCount ? "of the search before" : "";
  $("alert").hidden = false;
  $("alert-text").textContent = text;
  $("alert-again").hidden = retry === null;
  again = retry ?? (() => {});
}

function calm() {
  $("alert").hidden = true;
  $("neighbors").classList.remove("old");
  again = () => {};
}

function recover() {
  calm();
  $("status").textContent = "";
  searchNow();
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
    info = await get("v1/info");
  } catch (error) {
    fail(error, begin);
    return;
  }
  calm();
  setUp();
  recallOptions();
  if (recalled()) await ask(recalled());
  else invite();
  keepUp();
}

function setUp() {
  const facts = [`${count(info.codes)} codes of ${counted(info.bits, "bit")}`, info.method, `${info.kind} index`, `generation ${info.generation}`];
  $("facts").replaceChildren(...facts.flatMap((fact) => [element("span", { textContent: fact }), " "]));
  $("drop").hidden = !info.takes_images;
  $("asking").hidden = !info.takes_texts;
  $("no-pictures").hidden = info.takes_images || !info.images;
  $("k").max = Math.max(1, Math.min(60, info.codes));
  $("radius").max = info.bits;
  setUpOptions();
  saySliders();
}

const anyOf = (list) => list[Math.floor(Math.random() * list.length)];

function invite() {
  const from = info.takes_texts ? "Write a text, or enter" : info.takes_images ? "Choose an image, or enter" : "Enter";
  if (!info.codes) {
    $("empty-words").textContent = "The index has no codes yet. Add some, and search them here.";
    return;
  }
  $("empty-words").textContent = `${from} the id of a code to see its neighbors.`;
  const shown = codeMap.ids((at) => codeMap.points.images[at]);
  const some = new Set(shown.length ? Array.from({ length: SAMPLES }, () => anyOf(shown)) : []);
  $("samples").replaceChildren(...[...some].map((id) => {
    const button = element("button", { type: "button", ariaLabel: `Search with id ${id}` }, picture({ id }));
    button.addEventListener("click", () => follow({ id: String(id) }));
    return element("li", {}, button);
  }));
}

// Loads the map and the numbers when they are ready, and again when the index has changed.
async function keepUp() {
  let pause = 5000;
  try {
    const [health, map] = await Promise.all([get("health"), get("page/map")]);
    const summary = await get("page/summary");
    if (health.generation !== info.generation) {
      info = await get("v1/info");
      setUp();
      if (query) searchNow();
    }
    showMap(map);
    showNumbers(summary);
    if (map.pending || map.state === "computing" || summary.state === "computing") pause = 700;
    if (again === waitForIt) recover();
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
    recover();
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
  suggest();
  $("random").hidden = !map.ids.length;
  if (!query) invite();
}

// ------------------------------------------------------------------------------------------------------- events

let pause = 0;
function soon() {
  saySliders();
  clearTimeout(pause);
  pause = setTimeout(searchNow, 120);
}

function takeFile(file) {
  if (!file || !info?.takes_images) return;
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

for (const name of ["k", "radius", "ranking"]) $(name).addEventListener("input", soon);
$("value").addEventListener("change", soon);
$("value").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault(); // it would search with the id
  soon();
});
$("column").addEventListener("input", () => {
  if ($("value").value) soon();
  $("value").value = "";
  suggest();
});
$("query").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = $("item").value.trim();
  if (info && value) ask({ id: value });
  else $("item").focus();
});
$("words").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (info && text) ask({ text });
  else $("text").focus();
});
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("words").requestSubmit();
});
$("random").addEventListener("click", () => ask({ id: String(anyOf(codeMap.ids())) }));
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
  if (!info) return;
  recallOptions();
  if (recalled()) ask(recalled());
});

$("options").open = !matchMedia("(max-width: 52rem)").matches;

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

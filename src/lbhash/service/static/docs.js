// The routes of the service, made from its OpenAPI schema, each with a form that sends a request.

import { hasToken, keepToken, send } from "./api.js";
import { $, element as make } from "./dom.js";

const SHOWN = 20_000; // characters of an answer
const JSON_TYPE = "application/json", FORM_TYPE = "multipart/form-data";
let described, labels = 0;

const resolved = (schema) =>
  schema.$ref ? schema.$ref.slice(2).split("/").reduce((place, name) => place[name], described) : schema;

function kindOf(given) {
  const schema = resolved(given);
  const any = schema.anyOf ?? schema.oneOf;
  if (any && !schema.properties) return [...new Set(any.map(kindOf))].filter((kind) => kind !== "null").join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
  if (schema.type === "array") return `list of ${kindOf(schema.items ?? {})}`;
  if (schema.contentEncoding) return `${schema.type} in ${schema.contentEncoding}`;
  if (schema.format === "binary") return "file";
  return schema.type ?? "any value";
}

// The fields of an object, and those of the objects in its lists.
function rowsOf({ properties = {}, required = [] }, place = "") {
  return Object.entries(properties).flatMap(([name, field]) => [
    make("tr", {},
      make("td", {}, make("code", { textContent: place + name }), required.includes(name) ? " (required)" : ""),
      make("td", { textContent: kindOf(field) }),
      make("td", { textContent: field.description ?? "" })),
    ...rowsOf(field.items ?? {}, `${place}${name}[].`)]);
}

function fieldsTable(schema) {
  const rows = rowsOf(resolved(schema));
  const head = make("tr", {}, ...["Field", "Type", "Meaning"].map((name) => make("th", { textContent: name, scope: "col" })));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curlOf(method, path, body) {
  const parts = ["curl"];
  if (method !== "GET") parts.push("-X", method);
  parts.push(quoted(new URL(path, document.baseURI).href));
  if (hasToken()) parts.push("-H", '"Authorization: Bearer $TOKEN"');
  if (body instanceof FileList) for (const { name } of body) parts.push("-F", quoted(`image=@${name}`));
  else if (body !== null) parts.push("-H", quoted(`Content-Type: ${JSON_TYPE}`), "-d", quoted(body));
  return parts.join(" ");
}

async function shown(answer) {
  const kind = answer.headers.get("Content-Type") ?? "";
  if (kind.startsWith("image/")) return make("img", { alt: "The answer", src: URL.createObjectURL(await answer.blob()) });
  let text = await answer.text();
  if (kind.startsWith(JSON_TYPE)) text = JSON.stringify(JSON.parse(text), null, 1);
  return make("pre", { tabIndex: 0, textContent: text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text });
}

function labelled(text, control) {
  control.id = `control-${(labels += 1)}`;
  return [make("label", { htmlFor: control.id, textContent: text }), control];
}

function routeOf(path, name, operation) {
  const method = name.toUpperCase(), content = operation.requestBody?.content;
  const form = make("form"), result = make("div", { className: "result", role: "status" });
  const values = (operation.parameters ?? []).filter((one) => one.in === "path").map((one) => {
    const input = make("input", { required: true, value: "0", name: one.name });
    form.append(...labelled(`${one.name}, ${kindOf(one.schema)}`, input));
    return input;
  });
  const text = make("textarea", { spellcheck: false }), files = make("input", { type: "file", multiple: true });
  if (content) {
    text.value = JSON.stringify(content[JSON_TYPE].example ?? {}, null, 1);
    form.append(...labelled("The body, in JSON", text));
    if (content[FORM_TYPE]) form.append(...labelled("or images in its place", files));
  }
  form.append(make("button", { type: "submit", className: "main", textContent: "Send" }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const place = values.reduce((made, one) => made.replace(`{${one.name}}`, encodeURIComponent(one.value)), path).slice(1);
    const images = files.files.length ? files.files : null, options = { method };
    if (images) {
      options.body = new FormData();
      for (const image of images) options.body.append("image", image);
    } else if (content) {
      options.body = text.value;
      options.headers = { "Content-Type": JSON_TYPE };
    }
    const line = make("pre", { tabIndex: 0, textContent: curlOf(method, place, images ?? (content ? text.value : null)) });
    result.replaceChildren("…");
    try {
      const started = performance.now(), answer = await send(place, options);
      const told = `Status ${answer.status}, after ${Math.round(performance.now() - started)} ms`;
      result.replaceChildren(line, make("p", { className: "told", textContent: told }), await shown(answer));
      if (answer.status === 401) askForToken();
    } catch {
      result.replaceChildren(line, make("p", { className: "told", textContent: "The service does not answer." }));
    }
  });
  const tables = content ? [fieldsTable(content[JSON_TYPE].schema)] : [];
  return make("details", { className: "panel" },
    make("summary", {}, make("b", { textContent: method }), make("code", { textContent: path }),
      make("span", { className: "hint", textContent: operation.description ?? "" })),
    ...tables, form, result);
}

function askForToken() {
  $("access").hidden = false;
  $("token").focus();
}

async function load() {
  let answer;
  try {
    answer = await send("openapi.json");
  } catch {
    $("state").textContent = "The service does not answer.";
    return;
  }
  if (!answer.ok) {
    $("state").textContent = await answer.json().then((body) => body.detail, () => `Status ${answer.status}`);
    if (answer.status === 401) askForToken();
    return;
  }
  described = await answer.json();
  const routes = Object.entries(described.paths).flatMap(([path, one]) =>
    Object.entries(one).map(([name, operation]) => routeOf(path, name, operation)));
  $("routes").replaceChildren(...routes);
  $("state").textContent = `${routes.length} routes, version ${described.info.version}`;
}

$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken($("token").value);
  $("access").hidden = true;
  if (!described) load(); // else it would empty the forms
});
load();

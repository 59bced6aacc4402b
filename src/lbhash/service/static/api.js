// Sends requests with their token, and reports each failure as one sentence.

export class Failure extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind; // "token", "gone", "busy" or "refused"
  }
}

let token = sessionStorage.getItem("lbhash-token");
const pictures = new Map(); // from a path to the promise of its image's URL; used with a token, which <img> cannot send

export const hasToken = () => token !== null;

export function keepToken(value) {
  token = value;
  sessionStorage.setItem("lbhash-token", value);
}

export function dropToken() {
  token = null;
  sessionStorage.removeItem("lbhash-token");
}

export function send(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  return fetch(path, { ...options, headers });
}

async function ask(path, options) {
  let answer;
  try {
    answer = await send(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("gone", "The service does not answer. It was stopped, or the connection is lost.");
  }
  if (answer.ok) return answer;
  const told = await answer.json().then((body) => body.detail, () => `status ${answer.status}`);
  const detail = told.replaceAll("queries.0.", "the "); // the page asks one query at a time
  if (answer.status === 401) throw new Failure("token", detail);
  if (answer.status === 503) throw new Failure("busy", "The service is busy right now. Try again in a moment.");
  if (answer.status === 413) throw new Failure("refused", `The request is too large: ${detail}.`);
  throw new Failure("refused", `The service refused the request: ${detail}.`);
}

// A number of JavaScript does not hold an integer of 64 bits. Such an id stays a text, which the service takes, too.
const LONG = /"(?:[^"\\]|\\.)*"|(?<![\d.])-?\d{16,}(?![\d.eE])/g;
const read = async (answer) => JSON.parse((await answer.text()).replace(LONG, (part) => (part[0] === '"' ? part : `"${part}"`)));

export const get = async (path) => read(await ask(path));

export async function search(query, options, signal) {
  const own = "id" in query || "row" in query; // asked with the outputs of a row of the data, if they are known
  const path = own ? "page/search" : "v1/search";
  const asked = own ? query : { queries: [query] };
  const sent = { method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...asked, ...options }) };
  if (query.file) {
    sent.headers = {};
    sent.body = new FormData();
    sent.body.append("image", query.file);
    for (const [name, value] of Object.entries(options)) {
      sent.body.append(name, ["ranking", "rerank"].includes(name) ? value : JSON.stringify(value));
    }
  }
  const { answers, milliseconds } = await read(await ask(path, sent));
  return { ...answers[0], milliseconds };
}

// Another generation of the index may have another image under the same id.
export const imageOf = ({ id, row }, generation) =>
  row === undefined ? `v1/items/${encodeURIComponent(id)}/image?generation=${generation}` : `page/rows/${row}/image`;

export function pictureOf(path) {
  if (!token) return Promise.resolve(path);
  if (!pictures.has(path)) {
    if (pictures.size > 500) {
      const [oldest] = pictures.keys();
      pictures.get(oldest).then(URL.revokeObjectURL, () => {});
      pictures.delete(oldest);
    }
    const made = ask(path).then((answer) => answer.blob()).then(URL.createObjectURL);
    made.catch(() => pictures.delete(path));
    pictures.set(path, made);
  }
  return pictures.get(path);
}

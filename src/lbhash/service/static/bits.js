// Draws a code as squares: dark for 1, pale for 0. Bits that differ from the query are larger and colored (1) or hollow (0).
// Unsure bits of the query have a dot.

import { counted, drawing, element } from "./dom.js";

const STEP = 10;
const HELP = "Each square is a bit: dark for 1, pale for 0.";

function unhex(code, bits) {
  const found = new Uint8Array(bits);
  for (let bit = 0; bit < bits; bit++) {
    found[bit] = (parseInt(code.slice(2 * (bit >> 3), 2 * (bit >> 3) + 2), 16) >> (7 - (bit & 7))) & 1;
  }
  return found;
}

const square = (x, y, side) => `M${x} ${y}h${side}v${side}h${-side}z`;

export function bitsOf(code, bits, query = null, unsure = []) {
  const mine = unhex(code, bits);
  const theirs = unhex(query ?? code, bits);
  const columns = bits <= 32 ? Math.min(8, bits) : bits <= 256 ? 16 : 32;
  const rows = Math.ceil(bits / columns);
  const paths = { zero: "", one: "", "differs-zero": "", "differs-one": "", unsure: "" };
  let differing = 0;
  for (let bit = 0; bit < bits; bit++) {
    const x = STEP * (bit % columns);
    const y = STEP * Math.floor(bit / columns);
    if (mine[bit] === theirs[bit]) paths[mine[bit] ? "one" : "zero"] += square(x + 1.5, y + 1.5, 7);
    else {
      paths[mine[bit] ? "differs-one" : "differs-zero"] += mine[bit] ? square(x + 0.25, y + 0.25, 9.5) : square(x + 1.25, y + 1.25, 7.5);
      differing += 1;
    }
    if (unsure.includes(bit)) paths.unsure += square(x + 3.25, y + 3.25, 3.5);
  }
  const label = query === null ? `code ${code}` : `${counted(differing, "bit")} of ${bits} differ`;
  const help = query === null ? (unsure.length ? " A dot: the bit is unsure, its output is close to 0." : "") : " Orange: it differs from the query's.";
  const drawn = drawing("svg", { viewBox: `0 0 ${STEP * columns} ${STEP * rows}`, "aria-hidden": "true" },
    ...Object.entries(paths).filter(([, path]) => path).map(([kind, d]) => drawing("path", { class: kind, d })));
  const made = element("span", { className: "bits", title: HELP + help }, drawn);
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", label);
  return made;
}

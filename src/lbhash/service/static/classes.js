// Gives each class a color (from Okabe and Ito, for color-blind people too) and a shape, so that color alone never decides.

import { drawing, element } from "./dom.js";

const COLORS = ["#2680c2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f98", "#b8a800"];

// Every second shape is hollow: eight colors come back with a shape that differs at the size of a point.
const SHAPES = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (r) => `M${-0.9 * r} ${-0.9 * r}h${1.8 * r}v${1.8 * r}h${-1.8 * r}z`,
  (r) => `M0 ${-1.15 * r}L${1.1 * r} ${0.8 * r}H${-1.1 * r}z`,
  (r) => `M0 ${-1.3 * r}L${1.3 * r} 0L0 ${1.3 * r}L${-1.3 * r} 0z`,
  (r) => `M0 ${1.15 * r}L${1.1 * r} ${-0.8 * r}H${-1.1 * r}z`,
  (r) => `M${-0.4 * r} ${-1.2 * r}h${0.8 * r}v${0.8 * r}h${0.8 * r}v${0.8 * r}h${-0.8 * r}v${0.8 * r}h${-0.8 * r}v${-0.8 * r}h${-0.8 * r}v${-0.8 * r}h${0.8 * r}z`,
  (r) => `M${-1.1 * r} ${-1.1 * r}H${1.1 * r}L${-1.1 * r} ${1.1 * r}H${1.1 * r}z`,
];

export const first = (label) => (Array.isArray(label) ? label[0] : label);

const met = new Map(); // classes with names, in the order in which they were met

export function marker(label, radius) {
  let number = first(label);
  if (typeof number === "string") {
    if (!met.has(number)) met.set(number, met.size);
    number = met.get(number);
  }
  if (number === null || number === undefined) return { color: COLORS[6], path: SHAPES[0](radius), hollow: false };
  const round = Math.floor(Math.abs(number) / COLORS.length);
  return { color: COLORS[Math.abs(number) % COLORS.length], path: SHAPES[round % SHAPES.length](radius), hollow: round % 2 === 1 };
}

export const named = (label) =>
  label === null || label === undefined ? "no label" : Array.isArray(label) ? label.join(", ") || "no label" : String(label);

export function chip(label) {
  const { color, path, hollow } = marker(label, 5);
  const paint = hollow ? { fill: "none", stroke: color, "stroke-width": 2 } : { fill: color };
  const mark = drawing("svg", { viewBox: "-7 -7 14 14", width: 13, height: 13, "aria-hidden": "true" }, drawing("path", { d: path, ...paint }));
  return element("span", { className: "chip", title: named(label) }, mark, element("span", { textContent: named(label) }));
}

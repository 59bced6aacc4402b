// The map of the code space: a canvas for mouse, touch and keyboard.

import { chip, first, marker, named } from "./classes.js";
import { $, element } from "./dom.js";

const PADDING = 18;
const REACH = 16; // pixels; the pointer selects the nearest point within this distance
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class CodeMap {
  constructor({ choose, picture }) {
    this.canvas = $("map");
    this.context = this.canvas.getContext("2d");
    this.choose = choose;
    this.picture = picture;
    this.points = null;
    this.classes = [];
    this.at = -1;
    this.only = null; // the class that is selected in the legend
    this.near = new Set();
    this.asked = null;
    new ResizeObserver(() => {
      this.draw();
      this.nameClasses();
    }).observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(this.find(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(-1));
    this.canvas.addEventListener("blur", () => this.point(-1));
    this.canvas.addEventListener("click", (event) => this.search(this.find(event)));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    this.canvas.addEventListener("focus", () => this.canvas.matches(":focus-visible") && this.at < 0 && this.point(this.start()));
  }

  show(found) {
    const before = this.points;
    const same = before && before.ids.length === found.ids.length && before.ids.every((id, at) => id === found.ids[at]);
    this.points = found;
    this.makeLegend();
    this.nameClasses();
    if (same && !still.matches) this.move(before);
    else this.draw();
  }

  // The ids of the points, or of those of which "keep" is true.
  ids(keep = () => true) {
    return this.points?.ids.filter((_, at) => keep(at)) ?? [];
  }

  mark(asked, neighbors) {
    this.asked = asked;
    this.near = new Set(neighbors);
    this.draw();
  }

  // Moves the points from their old places to the new ones.
  move(before) {
    const began = performance.now();
    const step = (now) => {
      const part = Math.min(1, (now - began) / 800);
      const eased = part * part * (3 - 2 * part);
      this.moving = part < 1 ? (name, at) => before[name][at] + eased * (this.points[name][at] - before[name][at]) : null;
      this.draw();
      if (part < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  place(at) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const value = this.moving ?? ((name, place) => this.points[name][place]);
    return [
      width / 2 + value("x", at) * (width / 2 - PADDING),
      height / 2 - value("y", at) * (height / 2 - PADDING),
    ];
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const dense = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * dense);
    this.canvas.height = Math.round(height * dense);
    const context = this.context;
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, height);
    if (!this.points) return;
    const ink = getComputedStyle(this.canvas).color;
    const radius = this.points.ids.length > 800 ? 3 : 4;
    const shapes = new Map();
    const put = (at, size, alpha) => {
      const label = first(this.points.labels[at]);
      const key = `${label}/${size}`;
      if (!shapes.has(key)) {
        const { color, path, hollow } = marker(label, size);
        shapes.set(key, [color, new Path2D(path), hollow]);
      }
      const [color, shape, hollow] = shapes.get(key);
      context.save();
      context.translate(...this.place(at));
      context.globalAlpha = alpha;
      context.fillStyle = context.strokeStyle = color;
      context.lineWidth = 1.5;
      if (hollow) context.stroke(shape);
      else context.fill(shape);
      context.restore();
    };
    const ring = (at, size, thick) => {
      context.beginPath();
      context.arc(...this.place(at), size, 0, 2 * Math.PI);
      context.strokeStyle = ink;
      context.lineWidth = thick;
      context.stroke();
    };
    const all = this.points.ids.keys();
    const faint = this.near.size ? 0.5 : 0.75;
    for (const at of all) put(at, radius, this.hides(at) ? 0.06 : faint);
    this.points.ids.forEach((id, at) => {
      if (!this.near.has(id) || this.hides(at)) return;
      put(at, radius + 1, 1);
      ring(at, radius + 3, 1.25);
    });
    const asked = this.points.ids.indexOf(this.asked);
    if (asked >= 0) {
      put(asked, radius + 3, 1);
      ring(asked, radius + 6, 2.5);
    }
    if (this.at >= 0) {
      put(this.at, radius + 2.5, 1);
      ring(this.at, radius + 5, 2);
    }
  }

  hides(at) {
    return this.only !== null && first(this.points.labels[at]) !== this.only;
  }

  find(event) {
    if (!this.points) return -1;
    const box = this.canvas.getBoundingClientRect();
    return this.nearest(event.clientX - box.left, event.clientY - box.top, REACH);
  }

  nearest(x, y, reach, allowed = () => true) {
    let best = -1;
    let least = reach * reach;
    for (let at = 0; at < this.points.ids.length; at++) {
      const [left, top] = this.place(at);
      const away = (left - x) ** 2 + (top - y) ** 2;
      if (away < least && !this.hides(at) && allowed(left - x, top - y, at)) [best, least] = [at, away];
    }
    return best;
  }

  start() {
    if (!this.points) return -1;
    return this.nearest(this.canvas.clientWidth / 2, this.canvas.clientHeight / 2, Infinity);
  }

  point(at, say = false) {
    if (at === this.at) return;
    this.at = at;
    this.draw();
    const tip = $("tip");
    tip.hidden = at < 0;
    if (at < 0) return;
    const [x, y] = this.place(at);
    const [id, label] = [this.points.ids[at], this.points.labels[at]];
    const name = `id ${id}`;
    tip.replaceChildren(...[this.points.images[at] ? this.picture({ id }) : null, chip(label), element("span", { className: "hint", textContent: name })].filter(Boolean));
    const box = tip.getBoundingClientRect();
    const { clientWidth: width, clientHeight: height } = this.canvas;
    tip.style.left = `${x + 14 + box.width > width ? Math.max(0, x - 14 - box.width) : x + 14}px`;
    tip.style.top = `${Math.max(0, Math.min(height - box.height, y - box.height / 2))}px`;
    if (say) $("map-says").textContent = `${name}, class ${named(label)}`;
  }

  press(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!this.points) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.search(this.at);
    } else if (event.key === "Escape") this.point(-1);
    else if (event.key in ways) {
      event.preventDefault();
      const [right, down] = ways[event.key];
      if (this.at < 0) return void this.point(this.start(), true);
      const [x, y] = this.place(this.at);
      // The nearest point that lies more in this direction than across it, and not under the current point.
      const next = this.nearest(x, y, Infinity, (dx, dy, at) => {
        const along = dx * right + dy * down;
        return at !== this.at && along > 1 && Math.abs(dx * down) + Math.abs(dy * right) <= along;
      });
      if (next >= 0) this.point(next, true);
    }
  }

  search(at) {
    if (at >= 0) this.choose(this.points.ids[at]);
  }

  makeLegend() {
    const labels = new Set(this.points.labels.map(first).filter((label) => label !== null && label !== undefined));
    const shown = [...labels].sort((a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b));
    if (!labels.has(this.only)) this.only = null;
    const entry = (label) => {
      const button = element("button", { type: "button" }, chip(label));
      button.setAttribute("aria-pressed", String(label === this.only));
      button.addEventListener("click", () => {
        this.only = this.only === label ? null : label;
        for (const other of $("legend").querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(this.only === label));
        this.draw();
        this.nameClasses();
      });
      return element("li", {}, button);
    };
    $("legend").replaceChildren(...shown.map(entry));
    this.classes = shown;
  }

  // Writes the name of each class at the median of its points, where there is room.
  nameClasses() {
    $("names").replaceChildren();
    if (!this.points) return;
    const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    const taken = [];
    for (const label of this.classes) {
      if (this.only !== null && this.only !== label) continue;
      const members = [...this.points.ids.keys()].filter((at) => first(this.points.labels[at]) === label);
      const name = element("span", { textContent: named(label) });
      name.style.left = `calc(50% + ${middle(members.map((at) => this.points.x[at]))} * (50% - ${PADDING}px))`;
      name.style.top = `calc(50% - ${middle(members.map((at) => this.points.y[at]))} * (50% - ${PADDING}px))`;
      $("names").append(name);
      const frame = this.canvas.getBoundingClientRect();
      let box = name.getBoundingClientRect();
      name.style.marginLeft = `${Math.max(0, frame.left - box.left) - Math.max(0, box.right - frame.right)}px`;
      box = name.getBoundingClientRect();
      if (taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)) name.remove();
      else taken.push(box);
    }
  }
}

/** An image: zoom at the pointer, pan, pinch, brightness and contrast that stay from item to item. */
import { h, say, kbd } from "./dom.js";
import { media } from "./api.js";

const LOADED = new Map();
const KEPT = 12;
const look = { brightness: 1, contrast: 1, invert: false };

/** Fetched and decoded ahead, so that showing it takes no time. */
export function preload(item) {
  if (!LOADED.has(item)) {
    const image = new Image();
    image.src = media(item);
    image.ready = image.decode().catch(() => { image.broken = true; });
    LOADED.set(item, image);
    if (LOADED.size > KEPT) LOADED.delete(LOADED.keys().next().value);
  }
  return LOADED.get(item);
}

export class ImageView {
  constructor(item) {
    this.image = preload(item);
    this.image.alt = say("image_alt", { item });
    this.image.draggable = false;
    this.scale = 1;
    this.x = this.y = 0;
    this.pointers = new Map();
    this.frame = h("div", { class: "frame" }, this.image);
    this.element = h("div", { class: "imageview" }, this.frame, this.tools());
    this.listen();
    this.image.ready.then(() => this.image.broken && this.missing());
    this.draw();
  }

  tools() {
    const button = (key, shown, action) =>
      h("button", { type: "button", class: "tool", title: `${say(key)}`, "aria-label": say(key), onclick: action }, shown);
    const slider = (key) => {
      const input = h("input", { type: "range", min: 0.3, max: 2.5, step: 0.05, "aria-label": say(key), title: say(key) });
      input.value = look[key];
      input.addEventListener("input", () => { look[key] = Number(input.value); this.draw(); });
      return h("label", { class: "slide" }, h("span", { "aria-hidden": "true" }, key === "brightness" ? "☀" : "◐"), input);
    };
    this.sliders = { brightness: slider("brightness"), contrast: slider("contrast") };
    return h("div", { class: "tools", role: "group", "aria-label": say("image_tools") },
      button("zoom_out", "−", () => this.zoom(1 / 1.3)), button("zoom_in", "+", () => this.zoom(1.3)),
      button("fit", "⤢", () => this.fit()), this.sliders.brightness, this.sliders.contrast,
      button("invert", "◪", () => this.invert()), button("reset", "↺", () => this.reset()));
  }

  listen() {
    const frame = this.frame;
    frame.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event);
    }, { passive: false });
    frame.addEventListener("dblclick", (event) => (this.scale > 1 ? this.fit() : this.zoom(2.5, event)));
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, event);
    });
    const up = (event) => this.pointers.delete(event.pointerId);
    frame.addEventListener("pointerup", up);
    frame.addEventListener("pointercancel", up);
    frame.addEventListener("pointermove", (event) => this.moved(event));
  }

  moved(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const others = [...this.pointers.values()].filter((p) => p.pointerId !== event.pointerId);
    if (others.length === 1) {
      const [other] = others;
      const apart = (p) => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY);
      this.zoom(apart(event) / Math.max(1, apart(before)), event);
    } else if (others.length === 0 && this.scale > 1) this.pan(event.clientX - before.clientX, event.clientY - before.clientY);
    this.pointers.set(event.pointerId, event);
  }

  zoom(factor, at) {
    const scale = Math.min(20, Math.max(1, this.scale * factor));
    const box = this.frame.getBoundingClientRect();
    const [px, py] = at ? [at.clientX - box.left - box.width / 2, at.clientY - box.top - box.height / 2] : [0, 0];
    this.x = px - ((px - this.x) * scale) / this.scale;
    this.y = py - ((py - this.y) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.draw();
  }

  fit() {
    this.scale = 1;
    this.draw();
  }

  invert() {
    look.invert = !look.invert;
    this.draw();
  }

  reset() {
    Object.assign(look, { brightness: 1, contrast: 1, invert: false });
    this.fit();
  }

  adjust(what, by) {
    look[what] = Math.min(2.5, Math.max(0.3, look[what] + by));
    this.draw();
  }

  draw() {
    const far = (this.scale - 1) / 2;
    const width = this.frame.clientWidth, height = this.frame.clientHeight;
    this.x = this.scale === 1 ? 0 : Math.max(-far * width, Math.min(far * width, this.x));
    this.y = this.scale === 1 ? 0 : Math.max(-far * height, Math.min(far * height, this.y));
    this.image.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    this.image.style.filter = `brightness(${look.brightness}) contrast(${look.contrast}) invert(${look.invert ? 1 : 0})`;
    for (const [what, label] of Object.entries(this.sliders)) label.querySelector("input").value = look[what];
  }

  key(event) {
    const step = 60;
    const actions = {
      "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3), f: () => this.fit(), r: () => this.reset(),
      i: () => this.invert(), b: () => this.adjust("brightness", 0.1), B: () => this.adjust("brightness", -0.1),
      c: () => this.adjust("contrast", 0.1), C: () => this.adjust("contrast", -0.1),
      ArrowLeft: () => this.pan(step, 0), ArrowRight: () => this.pan(-step, 0),
      ArrowUp: () => this.pan(0, step), ArrowDown: () => this.pan(0, -step),
    };
    if (event.key.startsWith("Arrow") && this.scale === 1) return false;
    const action = actions[event.key];
    action?.();
    return Boolean(action);
  }

  missing() {
    this.frame.replaceChildren(h("p", { class: "quiet" }, say("image_missing")));
  }
}

export const imageKeys = () => [
  [["+", "−"], "zoom_in"], [["F"], "fit"], [["←", "↑", "→", "↓"], "key_pan"],
  [["B", "⇧B"], "brightness"], [["C", "⇧C"], "contrast"], [["I"], "invert"], [["R"], "reset"],
].map(([keys, text]) => h("div", {}, h("dt", {}, keys.map(kbd)), h("dd", {}, say(text))));

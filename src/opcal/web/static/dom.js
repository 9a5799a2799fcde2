/** Small helpers: elements without innerHTML, so that text stays text whatever it holds. */
import { T } from "./texts.js";

export function h(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat().filter(Boolean));
  return made;
}

/** A text of texts.json with its {gaps} filled. */
export function say(key, gaps = {}) {
  const text = T[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in gaps ? String(gaps[name]) : whole));
}

/** A text whose gap holds a name that may run right to left. */
export const name = (text) => h("bdi", {}, text);

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u00a0%`;

export const kbd = (key) => h("kbd", { "aria-hidden": "true" }, key);

export function toast(text) {
  const place = document.getElementById("toast");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => place.classList.remove("shown"), 4000);
}

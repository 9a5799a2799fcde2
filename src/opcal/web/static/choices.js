/** The class buttons with their keys; above ten classes a search box that answers with Enter. */
import { h, say, kbd } from "./dom.js";

export const FEW = 10;
const SHOWN = 50;
const keyOf = (index) => (index === 9 ? "0" : String(index + 1));

export function buttons(classes, predicted, earlier, choose) {
  return h("div", { class: `choices n${Math.min(classes.length, 5)}` }, classes.map((text, index) =>
    h("button", {
      type: "button", class: `class${index === predicted ? " predicted" : ""}${index === earlier ? " earlier" : ""}`,
      "aria-keyshortcuts": keyOf(index), onclick: () => choose(index),
    }, kbd(keyOf(index)), h("bdi", {}, text), index === predicted ? h("span", { class: "dot", title: say("model_says") }, h("span", { class: "unseen" }, ` (${say("model_says")})`)) : null)));
}

export function verdicts(choose) {
  return h("div", { class: "choices n2" },
    h("button", { type: "button", class: "class", "aria-keyshortcuts": "1", onclick: () => choose(true) }, kbd("1"), h("span", {}, say("right"))),
    h("button", { type: "button", class: "class", "aria-keyshortcuts": "2", onclick: () => choose(false) }, kbd("2"), h("span", {}, say("wrong"))));
}

/** Which of few classes a key means; -1 for none. */
export const classOfKey = (key, count) => (/^[0-9]$/.test(key) ? [(Number(key) + 9) % 10].find((i) => i < count) ?? -1 : -1);

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

export class Search {
  constructor(classes, predicted, choose) {
    this.classes = classes.map((text, index) => ({ text, index, key: folded(text) }));
    this.choose = choose;
    this.at = 0;
    this.list = h("ul", { id: "classes", role: "listbox", "aria-label": say("search_classes"), class: "found" });
    this.input = h("input", {
      type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "classes", "aria-autocomplete": "list",
      "aria-label": say("search_classes"), placeholder: say("search_classes"), autocomplete: "off", spellcheck: "false",
      "aria-describedby": "search-hint", class: "search",
    });
    this.count = h("span", { class: "unseen", role: "status" });
    this.input.addEventListener("input", () => { this.at = 0; this.draw(); });
    this.input.addEventListener("keydown", (event) => this.key(event));
    const guess = predicted === null || predicted === undefined ? null : this.classes[predicted];
    this.predicted = guess?.index ?? -1;
    this.element = h("div", { class: "searching" }, this.input, this.count, this.list, h("p", { class: "quiet", id: "search-hint" }, say("search_hint")));
    this.draw();
  }

  get found() {
    const wanted = folded(this.input.value.trim());
    const hits = this.classes.filter((c) => c.key.includes(wanted));
    const rank = (c) => (c.key === wanted ? 0 : c.key.startsWith(wanted) ? 1 : 2) - (wanted === "" && c.index === this.predicted ? 3 : 0);
    return hits.sort((a, b) => rank(a) - rank(b) || a.index - b.index).slice(0, SHOWN);
  }

  draw() {
    const found = this.found;
    this.at = Math.min(this.at, Math.max(0, found.length - 1));
    this.list.replaceChildren(...found.map((c, i) => h("li", {
      role: "option", id: `class-${c.index}`, "aria-selected": i === this.at ? "true" : "false",
      class: c.index === this.predicted ? "predicted" : "", onclick: () => this.choose(c.index),
    }, h("bdi", {}, c.text))));
    this.count.textContent = found.length ? say("search_found", { n: found.length }) : say("search_none");
    if (found.length) this.input.setAttribute("aria-activedescendant", `class-${found[this.at].index}`);
    else this.input.removeAttribute("aria-activedescendant");
    this.list.children[this.at]?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves) {
      this.at = Math.max(0, Math.min(this.found.length - 1, this.at + moves[event.key]));
      this.draw();
    } else if (event.key === "Enter" && this.found.length && !event.isComposing) this.choose(this.found[this.at].index);
    else if (event.key === "Escape") this.input.blur();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

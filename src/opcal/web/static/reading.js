/** A text to read, with highlights that are kept in the browser and those that came with it as <mark>. */
import { h, say, kbd } from "./dom.js";

const KEY = (item) => `opcal.highlights.${location.host}.${item}`;

export class TextView {
  constructor(item, text) {
    this.item = item;
    const { plain, given } = withoutMarks(text);
    this.text = plain;
    this.given = given;
    this.body = h("div", { class: "reading", tabindex: "0", role: "document", "aria-label": item });
    const button = h("button", { type: "button", class: "tool wide", title: say("highlight_hint"), onclick: () => this.mark() }, say("highlight"), kbd("H"));
    button.addEventListener("mousedown", (event) => event.preventDefault()); // keeps the selection
    this.element = h("div", { class: "textview" }, this.body, h("div", { class: "tools" }, button));
    this.draw();
  }

  get own() {
    try {
      return JSON.parse(localStorage.getItem(KEY(this.item)) ?? "[]");
    } catch {
      return [];
    }
  }

  keep(ranges) {
    try {
      localStorage.setItem(KEY(this.item), JSON.stringify(ranges));
    } catch { /* highlights are a help, not an answer */ }
    this.draw();
  }

  mark() {
    const selection = getSelection();
    if (selection.isCollapsed || !this.body.contains(selection.anchorNode)) return;
    const range = selection.getRangeAt(0);
    const before = range.cloneRange();
    before.selectNodeContents(this.body);
    before.setEnd(range.startContainer, range.startOffset);
    const start = before.toString().length;
    this.keep([...this.own, [start, start + range.toString().length]]);
    selection.removeAllRanges();
  }

  draw() {
    const own = this.own;
    const cuts = [...new Set([0, this.text.length, ...own.flat(), ...this.given.flat()])].filter((c) => c <= this.text.length).sort((a, b) => a - b);
    const within = (ranges, at) => ranges.findIndex(([from, to]) => from <= at && at < to);
    this.body.replaceChildren(...cuts.slice(0, -1).map((from, i) => {
      const part = this.text.slice(from, cuts[i + 1]);
      const mine = within(own, from);
      if (mine >= 0) return h("mark", { class: "own", onclick: () => this.keep(own.filter((_, j) => j !== mine)) }, part);
      return within(this.given, from) >= 0 ? h("mark", {}, part) : part;
    }));
  }

  key(event) {
    if (event.key !== "h") return false;
    this.mark();
    return true;
  }
}

/** <mark>…</mark> becomes a range; every other tag stays the text that it is. */
function withoutMarks(text) {
  const given = [];
  let plain = "", open = -1;
  for (const part of text.split(/(<mark>|<\/mark>)/)) {
    if (part === "<mark>" && open < 0) open = plain.length;
    else if (part === "</mark>" && open >= 0) { given.push([open, plain.length]); open = -1; }
    else plain += part;
  }
  return { plain, given };
}

export function linkView(link) {
  return h("div", { class: "textview" }, h("p", { class: "reading" },
    h("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, say("open_link", { link }))));
}

export function tableView(columns) {
  return h("div", { class: "tableview", tabindex: "0", role: "region", "aria-label": say("columns") }, h("table", {}, h("caption", { class: "unseen" }, say("columns")), h("tbody", {},
    columns.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, name)), h("td", {}, h("bdi", {}, value)))))));
}

/**
 * Answers on their way. They lie in the browser's storage from the key press until the server has stored them, are
 * sent in order, and again after a reload, a restart of the server or a cut network. Each has an id of its own, so
 * that sending twice is one answer.
 */
import { Failed, post } from "./api.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8000;
const PATHS = { answer: "/api/answers", undo: "/api/undo" };

export class Outbox {
  constructor(key, { changed, refused }) {
    this.key = `opcal.outbox.${key}`;
    this.changed = changed;
    this.refused = refused;
    this.memory = null;
    this.pause = FIRST_PAUSE;
    this.sending = false;
    this.trouble = 0;
    addEventListener("online", () => this.soon());
    addEventListener("focus", () => this.soon());
    addEventListener("storage", (event) => event.key === this.key && this.changed());
    addEventListener("beforeunload", (event) => this.memory?.length && event.preventDefault());
  }

  get waiting() {
    if (this.memory) return this.memory;
    try {
      return JSON.parse(localStorage.getItem(this.key) ?? "[]");
    } catch {
      return [];
    }
  }

  keep(list) {
    try {
      localStorage.setItem(this.key, JSON.stringify(list));
      this.memory = null;
    } catch {
      this.memory = list; // storage is full or forbidden: kept for as long as the page is open
    }
    this.changed();
  }

  add(kind, body) {
    this.keep([...this.waiting, { kind, body }]);
    this.soon();
  }

  remove(id) {
    this.keep(this.waiting.filter((entry) => entry.body.id !== id));
  }

  /** Items with an answer on its way that was not taken back. */
  get items() {
    const undone = new Set(this.waiting.filter((e) => e.kind === "undo").map((e) => e.body.answer));
    return new Set(
      this.waiting.filter((e) => e.kind === "answer" && !undone.has(e.body.id)).map((e) => e.body.item),
    );
  }

  soon() {
    clearTimeout(this.timer);
    this.pause = FIRST_PAUSE;
    this.flush();
  }

  async flush() {
    if (this.sending) return;
    this.sending = true;
    try {
      for (let next = this.waiting[0]; next; next = this.waiting[0]) {
        await this.send(next);
        this.remove(next.body.id);
        this.trouble = 0;
        this.pause = FIRST_PAUSE;
      }
    } catch (error) {
      this.trouble = error.status || -1;
      this.timer = setTimeout(() => this.flush(), this.pause);
      this.pause = Math.min(LONGEST_PAUSE, 2 * this.pause);
    } finally {
      this.sending = false;
      this.changed();
    }
  }

  async send(entry) {
    try {
      await post(PATHS[entry.kind], entry.body);
    } catch (error) {
      const hopeless = error instanceof Failed && [404, 409, 413, 422].includes(error.status);
      if (!hopeless) throw error;
      this.refused(entry, error.message);
    }
  }
}

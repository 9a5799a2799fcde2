/** The labelling page: the next item, the answer, and nothing in the way. */
import { Failed, get, newId, post, signedIn } from "./api.js";
import { FEW, Search, buttons, classOfKey, verdicts } from "./choices.js";
import { h, kbd, name, percent, say, toast } from "./dom.js";
import { ImageView, imageKeys, preload } from "./image.js";
import { Outbox } from "./outbox.js";
import { listen } from "./panel.js";
import { TextView, linkView, tableView } from "./reading.js";

const AHEAD = 4;
const AGAIN = 8000;
const byId = (id) => document.getElementById(id);
const setting = (key, value) => (value === undefined ? localStorage.getItem(`opcal.${key}`) : localStorage.setItem(`opcal.${key}`, value));

const page = { me: null, outbox: null, queue: [], revisited: null, mine: [], view: null, choice: null, note: "", mode: "classes", singles: true, fetching: false, done: false, cut: false, empty: false };

const current = () => page.revisited ?? page.queue[0] ?? null;

async function start() {
  page.mode = setting("mode") ?? "classes";
  page.singles = setting("singles") !== "off";
  try {
    page.me = await signedIn();
  } catch (error) {
    byId("stage").replaceChildren(h("p", { class: "quiet" }, error.status === 0 ? say("offline_no_more") : error.message));
    if (error.status === 0) setTimeout(start, 3000);
    return;
  }
  setting("last", `opcal.outbox.${page.me.session}.${page.me.name}`);
  navigator.serviceWorker?.register("/sw.js").catch(() => {}); // without it a reload needs the server
  page.outbox = new Outbox(`${page.me.session}.${page.me.name}`, { changed: sync, refused });
  extras();
  dialogs();
  addEventListener("keydown", keys);
  listen(byId("panel"));
  page.outbox.flush();
  await Promise.all([remember(), more()]);
}

/** Ask for items until enough are at hand; none is shown whose answer is on its way. */
async function more() {
  if (page.fetching || page.done) return;
  page.fetching = true;
  clearTimeout(page.timer);
  const before = page.outbox.items;
  try {
    const { tasks, done } = await post("/api/lease", { k: Math.min(64, AHEAD + before.size) });
    const taken = new Set([...before, ...page.outbox.items, ...page.queue.map((t) => t.item)]);
    const fresh = tasks.filter((task) => !taken.has(task.item) && !page.mine.some((m) => m.fresh && m.item === task.item));
    page.cut = false;
    page.empty = !fresh.length;
    page.done = done && !page.outbox.waiting.length;
    const idle = current() === null;
    page.queue.push(...fresh);
    if (idle) show();
  } catch (error) {
    page.cut = error.status === 0 || error.status >= 500;
    if (current() === null) show(error instanceof Failed && !page.cut ? error.message : "");
  } finally {
    page.fetching = false;
    ahead();
  }
  if (page.queue.length < AHEAD && !page.done) page.timer = setTimeout(more, page.cut ? 2000 : page.queue.length ? AGAIN : 2000);
}

const ahead = () => page.queue.slice(0, AHEAD).forEach((task) => task.kind === "image" && preload(task.item));

async function remember() {
  const { waiting } = page.outbox, undone = new Set(waiting.filter((e) => e.kind === "undo").map((e) => e.body.answer));
  page.mine = waiting.filter((e) => e.kind === "answer" && !undone.has(e.body.id)).map(({ body }) => ({ ...body, said: wording(body, null), at: new Date().toISOString(), fresh: true })).reverse();
  try {
    const stored = (await get("/api/mine")).filter((s) => !undone.has(s.id));
    const known = new Set(page.mine.map((m) => m.item));
    page.mine.push(...stored.filter((s) => !known.has(s.item)).map((s) => ({ id: s.id, item: s.item, said: s.said, note: s.note, at: s.at })));
  } catch { /* the list is filled at the next reload; undo asks the server anyway */ }
}

function show(trouble = "") {
  const task = current();
  const stage = byId("stage");
  page.note = "";
  page.choice = null;
  stage.setAttribute("aria-busy", "false");
  if (!task) {
    page.view = null;
    const text = trouble || (page.done ? say("done") : page.cut ? say("offline_no_more") : page.empty ? say("others_busy") : say("loading"));
    stage.replaceChildren(h("div", { class: `rest${page.done ? " over" : ""}` }, h("p", { class: "lead" }, text), page.done && h("p", { class: "quiet" }, say("done_more"))));
    byId("about").replaceChildren();
    byId("answer").replaceChildren();
    return;
  }
  page.view = viewOf(task);
  stage.replaceChildren(...page.view.parts);
  page.view.image?.draw();
  about(task);
  answers(task);
  document.body.dataset.item = task.item;
}

function viewOf(task) {
  const table = task.columns.length ? tableView(task.columns) : null;
  if (task.kind === "image") {
    const image = new ImageView(task.item);
    return { image, key: (e) => image.key(e), parts: [image.element, table].filter(Boolean) };
  }
  if (task.text !== null && task.kind !== "link") {
    const text = new TextView(task.item, task.text);
    return { key: (e) => text.key(e), parts: [text.element, table].filter(Boolean) };
  }
  const parts = [task.kind === "link" && linkView(task.text), table].filter(Boolean);
  return { key: () => false, parts: parts.length ? parts : [h("p", { class: "quiet" }, say("nothing_shown"))] };
}

function about(task) {
  const predicted = task.predicted === null ? h("span", { class: "chip" }, say("hidden_prediction"))
    : h("span", { class: "chip" }, `${say("model_says")} `, h("b", {}, name(page.me.classes[task.predicted])), ` · ${say("sure", { percent: percent(task.confidence) })}`);
  const back = page.revisited && h("span", { class: "chip back" }, say("going_back"), task.said ? ` (${say("earlier_answer", { said: task.said })})` : "", " ", h("button", { type: "button", onclick: leave }, say("going_back_leave")));
  byId("about").replaceChildren(h("span", { class: "id", title: task.item }, name(task.item)), ...[back, predicted, task.opinion > 1 && h("span", { class: "chip" }, say("second_opinion", { n: task.opinion }))].filter(Boolean));
}

const byVerdict = (task) => page.mode === "right" && task.predicted !== null;

function answers(task) {
  const { classes } = page.me;
  const earlier = task.label ?? -1;
  let main;
  if (byVerdict(task)) main = verdicts((correct) => give({ correct }));
  else if (classes.length <= FEW) main = buttons(classes, task.predicted, earlier, (label) => give({ label }));
  else {
    page.choice = new Search(classes, task.predicted, (label) => give({ label }));
    main = page.choice.element;
  }
  const other = (key, text, action) => h("button", { type: "button", class: "other", "aria-keyshortcuts": key, onclick: action }, kbd(key), say(text));
  const note = h("button", { type: "button", class: "other", id: "note-button", "aria-keyshortcuts": "N", "aria-expanded": "false", onclick: openNote }, kbd("N"), say("note"));
  byId("answer").replaceChildren(main, h("div", { class: "others" }, other("T", "cant_tell", () => give({ skip: true })), other("O", "outside", () => give({ label: -1 })), note));
  if (page.choice && matchMedia("(pointer: fine)").matches) page.choice.input.focus({ preventScroll: true });
}

function openNote() {
  const open = byId("note");
  if (open) { open.querySelector("textarea").focus(); return; }
  const area = h("textarea", { rows: 2, maxlength: 10000, "aria-label": say("note_label"), "aria-describedby": "note-hint" });
  area.value = page.note;
  const close = () => { box.remove(); byId("note-button").setAttribute("aria-expanded", "false"); byId("note-button").focus(); };
  area.addEventListener("input", () => { page.note = area.value; });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey))) { event.preventDefault(); close(); }
    event.stopPropagation();
  });
  const box = h("div", { class: "note", id: "note" }, area, h("button", { type: "button", onclick: close }, say("note_close")), h("p", { class: "quiet", id: "note-hint" }, say("note_hint")));
  byId("answer").append(box);
  byId("note-button").setAttribute("aria-expanded", "true");
  area.focus();
}

function wording(answer, task) {
  if (answer.skip) return say("cant_tell");
  if (answer.correct !== undefined) return answer.correct ? page.me.classes[task?.predicted] ?? say("right") : say("wrong");
  return answer.label === -1 ? say("outside") : page.me.classes[answer.label];
}

function give(answer) {
  const task = current();
  if (!task) return;
  const pressed = performance.now();
  const id = newId(), note = page.note.trim() || null;
  const before = page.mine.find((m) => m.item === task.item);
  page.mine = [{ id, item: task.item, said: wording(answer, task), note, at: new Date().toISOString(), task: { ...task }, before, fresh: true }, ...page.mine.filter((m) => m !== before)];
  if (page.revisited) page.revisited = null;
  else page.queue.shift();
  page.outbox.add("answer", { id, item: task.item, note, ...answer });
  show();
  // What the eye waits for: the frame in which the next item is painted.
  requestAnimationFrame(() => setTimeout(() => performance.measure("opcal next item", { start: pressed, end: performance.now() }), 0));
  if (page.queue.length < AHEAD) more();
}

async function undo() {
  const [last, ...rest] = page.mine;
  if (!last) { toast(say("nothing_to_undo")); return; }
  page.mine = last.before ? [last.before, ...rest] : rest;
  page.outbox.add("undo", { id: newId(), answer: last.id });
  page.done = false;
  toast(say(last.before ? "undone_earlier" : "undone", { item: last.item }));
  const task = last.task ?? (await itemOf(last.item));
  if (!task) return;
  delete task.said;
  delete task.label;
  if (last.before) page.revisited = { ...task, said: last.before.said };
  else page.queue = [task, ...page.queue.filter((t) => t.item !== task.item)];
  show();
}

async function itemOf(item) {
  try {
    return await get(`/api/item?item=${encodeURIComponent(item)}`);
  } catch (error) {
    toast(error.message);
    return null;
  }
}

async function goBack(entry) {
  byId("history").close();
  const task = entry.task ?? (await itemOf(entry.item));
  if (!task) return;
  const label = page.me.classes.indexOf(entry.said);
  page.revisited = { ...task, said: entry.said, label };
  show();
}

function leave() {
  page.revisited = null;
  show();
}

function refused(entry, why) {
  page.mine = page.mine.filter((m) => m.id !== entry.body.id);
  toast(say("refused", { item: entry.body.item ?? "", why }));
}

function sync() {
  const { length } = page.outbox.waiting, place = byId("sync");
  const { trouble } = page.outbox;
  const lost = length && trouble === 401 || trouble === 403;
  const text = lost ? say("signed_out") : length === 0 ? say("saved") : trouble ? say(length === 1 ? "waiting_one" : "waiting_many", { n: length }) : say("saving");
  if (place.textContent !== text) place.textContent = text;
  place.dataset.state = length === 0 ? "saved" : trouble ? "waiting" : "saving";
  place.dataset.waiting = String(length);
}

function extras() {
  const tool = (key, text, action) => h("button", { type: "button", class: "extra", "aria-keyshortcuts": key, onclick: action }, kbd(key), say(text));
  const modes = ["classes", "right"].map((mode) => h("button", { type: "button", class: "extra", "aria-pressed": String(page.mode === mode), onclick: () => setMode(mode) }, say(`mode_${mode}`)));
  byId("extras").replaceChildren(tool("U", "undo", undo), tool("A", "my_answers", openHistory), h("span", { class: "modes", role: "group", "aria-label": say("mode_label") }, kbd("M"), modes), h("span", { class: "grow" }), tool("?", "help", openHelp));
  sync();
}

function setMode(mode) {
  page.mode = mode;
  setting("mode", mode);
  extras();
  if (current()) { answers(current()); }
}

function dialogs() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

function openHistory() {
  const waiting = new Set(page.outbox.waiting.map((entry) => entry.body.id));
  const rows = page.mine.map((m) => h("li", {}, h("button", { type: "button", title: say("history_change", { item: m.item }), onclick: () => goBack(m) },
    name(m.item), h("b", {}, name(m.said)), m.note && h("i", {}, name(m.note)), h("time", { datetime: m.at }, waiting.has(m.id) ? say("history_waiting") : new Date(m.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })))));
  open("history", h("h2", { id: "history-title" }, say("history_title")), rows.length ? h("ol", { class: "list" }, rows) : h("p", { class: "quiet" }, say("history_none")));
}

function openHelp() {
  const many = page.me.classes.length > FEW;
  const row = (key, text) => h("div", {}, h("dt", {}, kbd(key)), h("dd", {}, say(text)));
  const singles = h("input", { type: "checkbox", checked: page.singles });
  singles.addEventListener("change", () => { page.singles = singles.checked; setting("singles", page.singles ? "on" : "off"); });
  open("help", h("h2", { id: "help-title" }, say("help_title")), h("dl", { class: "keylist" }, many ? row("/", "key_search") : row("1…0", "key_classes"),
    row("T", "cant_tell"), row("O", "outside"), row("N", "note"), row("U", "undo"), row("A", "my_answers"), row("M", "key_mode"), row("H", "highlight"), imageKeys()),
  h("label", { class: "check" }, singles, say("help_single")));
}

function open(id, ...content) {
  const dialog = byId(id);
  dialog.replaceChildren(...content, h("form", { method: "dialog" }, h("button", { class: "button" }, say("close"))));
  dialog.showModal();
}

/** One key, one answer; never while somebody writes, and only where single keys are wanted. */
function keys(event) {
  if (document.querySelector("dialog[open]") || event.altKey || event.repeat && !event.key.startsWith("Arrow")) return;
  const empty = page.choice && document.activeElement === page.choice.input && page.choice.input.value === "";
  const writing = document.activeElement?.matches("input[type=text], textarea, select");
  if ((event.ctrlKey || event.metaKey) && event.key === "z" && (!writing || empty)) { event.preventDefault(); undo(); return; }
  if (event.ctrlKey || event.metaKey || writing || !page.singles) return;
  // Arrows belong to what has the focus: a slider, or the panel, which scrolls where the screen is low.
  const slider = document.activeElement?.matches("input[type=range], #panel") && event.key.startsWith("Arrow");
  if (!slider && act(event)) event.preventDefault();
}

function act(event) {
  const task = current();
  const always = { u: undo, a: openHistory, "?": openHelp, m: () => setMode(page.mode === "right" ? "classes" : "right") };
  const atItem = { t: () => give({ skip: true }), o: () => give({ label: -1 }), n: openNote, Escape: page.revisited ? leave : null, "/": () => page.choice?.input.focus() };
  const action = always[event.key] ?? (task ? atItem[event.key] : null);
  if (action) { action(); return true; }
  if (!task) return false;
  if (byVerdict(task) && ["1", "2"].includes(event.key)) { give({ correct: event.key === "1" }); return true; }
  const index = byVerdict(task) || page.choice ? -1 : classOfKey(event.key, page.me.classes.length);
  if (index >= 0) { give({ label: index }); return true; }
  return page.view.key(event);
}

start();

/** The owner's overview. */
import { get, newId, post, signedIn, thumbnail } from "./api.js";
import { h, name, percent, say, toast } from "./dom.js";
import { listen } from "./panel.js";
import { tableView, TextView } from "./reading.js";
import { ImageView } from "./image.js";

const byId = (id) => document.getElementById(id);
let me = null;
let seen = -1;

/** Below the heading of a card. */
function fill(id, ...content) {
  const [heading, ...rest] = byId(id).children;
  const hint = rest.find((child) => child.tagName === "P" && child.dataset.kept !== "no" && id === "clusters");
  byId(id).replaceChildren(heading, ...(hint ? [hint] : []), ...content.flat());
  for (const child of content.flat()) child.dataset.kept = "no";
}

async function draw() {
  const found = await get("/api/overview");
  tiles(found.status);
  mistakes(found);
  clusters(found);
  await Promise.all([disagreements(), people(found)]);
}

function tiles(status) {
  const tile = (value, text) => h("div", { class: "tile" }, h("strong", {}, value), h("span", {}, text));
  const of = status.budget === null ? String(status.answered) : `${status.answered} / ${status.budget}`;
  byId("progress").replaceChildren(tile(status.items.toLocaleString("en"), say("stat_items")), tile(of, say("stat_answered")), tile(String(status.labelled), say("stat_labelled")),
    tile(String(status.audited), say("stat_random")), tile(String(status.skipped), say("stat_skipped")), tile(String(status.disputed), say("stat_disputed")));
}

const picture = (item, pictures) => (pictures ? h("img", { src: thumbnail(item), alt: item, loading: "lazy", width: 96, height: 96 }) : h("span", { class: "noimage" }, name(item)));

function mistakes({ mistakes: found, pictures }) {
  if (!found.length) { fill("mistakes", h("p", { class: "quiet" }, say("mistakes_none"))); return; }
  fill("mistakes", h("ul", { class: "gallery" }, found.map((m) => h("li", {}, picture(m.item, pictures), h("p", {}, h("b", {}, name(m.item)),
    h("span", {}, say("mistake_says", { predicted: m.predicted, before: percent(m.before) })), h("span", { class: "bad" }, say("mistake_is", { answer: m.answer })), h("span", { class: "quiet" }, say("calibrated_to", { after: percent(m.after) })))))));
}

function clusters({ clusters: found, pictures }) {
  fill("clusters", h("ol", { class: "groups" }, found.map((c, i) => h("li", {}, h("div", { class: "strip" }, c.examples.map((item) => picture(item, pictures))),
    h("p", {}, h("b", {}, say("cluster", { n: i + 1 })), h("span", { class: "quiet" }, say("cluster_items", { n: c.size }))), meter(c),
    h("p", { class: "quiet" }, `${say("cluster_before", { before: percent(c.before) })} · ${say("cluster_after", { after: percent(c.after) })} · ${say("cluster_found", c)}`)))));
}

function meter(cluster) {
  const bar = h("div", { class: "meter", "aria-hidden": "true" }, h("i", { class: "after" }), h("i", { class: "claim" }));
  bar.children[0].style.width = `${100 * cluster.after}%`;
  bar.children[1].style.left = `${100 * cluster.before}%`;
  return bar;
}

async function disagreements() {
  const found = await get("/api/disagreements");
  if (!found.length) { fill("disagreements", h("p", { class: "quiet" }, say("disagreements_none"))); return; }
  fill("disagreements", h("ul", { class: "disputes" }, found.map(({ task, opinions }) => h("li", {}, h("div", { class: "exhibit" }, exhibit(task)), h("div", {},
    h("p", {}, h("b", {}, name(task.item))), h("ul", {}, opinions.map(([who, said]) => h("li", {}, name(who), ": ", h("b", {}, name(said))))), decision(task, opinions))))));
}

function exhibit(task) {
  if (task.kind === "image") return new ImageView(task.item).element;
  if (task.text) return new TextView(task.item, task.text).element;
  return tableView(task.columns);
}

function decision(task, opinions) {
  const select = h("select", { "aria-label": `${say("your_answer")}: ${task.item}` }, me.classes.map((text, index) => h("option", { value: index, selected: opinions.length && opinions[0][1] === text }, text)), h("option", { value: -1 }, say("outside")));
  return h("form", { class: "decide", onsubmit: async (event) => {
    event.preventDefault();
    await told(post("/api/decide", { id: newId(), item: task.item, label: Number(select.value) }), say("decided", { item: task.item }));
    await draw();
  } }, select, h("button", { class: "button" }, say("decide")));
}

async function people({ status, agreement }) {
  const errors = agreement.errors;
  const links = me.role === "owner" ? await get("/api/people") : [];
  const known = new Map(links.map((p) => [p.name, p]));
  const everybody = [...new Set([...known.keys(), ...Object.keys(status.annotators)])];
  const cell = (text) => h("td", {}, text);
  const rows = everybody.map((who) => h("tr", {}, h("th", { scope: "row" }, name(who)), cell(say(`role_${known.get(who)?.role ?? "annotator"}`)), h("td", { class: "number" }, String(status.annotators[who] ?? 0)),
    h("td", { class: "number" }, who in errors ? percent(errors[who]) : "–"), me.role === "owner" && h("td", {}, known.has(who) && actions(known.get(who)))));
  const head = ["person", "role", "answers", "errors", ...(me.role === "owner" ? ["link"] : [])].map((key) => h("th", { scope: "col" }, say(key)));
  const kappas = Object.entries(agreement.kappa).map(([pair, value]) => `${say("kappa")} ${pair}: ${value === null ? "–" : value.toFixed(2)}`);
  fill("people", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("people") }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))),
    h("p", {}, h("b", {}, `${say("agreement")}: `), agreement.items ? say("agreement_alpha", { alpha: agreement.alpha === null ? "–" : agreement.alpha.toFixed(2), n: agreement.items }) : say("agreement_none"), kappas.length ? ` · ${kappas.join(" · ")}` : ""),
    me.role === "owner" ? [adder()] : []);
}

function actions(person) {
  const copy = async () => {
    const link = new URL(person.link, location.href).href;
    try {
      await navigator.clipboard.writeText(link);
      toast(say("copied"));
    } catch { prompt(say("copy"), link); }
  };
  const renew = async () => {
    await told(post("/api/people/renew", { name: person.name }), say("renewed", person));
    await draw();
  };
  return [h("button", { type: "button", class: "small", "aria-label": `${say("copy")}: ${person.name}`, onclick: copy }, say("copy")), person.role !== "owner" && h("button", { type: "button", class: "small", "aria-label": `${say("renew")}: ${person.name}`, onclick: renew }, say("renew"))].filter(Boolean);
}

function adder() {
  const input = h("input", { type: "text", maxlength: 100, required: true, "aria-label": say("person"), placeholder: say("person") });
  const role = h("select", { "aria-label": say("role") }, ["annotator", "arbiter"].map((r) => h("option", { value: r }, say(`role_${r}`))));
  return h("form", { class: "decide", onsubmit: async (event) => {
    event.preventDefault();
    await told(post("/api/people", { name: input.value, role: role.value }), say("add_person"));
    await draw();
  } }, h("b", {}, `${say("add_person")}: `), input, role, h("button", { class: "button" }, say("add")));
}

async function told(work, text) {
  try {
    await work;
    toast(text);
  } catch (error) {
    toast(error.message);
  }
}

me = await signedIn();
await draw();
let timer = null;
listen(byId("worth"), (panel) => {
  if (panel.answered === seen || byId("main").contains(document.activeElement)) return;
  clearTimeout(timer);
  timer = setTimeout(draw, seen < 0 ? 0 : 1500);
  seen = panel.answered;
});

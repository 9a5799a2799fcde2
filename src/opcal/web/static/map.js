/** The field on a canvas: one pixel block an item, drawn into an image at once, so that 100,000 move smoothly. */
import { ask, get, media, signedIn } from "./api.js";
import { h, name, percent, say } from "./dom.js";

const byId = (id) => document.getElementById(id);
const canvas = byId("canvas");
const context = canvas.getContext("2d");
const state = { xy: null, colour: null, by: "confidence", scale: 1, x: 0, y: 0, picked: -1, frame: 0, dark: matchMedia("(prefers-color-scheme: dark)").matches };

/** Colour scales as 256 packed pixels each; the two ends stay apart for every kind of colour vision. */
const ramps = {
  confidence: ramp([[0, [213, 94, 0]], [0.5, [230, 190, 90]], [1, [0, 114, 148]]]),
  correction: ramp([[0, [213, 94, 0]], [0.46, [235, 170, 130]], [0.5, [150, 156, 166]], [0.54, [120, 170, 210]], [1, [0, 90, 181]]]),
};

function ramp(stops) {
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const v = i / 255, j = Math.max(1, stops.findIndex(([at]) => at >= v));
    const [a, from] = stops[j - 1], [b, to] = stops[j];
    const [r, g, bl] = from.map((c, k) => Math.round(c + ((to[k] - c) * (v - a)) / (b - a)));
    return (255 << 24) | (bl << 16) | (g << 8) | r;
  });
}

const answersRamp = () => {
  const grey = state.dark ? 0xff5a4a44 : 0xffc8c2bc;
  return Uint32Array.from({ length: 256 }, (_, i) => [grey, 0xff947200, 0xff005ed5][i] ?? grey);
};

async function start() {
  const me = await signedIn();
  const raw = await (await ask("/api/map/points")).arrayBuffer();
  state.xy = new Uint16Array(raw);
  canvas.setAttribute("aria-label", say("map_canvas", { n: (state.xy.length / 2).toLocaleString("en") }));
  choices();
  await colour("confidence");
  new ResizeObserver(resize).observe(canvas);
  listen();
  document.body.dataset.ready = me.name;
}

function choices() {
  const fieldset = byId("by");
  for (const by of ["confidence", "correction", "answers"]) {
    const input = h("input", { type: "radio", name: "by", value: by, checked: by === state.by });
    input.addEventListener("change", () => colour(by));
    fieldset.append(h("label", {}, input, say(`map_${by}`)));
  }
  byId("whole").addEventListener("click", () => { Object.assign(state, { scale: 1, x: 0, y: 0 }); draw(); });
}

async function colour(by) {
  state.by = by;
  state.colour = new Uint8Array(await (await ask(`/api/map/colours?by=${by}`)).arrayBuffer());
  const chip = (kind, text) => h("span", { class: `key ${kind}` }, h("i", { "aria-hidden": "true" }), text);
  const bar = (low, high) => [h("span", {}, say(low)), h("i", { class: `ramp ${by}`, "aria-hidden": "true" }), h("span", {}, say(high))];
  byId("legend").replaceChildren(...(by === "answers" ? [chip("m-right", say("map_right")), chip("m-wrong", say("map_wrong")), chip("m-none", say("map_unlabelled"))]
    : by === "confidence" ? bar("map_low", "map_high") : bar("map_less", "map_more")));
  draw();
}

function resize() {
  const ratio = Math.min(2, devicePixelRatio);
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  state.pixels = context.createImageData(canvas.width, canvas.height);
  state.words = new Uint32Array(state.pixels.data.buffer);
  draw();
}

const place = () => {
  const margin = 0.06, w = canvas.width, hgt = canvas.height;
  return { ax: (w * (1 - 2 * margin) * state.scale) / 65535, bx: w / 2 + state.x - (w * (1 - 2 * margin) * state.scale) / 2,
    ay: (-hgt * (1 - 2 * margin) * state.scale) / 65535, by: hgt / 2 + state.y + (hgt * (1 - 2 * margin) * state.scale) / 2 };
};

function draw() {
  cancelAnimationFrame(state.frame);
  state.frame = requestAnimationFrame(paint);
}

function paint() {
  if (!state.words || !state.colour) return;
  const begun = performance.now();
  const { xy, colour: values, words } = state, w = canvas.width, hgt = canvas.height;
  const { ax, bx, ay, by } = place();
  const table = state.by === "answers" ? answersRamp() : ramps[state.by];
  const n = xy.length / 2;
  const size = Math.max(2, Math.min(13, Math.round((n > 20000 ? 2 : n > 3000 ? 3 : 8) * Math.sqrt(state.scale) * Math.min(2, devicePixelRatio) * 0.8)));
  words.fill(0);
  // Larger points are round: how far each row of a block is indented.
  const indents = (s) => Array.from({ length: s }, (_, row) => (s < 5 ? 0 : Math.max(0, Math.round(s / 2 - Math.sqrt(Math.max(0, (s / 2) ** 2 - (row + 0.5 - s / 2) ** 2)) - 0.3))));
  const shapes = { [size]: indents(size), [size + 3]: indents(size + 3) };
  const dot = (i, s) => {
    const px = Math.round(ax * xy[2 * i] + bx - s / 2), py = Math.round(ay * xy[2 * i + 1] + by - s / 2);
    if (px < 0 || py < 0 || px + s > w || py + s > hgt) return;
    const value = table[values[i]];
    const shape = shapes[s];
    for (let row = 0, at = py * w + px; row < s; row += 1, at += w) words.fill(value, at + shape[row], at + s - shape[row]);
  };
  if (state.by !== "answers") for (let i = 0; i < n; i += 1) dot(i, size);
  else {
    for (let i = 0; i < n; i += 1) if (values[i] === 0) dot(i, size);
    for (let i = 0; i < n; i += 1) if (values[i] !== 0) dot(i, size + 3);
  }
  context.putImageData(state.pixels, 0, 0);
  if (state.picked >= 0) ring(ax * xy[2 * state.picked] + bx, ay * xy[2 * state.picked + 1] + by);
  if (canvas.matches(":focus-visible")) cross(w / 2, hgt / 2);
  performance.measure("opcal map", { start: begun, end: performance.now() });
}

function ring(x, y) {
  context.lineWidth = 3;
  context.strokeStyle = state.dark ? "#fff" : "#111";
  context.beginPath();
  context.arc(x, y, 11, 0, 7);
  context.stroke();
}

function cross(x, y) {
  context.lineWidth = 1;
  context.strokeStyle = state.dark ? "#fff" : "#111";
  context.beginPath();
  context.moveTo(x - 10, y);
  context.lineTo(x + 10, y);
  context.moveTo(x, y - 10);
  context.lineTo(x, y + 10);
  context.stroke();
}

function zoom(factor, px = canvas.width / 2, py = canvas.height / 2) {
  const scale = Math.min(60, Math.max(1, state.scale * factor)), by = scale / state.scale;
  state.x = (px - canvas.width / 2) * (1 - by) + state.x * by;
  state.y = (py - canvas.height / 2) * (1 - by) + state.y * by;
  state.scale = scale;
  draw();
}

function nearest(px, py) {
  const { ax, bx, ay, by } = place();
  let best = -1, least = Infinity;
  for (let i = 0; i < state.xy.length / 2; i += 1) {
    const dx = ax * state.xy[2 * i] + bx - px, dy = ay * state.xy[2 * i + 1] + by - py, d = dx * dx + dy * dy;
    if (d < least) { least = d; best = i; }
  }
  return best;
}

async function pick(px, py) {
  state.picked = nearest(px, py);
  draw();
  const found = await get(`/api/map/item?position=${state.picked}`);
  const row = (key, value) => h("div", {}, h("dt", {}, say(key)), h("dd", {}, value));
  byId("chosen").replaceChildren(...[h("h2", {}, name(found.item)), found.kind === "image" && h("img", { class: "picked", src: media(found.item), alt: say("image_alt", { item: found.item }) }),
    found.text && h("p", { class: "reading" }, found.text.slice(0, 2000)),
    h("dl", { class: "facts" }, row("map_predicted", name(found.predicted)), row("map_claims", percent(found.before)), row("map_honest", percent(found.after)), row("map_label", found.answer === null ? say("map_unlabelled") : name(found.answer)), found.columns.map(([key, value]) => h("div", {}, h("dt", {}, name(key)), h("dd", {}, name(value)))))].filter(Boolean));
}

function listen() {
  let from = null, moved = 0;
  const ratio = () => canvas.width / canvas.clientWidth;
  canvas.addEventListener("pointerdown", (e) => { from = e; moved = 0; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", (e) => {
    if (!from) return;
    const dx = (e.clientX - from.clientX) * ratio(), dy = (e.clientY - from.clientY) * ratio();
    moved += Math.abs(dx) + Math.abs(dy);
    state.x += dx;
    state.y += dy;
    from = e;
    draw();
  });
  canvas.addEventListener("pointerup", (e) => { from = null; if (moved < 6) pick(e.offsetX * ratio(), e.offsetY * ratio()); });
  canvas.addEventListener("wheel", (e) => { e.preventDefault(); zoom(Math.exp(-e.deltaY / 300), e.offsetX * ratio(), e.offsetY * ratio()); }, { passive: false });
  canvas.addEventListener("keydown", (e) => {
    const step = 60, moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (e.key in moves) { state.x += moves[e.key][0]; state.y += moves[e.key][1]; draw(); }
    else if (e.key === "+" || e.key === "=") zoom(1.4);
    else if (e.key === "-") zoom(1 / 1.4);
    else if (e.key === "Enter") pick(canvas.width / 2, canvas.height / 2);
    else return;
    e.preventDefault();
  });
  for (const type of ["focus", "blur"]) canvas.addEventListener(type, draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (e) => { state.dark = e.matches; draw(); });
}

start();

/** Small diagrams as SVG. Colours come from the style sheet, words from texts.json. */
import { say, svg } from "./dom.js";

const W = 280, H = 150;
const PAD = { left: 34, right: 10, top: 10, bottom: 28 };
const inner = { w: W - PAD.left - PAD.right, h: H - PAD.top - PAD.bottom };

function frame(title, xs, ys, xText, toX, toY) {
  const ticks = [
    ...ys.map(([v, text]) => [svg("line", { class: "grid", x1: PAD.left, x2: W - PAD.right, y1: toY(v), y2: toY(v) }),
      svg("text", { x: PAD.left - 6, y: toY(v) + 3.5, "text-anchor": "end" }, document.createTextNode(text))]),
    ...xs.map(([v, text]) => [svg("text", { x: toX(v), y: H - PAD.bottom + 14, "text-anchor": "middle" }, document.createTextNode(text))]),
  ];
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "chart", role: "img", "aria-label": title }, ticks.flat(),
    svg("text", { x: PAD.left + inner.w / 2, y: H - 2, "text-anchor": "middle", class: "axis" }, document.createTextNode(xText)));
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** Share right against confidence, before and after, with exact bands. */
export function reliability(data) {
  const toX = (v) => PAD.left + v * inner.w, toY = (v) => PAD.top + (1 - v) * inner.h;
  const marks = [[0, "0"], [0.5, ".5"], [1, "1"]];
  const made = frame(say("reliability_desc"), marks, marks, say("confidence"), toX, toY);
  made.append(svg("text", { x: toX(0) + 5, y: toY(1) + 11, class: "axis" }, document.createTextNode(`↑ ${say("share_right")}`)));
  made.append(svg("line", { class: "ideal", x1: toX(0), y1: toY(0), x2: toX(1), y2: toY(1) }));
  for (const kind of ["before", "after"]) {
    const of = data[kind];
    const at = of.confidence.map((c, i) => [toX(c), toY(of.accuracy[i]), toY(of.lower[i]), toY(of.upper[i])]).filter((p) => p.every(Number.isFinite));
    made.append(svg("g", { class: kind },
      at.map(([x, , low, high]) => svg("line", { class: "whisker", x1: x, x2: x, y1: low, y2: high })),
      svg("path", { class: "line", d: path(at) }),
      at.map(([x, y]) => svg("circle", { cx: x, cy: y, r: 3.2 }))));
  }
  return made;
}

/** The share that one would act on, and the share expected to be wrong, as labels grow. */
export function efficiency(points, budget, title) {
  const most = Math.max(budget ?? 0, ...points.map((p) => p.labels), 1);
  const toX = (v) => PAD.left + (v / most) * inner.w, toY = (v) => PAD.top + (1 - v) * inner.h;
  const made = frame(title, [[0, "0"], [most, String(most)]], [[0, "0"], [0.5, "50 %"], [1, "100 %"]], say("labels_axis"), toX, toY);
  for (const [kind, value] of [["sure", "sure"], ["wrong", "wrong"]]) {
    const at = points.map((p) => [toX(p.labels), toY(p[value])]);
    const [x, y] = at[at.length - 1];
    const area = `${path(at)}L${x.toFixed(1)} ${toY(0)}L${at[0][0].toFixed(1)} ${toY(0)}Z`;
    made.append(svg("g", { class: kind }, svg("path", { class: "area", d: area }), svg("path", { class: "line", d: path(at) }), svg("circle", { cx: x, cy: y, r: 3.2 })));
  }
  return made;
}

/** One line: the measured interval as a bar, and where expectation and the model's claim lie. */
export function scale(measured, expected, claimed) {
  const height = 46, left = 6, width = W - 12;
  const low = Math.min(0.5, ...[measured?.lower, expected, claimed].filter((v) => Number.isFinite(v))) - 0.02;
  const start = Math.max(0, Math.floor(low * 10) / 10);
  const toX = (v) => left + ((v - start) / (1 - start)) * width;
  const made = svg("svg", { viewBox: `0 0 ${W} ${height}`, class: "chart scale", role: "presentation" },
    svg("line", { class: "rail", x1: left, x2: left + width, y1: 18, y2: 18 }));
  const step = start < 0.35 ? 0.2 : 0.1;
  for (let v = 1; v > start - 0.001; v -= step) made.append(svg("text", { x: toX(v), y: 42, "text-anchor": v > 0.99 ? "end" : v < start + 0.01 ? "start" : "middle" }, document.createTextNode(`${Math.round(100 * v)}`)));
  if (measured) made.append(svg("rect", { class: "interval", x: toX(measured.lower), width: Math.max(2, toX(measured.upper) - toX(measured.lower)), y: 12, height: 12, rx: 6 }));
  if (Number.isFinite(claimed)) made.append(svg("path", { class: "claimed", d: `M${toX(claimed)} 8l-5-7h10z` }));
  if (Number.isFinite(expected)) made.append(svg("line", { class: "expected", x1: toX(expected), x2: toX(expected), y1: 8, y2: 28 }));
  if (measured) made.append(svg("circle", { class: "measured", cx: toX(measured.estimate), cy: 18, r: 5 }));
  return made;
}

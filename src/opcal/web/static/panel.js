/** The side panel: what the labels are worth, drawn again whenever the server tells something new. */
import { efficiency, reliability, scale } from "./charts.js";
import { h, percent, say } from "./dom.js";

export function listen(place, changed = () => {}) {
  let source = null;
  const begin = () => {
    source = new EventSource("/api/live");
    source.onmessage = (event) => {
      const panel = JSON.parse(event.data);
      draw(place, panel);
      changed(panel);
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(begin, 5000);
    };
  };
  draw(place, null);
  begin();
}

export function draw(place, panel) {
  if (!panel) {
    place.replaceChildren(h("h2", {}, say("panel")), h("p", { class: "quiet" }, say("panel_wait")));
    return;
  }
  place.replaceChildren(h("h2", {}, say("panel")), progress(panel), ...(panel.hidden ? [h("p", { class: "quiet" }, say("panel_hidden"))] : figures(panel)));
}

function progress(panel) {
  const { answered, budget } = panel;
  const bar = h("progress", { max: budget ?? Math.max(answered, 1), value: answered, "aria-label": say("progress") });
  const rest = [panel.seconds_left === null || panel.done ? "" : say("time_left", { time: time(panel.seconds_left) }), say("mine", { n: panel.mine })].filter(Boolean);
  return h("div", { class: "progress" },
    h("p", { class: "big" }, h("strong", {}, String(answered)), h("span", {}, budget ? ` / ${budget} ` : " ", say("labels_word"))),
    bar, h("p", { class: "quiet" }, rest.join(" · ")));
}

export function time(seconds) {
  if (seconds < 60) return say("under_a_minute");
  return seconds < 5400 ? say("minutes", { n: Math.round(seconds / 60) }) : say("hours", { n: Math.round(seconds / 3600) });
}

function figures(panel) {
  const { measured, expected, claimed, threshold } = panel;
  if (claimed === undefined) return [h("p", { class: "quiet" }, say("panel_wait"))];
  const legend = (kind, text, value) => h("span", { class: `key ${kind}` }, h("i", { "aria-hidden": "true" }), `${text} `, h("b", {}, value));
  const shown = [h("section", { class: "figure" }, h("h3", {}, say("accuracy")),
    measured ? h("p", { class: "big" }, h("strong", {}, percent(measured.estimate)), h("span", {}, ` ${say("between", { low: percent(measured.lower), high: percent(measured.upper) })}`)) : h("p", { class: "quiet" }, say("measure_soon", { n: panel.audited })),
    scale(measured, expected, claimed),
    h("p", { class: "keys" }, measured && legend("measured", say("measured"), percent(measured.estimate)), expected !== null && legend("expected", say("expected"), percent(expected)), legend("claimed", say("claimed"), percent(claimed))),
    measured && h("p", { class: "plainly" }, sentence(measured, claimed), " ", h("span", {}, ahead(measured))))];
  shown.push(h("section", { class: "figure" }, h("h3", {}, say("efficiency")), efficiency(panel.efficiency, panel.budget, threshold === null ? say("efficiency_costs") : say("efficiency_desc", { threshold: percent(threshold) })),
    h("p", { class: "keys" }, legend("sure", threshold === null ? say("sure_by_costs") : say("sure_of", { threshold: percent(threshold) }), percent(last(panel).sure)), legend("wrong", say("sure_wrong"), percent(last(panel).wrong, 1)))));
  shown.push(h("section", { class: "figure" }, h("h3", {}, say("reliability")),
    panel.reliability ? [reliability(panel.reliability), h("p", { class: "keys" }, legend("before", say("before"), ""), legend("after", say("after"), ""))]
      : h("p", { class: "quiet" }, say("reliability_wait", { n: panel.audited }))));
  return shown;
}

/** Half an interval above which a claim inside it was not put to the test. */
const TOO_WIDE = 0.1;

const last = (panel) => panel.efficiency[panel.efficiency.length - 1];
const points = (share) => (100 * share).toFixed(share < 0.0995 ? 1 : 0);

function sentence(measured, claimed) {
  const gaps = { claimed: percent(claimed), measured: percent(measured.estimate) };
  const inside = claimed >= measured.lower && claimed <= measured.upper;
  if (inside && measured.half > TOO_WIDE) return say("sentence_claim_open", gaps);
  if (claimed > measured.upper) return say("sentence_claim_high", gaps);
  return say(claimed < measured.lower ? "sentence_claim_low" : "sentence_claim_fair", gaps);
}

const ahead = (measured) => (measured.more > 0
  ? say("sentence_more", { n: measured.more, now: points(measured.half), then: points(measured.half_then) })
  : say("sentence_done", { now: points(measured.half) }));

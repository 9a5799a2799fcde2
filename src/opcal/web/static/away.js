/** What stands here while the server is away: how many answers wait in this browser. The page comes back by itself. */
import { h, name, say } from "./dom.js";

const LOOK = 3000;
const SHOWN = 12;

function waiting() {
  try {
    const list = JSON.parse(localStorage.getItem(localStorage.getItem("opcal.last")) ?? "[]");
    return list.filter((entry) => entry.kind === "answer");
  } catch {
    return [];
  }
}

function draw() {
  const answers = waiting(), { length } = answers;
  const count = length === 0 ? say("away_none") : say(length === 1 ? "waiting_one" : "waiting_many", { n: length });
  document.getElementById("away").replaceChildren(
    h("img", { src: "/static/icon.svg", alt: "", width: 48, height: 48 }),
    h("h1", {}, say("away")),
    h("p", { class: "lead", id: "waiting", "data-waiting": String(length) }, count),
    h("p", { class: "quiet" }, answers.slice(0, SHOWN).flatMap(({ body }, i) => [i ? ", " : "", name(body.item)]), length > SHOWN ? " …" : ""),
    h("p", { class: "quiet" }, say("away_back")));
}

/** Any answer will do: a server that asks to sign in again says so itself. */
async function look() {
  try {
    await fetch("/api/me", { signal: AbortSignal.timeout(LOOK), credentials: "same-origin" });
    location.reload();
  } catch {
    setTimeout(look, LOOK);
  }
}

draw();
addEventListener("storage", draw);
addEventListener("online", look);
setTimeout(look, LOOK);

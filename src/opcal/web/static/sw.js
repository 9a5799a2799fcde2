/**
 * Brings the page up when the server is away, so that waiting answers are seen and not feared for. It keeps SHELL, a few
 * public files without a word about sessions, people or items, and nothing else: no item, no image, no answer, no link.
 * Everything goes to the server first; what is kept is used only where nobody answers.
 */
const KEPT = "opcal-shell-VERSION";
const AWAY = "/static/away.html";
const SHELL = [AWAY, "/static/away.js", "/static/dom.js", "/static/texts.js", "/static/texts.json", "/static/style.css", "/static/icon.svg"];
const PAGES = ["/", "/overview", "/map"];
/** The mark of opcal's own pages: another program may come to this port one day. */
const MARK = "x-opcal-page";

addEventListener("install", (event) => {
  // Where the browser can, what is never kept does not even pass by here.
  event.addRoutes?.(["/api/*", "/media*", "/thumbnail*", "/in/*"].map((pathname) => ({ condition: { urlPattern: { pathname } }, source: "network" })));
  event.waitUntil(keep().then(() => skipWaiting()));
});

addEventListener("activate", (event) => event.waitUntil(forget((name) => name !== KEPT).then(() => clients.claim())));

addEventListener("fetch", (event) => {
  const { request } = event, { origin, pathname } = new URL(request.url);
  if (request.method !== "GET" || origin !== location.origin) return;
  if (request.mode === "navigate" && PAGES.includes(pathname)) event.respondWith(page(request));
  else if (SHELL.includes(pathname)) event.respondWith(part(request, pathname));
});

/** The page that tells of the server's absence must be whole even if somebody else answers by then. */
async function part(request, pathname) {
  const response = await fetch(request).catch(() => null);
  return response?.ok ? response : kept(pathname);
}

async function keep() {
  const cache = await caches.open(KEPT);
  await cache.addAll(SHELL.map((path) => new Request(path, { credentials: "omit", cache: "reload" })));
}

const kept = async (path) => (await (await caches.open(KEPT)).match(path)) ?? Response.error();

async function page(request) {
  let response;
  try {
    response = await fetch(request);
  } catch {
    return kept(AWAY);
  }
  if (response.ok && !response.headers.has(MARK)) await leave();
  return response;
}

/** Somebody else lives here now. */
async function leave() {
  await forget(() => true);
  await registration.unregister();
}

const forget = async (which) => Promise.all((await caches.keys()).filter((name) => name.startsWith("opcal-shell-") && which(name)).map((name) => caches.delete(name)));

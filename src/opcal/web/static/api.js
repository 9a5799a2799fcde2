/** Requests to the server. Each says for whom this page speaks; an error has `.status`, 0 where nobody answered. */
let speaker = null;

export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, body) {
  const headers = { accept: "application/json" };
  if (speaker !== null) headers["x-opcal-annotator"] = encodeURIComponent(speaker);
  const options = { headers, credentials: "same-origin", signal: AbortSignal.timeout(20000) };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw new Failed(0, String(error));
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Failed(response.status, told.error ?? String(response.status));
  }
  return response;
}

export const get = async (path) => (await ask(path)).json();
export const post = async (path, body) => (await ask(path, body)).json();

export async function signedIn() {
  const me = await get("/api/me");
  speaker = me.name;
  return me;
}

export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export const media = (item) => `/media?item=${encodeURIComponent(item)}`;
export const thumbnail = (item) => `/thumbnail?item=${encodeURIComponent(item)}`;

// Talks to the service: JSON by GET, and server-sent events read by fetch, since EventSource cannot send a token.
const KEY = "hedgerow-token";
const SILENCE = 25_000; // the service sends a comment every 10 s; after this long without a byte the line is dead
const WAITS = [500, 1000, 1500, 2000, 3000, 5000]; // between attempts, in ms; the last one again and again

export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }

  get needsToken() { return this.status === 401 || this.status === 403; }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
};

function headers(accept) {
  const given = token.get();
  return given ? { accept, authorization: `Bearer ${given}` } : { accept };
}

async function checked(response) {
  if (response.ok) return response;
  let text = `the service answered ${response.status}`;
  try {
    const problem = await response.json();
    text = problem.detail || problem.title || text;
  } catch { /* not JSON: the status says it */ }
  throw new ApiError(response.status, text);
}

export async function get(path) {
  const response = await fetch(path, { headers: headers("application/json"), cache: "no-store" });
  return (await checked(response)).json();
}

export async function post(path, body) {
  const sent = { ...headers("application/json"), "content-type": "application/json" };
  return (await checked(await fetch(path, { method: "POST", headers: sent, body: JSON.stringify(body) }))).json();
}

/** The path under which the service is reached, without a slash at its end: a proxy may add one. */
export const root = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
export const modelPath = (name) => `${root}/v1/models/${encodeURIComponent(name)}`;

/** Splits a stream of text into server-sent events; gives {event, data} for each that has data. */
export async function* messages(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const parts = (rest + value.replaceAll("\r", "")).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const message = { event: "message", data: [] };
      for (const line of part.split("\n")) {
        const [, field, text] = /^([^:]*):? ?(.*)$/.exec(line);
        if (field === "event") message.event = text;
        if (field === "data") message.data.push(text);
      }
      if (message.data.length) yield { event: message.event, data: JSON.parse(message.data.join("\n")) };
    }
  }
}

/**
 * Follows a stream for as long as the page is open, and begins again by itself when it breaks.
 * `begin` runs after every (re)connection, before the first event; `event` gets each event; `state` gets one of
 * "connecting", "live", "lost", "refused" with an error where there is one. "refused" (no right, no such model) is final;
 * a model that was there before is waited for, since a service that has just started may not have opened it yet.
 */
export function follow(path, { begin, event, state }) {
  let failures = 0;
  let seen = false;
  const isFinal = (error) => error instanceof ApiError && (error.needsToken || (error.status === 404 && !seen));
  const once = async () => {
    const abort = new AbortController();
    let timer;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), SILENCE);
    };
    try {
      alive();
      const options = { headers: headers("text/event-stream"), cache: "no-store", signal: abort.signal };
      const response = await checked(await fetch(path, options));
      await begin();
      failures = 0;
      seen = true;
      state("live");
      for await (const message of messages(response.body, alive)) event(message);
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  };
  const run = async () => {
    state("connecting");
    for (;;) {
      try {
        await once();
        state("lost");
      } catch (error) {
        if (isFinal(error)) return state("refused", error);
        state("lost", error);
      }
      await pause(WAITS[Math.min(failures++, WAITS.length - 1)]);
    }
  };
  run();
}

/** Waits, with a little chance in it so that many pages do not come back at once; ends early when the network is back. */
function pause(ms) {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      removeEventListener("online", go);
      resolve();
    };
    const timer = setTimeout(go, ms * (0.8 + 0.4 * Math.random()));
    addEventListener("online", go);
  });
}

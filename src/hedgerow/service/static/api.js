// Talks to the service: JSON by GET and POST.
const KEY = "hedgerow-token";
const TIMEOUT = 25_000; // ms; after this long without an answer the line is dead
const SLOWEST = 5000; // ms between attempts while the service does not answer

export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }

  get needsToken() { return this.status === 401 || this.status === 403; }
}

/** The password of the page's own address (user:TOKEN@host), which some browsers show to scripts. */
function tokenOfAddress() {
  const { password } = new URL(document.URL);
  return password.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16))) || null;
}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? tokenOfAddress(),
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

// No request may have an address with a password in it, as a path alone would where the page has one: hence the origin.
const address = (path) => location.origin + path;

export async function get(path) {
  const signal = AbortSignal.timeout(TIMEOUT);
  const response = await fetch(address(path), { headers: headers("application/json"), cache: "no-store", signal });
  return (await checked(response)).json();
}

export async function post(path, body) {
  const sent = { ...headers("application/json"), "content-type": "application/json" };
  return (await checked(await fetch(address(path), { method: "POST", headers: sent, body: JSON.stringify(body) }))).json();
}

/** The path under which the service is reached, without a slash at its end: a proxy may add one. */
export const root = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
export const modelPath = (name) => `${root}/v1/models/${encodeURIComponent(name)}`;

/**
 * Looks again and again for as long as the page is open, and goes on by itself when the service was away.
 * `look` asks for what is there now, `every` so many ms; `state` gets one of "connecting", "live", "lost", "refused", with
 * an error where there is one. "refused" (no right, no such model) is final; a model that was there before is waited for,
 * since a service that has just started may not have opened it yet.
 */
export async function follow({ look, every, state }) {
  let wait = every;
  let seen = false;
  const isFinal = (error) => error instanceof ApiError && (error.needsToken || (error.status === 404 && !seen));
  state("connecting");
  for (;;) {
    try {
      if (!document.hidden || !seen) {
        await look();
        seen = true;
        wait = every;
        state("live");
      }
    } catch (error) {
      if (isFinal(error)) return state("refused", error);
      wait = Math.max(every, Math.min(SLOWEST, 1.5 * wait));
      state("lost", error);
    }
    await pause(wait);
  }
}

/** Waits, with a little chance in it so that many pages do not come back at once; ends early when the page is looked at. */
function pause(ms) {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      removeEventListener("online", go);
      document.removeEventListener("visibilitychange", go);
      resolve();
    };
    const timer = setTimeout(go, ms * (0.8 + 0.4 * Math.random()));
    addEventListener("online", go);
    document.addEventListener("visibilitychange", go);
  });
}

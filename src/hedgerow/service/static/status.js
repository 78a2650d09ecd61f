// What is said about the connection, and the summary for screen readers.
import { ApiError } from "./api.js";
import { setText } from "./dom.js";
import { count, number, plural, ratio, share } from "./format.js";

const WORDS = {
  connecting: "connecting",
  live: "live",
  lost: "connection lost, trying again",
  refused: "no access",
};

/** An answer of the service is told in its words; where there was none, the connection is lost. */
export function connection(node, state, error) {
  node.dataset.state = state;
  const told = error instanceof ApiError && !error.needsToken ? error.message : null;
  if (told === null) setText(node, WORDS[state]);
  else setText(node, state === "lost" ? `${told}, trying again` : told);
}

const EVERY = 30_000; // ms between two summaries: often enough to follow, seldom enough to work beside it

/** One sentence, said politely every half minute, and at once when the number of alarms changes. */
export class Summary {
  constructor(node, name) {
    Object.assign(this, { node, name, said: 0, alarms: 0 });
  }

  tell(stats, alarms) {
    const now = Date.now();
    if (now - this.said < EVERY && alarms.length === this.alarms) return;
    Object.assign(this, { said: now, alarms: alarms.length });
    const recent = stats.window;
    const errors = stats.task === "numbers"
      ? [`error so far ${number(stats.rmse)}`, `${share(stats.inside)} of the labels inside their interval`]
      : [`mistakes so far ${share(ratio(stats.mistakes, stats.labels))}`,
        `${share(ratio(recent.mistakes, recent.labels))} of the newest ${count(recent.labels)}`];
    setText(this.node, [
      `${this.name}: ${plural(stats.events, "event")}, ${plural(stats.labels, "label")}`,
      ...errors,
      alarms.length ? `${plural(alarms.length, "alarm")}: ${alarms.map((alarm) => alarm.title).join(", ")}` : "no alarm",
    ].join("; ") + ".");
  }
}

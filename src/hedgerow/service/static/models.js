// The list of models. Asked for every two seconds; the numbers of a model are read again when it has moved.
import { follow, get, modelPath, root } from "./api.js";
import { datum, element, setDatum, setText } from "./dom.js";
import { NONE, count, number, ratio, share } from "./format.js";
import { connection } from "./status.js";
import { fillRows } from "./tables.js";
import { askForToken } from "./token.js";

const find = (id) => document.getElementById(id);
const details = new Map(); // name -> {moved, stats, alarms}

/** Window and alarms of a model; what did not move since is not asked for again. */
async function detail(model) {
  const moved = `${model.events}/${model.labels}/${model.ready}`;
  const known = details.get(model.name);
  if (!model.ready || known?.moved === moved) return known;
  const read = async (what) => get(`${modelPath(model.name)}/${what}`);
  const [stats, { alarms }] = await Promise.all([read("stats"), read("alarms")]);
  details.set(model.name, { moved, stats, alarms });
  return details.get(model.name);
}

function makeRow() {
  const cells = ["state", "method", "events", "labels", "mistakes", "window", "alarms"];
  return element(
    "tr", {},
    element("th", { scope: "row" }, element("a")),
    ...cells.map((name) => element("td", { class: name }, ["state", "method"].includes(name) ? "" : datum(null, ""))),
  );
}

function mistakes(node, wrong, of) {
  setDatum(node, wrong, of > 0 ? `${count(wrong)} (${share(ratio(wrong, of))})` : count(wrong));
}

function fill(tr, model) {
  const link = tr.cells[0].firstChild;
  setText(link, model.name);
  link.href = `${root}/models/${encodeURIComponent(model.name)}`;
  tr.dataset.name = model.name;
  const [, state, method, events, labels, wrong, recent, alarms] = tr.cells;
  setText(state, model.ready ? ["ready", model.notice].filter(Boolean).join(": ") : `not ready: ${model.error}`);
  state.dataset.state = model.ready ? "ready" : "waiting";
  setText(method, model.method ?? NONE);
  setDatum(events.firstChild, model.events, count(model.events));
  setDatum(labels.firstChild, model.labels, count(model.labels));
  const isNumbers = model.task === "numbers";
  const error = (rmse) => (rmse === null || rmse === undefined ? NONE : `RMSE ${number(rmse)}`);
  if (isNumbers) setDatum(wrong.firstChild, model.rmse, error(model.rmse));
  else mistakes(wrong.firstChild, model.mistakes, model.labels);
  const more = details.get(model.name);
  const window = more?.stats.window;
  if (window && isNumbers) setDatum(recent.firstChild, more.stats.recent_rmse, error(more.stats.recent_rmse));
  else if (window) mistakes(recent.firstChild, window.mistakes, window.labels);
  else setDatum(recent.firstChild, null, NONE);
  setDatum(alarms.firstChild, more?.alarms.length, more ? count(more.alarms.length) : NONE);
  alarms.dataset.any = Boolean(more?.alarms.length);
  alarms.title = more?.alarms.map((alarm) => alarm.title).join(", ") ?? "";
}

async function refresh() {
  const { models } = await get(`${root}/v1/models`);
  await Promise.allSettled(models.map(detail));
  find("first").hidden = models.length > 0;
  find("models").hidden = models.length === 0;
  fillRows(find("rows"), models, makeRow, fill);
}

setText(find("origin"), location.origin + root);
follow({
  look: refresh,
  every: 2000,
  state: (state, error) => {
    connection(find("connection"), state, error);
    if (error?.needsToken) askForToken(error);
  },
});

// The page of one model: reads the history once, then looks for what has changed.
import { follow, get, modelPath, root } from "./api.js";
import { showBalance, showCalibration, showLatency, showShifts, showTrust } from "./bars.js";
import { setDatum, setText } from "./dom.js";
import { NONE, count, number, plural, ratio, share } from "./format.js";
import { showAlarms } from "./alarms.js";
import { explains } from "./explain.js";
import { Summary, connection } from "./status.js";
import { NumberPanels, numberFacts } from "./numbers.js";
import { Calibration, HistoryPanels, SpeedPanels } from "./panels.js";
import { History, Watched } from "./series.js";
import { showExample } from "./example.js";
import { Latest } from "./tables.js";
import { askForToken } from "./token.js";

const find = (id) => document.getElementById(id);
const name = decodeURIComponent(location.pathname.slice(`${root}/models/`.length).replace(/\/$/, ""));
const path = modelPath(name);
const history = new History();
const watched = new Watched();
const latest = new Latest(find("latest-rows"));
const summary = new Summary(find("summary"), name);
const speed = new SpeedPanels(find);
let panels = null;
let calibration = null;
let shown = null; // what the last look found
let drawing = false;
const SHOWN = 20; // events in the table

document.title = `${name} · hedgerow`;
setText(find("name"), name);
setText(find("crumb"), name);
showExample(find("example"), name, null);

function facts(stats) {
  if (stats.task === "numbers") return setText(find("facts"), numberFacts(stats));
  return classFacts(stats);
}

function classFacts({ method, reading, features, classes, sources, experts }) {
  setText(find("facts"), [
    `method ${method}`, `reading ${reading}`, plural(features, "feature"), plural(classes.length, "class", "classes"),
    plural(sources.length, "source"), plural(experts.length, "expert"),
  ].join(" · "));
}

function tiles(stats) {
  const { labels, mistakes, bound, window: recent } = stats;
  const put = (id, value, text) => setDatum(find(id), value, text);
  put("events", stats.events, count(stats.events));
  put("labels", labels, count(labels));
  put("pending", stats.pending, count(stats.pending));
  put("expired", stats.expired, count(stats.expired));
  put("bound", bound, number(bound));
  setText(find("guarantee"), stats.guarantee);
  if (stats.task === "numbers") return;
  put("mistakes", mistakes, count(mistakes));
  put("rate-so-far", ratio(mistakes, labels), share(ratio(mistakes, labels)));
  put("window-labels", recent.labels, count(recent.labels));
  put("window-mistakes", recent.mistakes, count(recent.mistakes));
  put("rate-window", ratio(recent.mistakes, recent.labels), share(ratio(recent.mistakes, recent.labels)));
  const experts = Object.entries(stats.expert_mistakes);
  const [best, least] = labels ? experts.reduce((a, b) => (b[1] < a[1] ? b : a)) : [NONE, null];
  setText(find("best"), best);
  put("best-mistakes", least, count(least));
}

function render() {
  drawing = false;
  const { stats, latest: rows, alarms } = shown;
  const waiting = stats.events === 0;
  document.body.classList.toggle("empty", waiting);
  document.body.classList.toggle("unlabelled", stats.labels === 0);
  facts(stats);
  tiles(stats);
  showAlarms(find("alarms"), alarms);
  if (waiting) showExample(find("example"), name, stats);
  const isNumbers = stats.task === "numbers";
  document.body.classList.toggle("numbers", isNumbers);
  panels ??= isNumbers ? new NumberPanels(find, stats) : new HistoryPanels(find, stats);
  panels.show(history.until(stats), stats, rows);
  speed.show(watched);
  if (!isNumbers) ofClasses(stats);
  const experts = showTrust(find("trust-rows"), stats, find("all-experts").checked);
  setText(find("all-experts-text"), `Show all ${count(experts)} experts`);
  showShifts(find("shift-rows"), stats);
  showLatency(find("latency-rows"), stats.latency);
  latest.show(rows.slice(0, SHOWN));
  summary.tell(stats, alarms);
}

function ofClasses(stats) {
  calibration ??= new Calibration(find("calibration"));
  calibration.show(stats.calibration);
  const classes = showBalance(find("balance-rows"), stats, find("all-classes").checked);
  find("all-classes").parentElement.hidden = classes <= 12;
  showCalibration(find("calibration-rows"), stats.calibration);
}

function draw() {
  if (drawing || shown === null) return;
  drawing = true;
  requestAnimationFrame(render);
}

const COUNTS = ["events", "labels", "expired", "pending", "unknown_labels"];
const EACH = 25; // labels at least between two points of the history

/** Reads the stats, and what belongs to them if they have moved since the last look. */
async function look() {
  const stats = await get(`${path}/stats`);
  if (shown && COUNTS.every((count) => stats[count] === shown.stats[count])) return;
  const labels = stats.labels - (shown?.stats.labels ?? Infinity);
  const points = labels < 0 ? "history" : `history?n=${Math.ceil(labels / EACH) + 2}`;
  const [found, { events }, { alarms }] = await Promise.all(
    [points, "latest?n=100", "alarms"].map((what) => get(`${path}/${what}`)),
  );
  if (labels < 0) history.replace(found.points);
  else found.points.forEach((point) => history.add(point));
  shown = { stats, latest: events, alarms };
  watched.add(stats);
  draw();
}

explains(find, path, () => shown?.stats.feature_names);
for (const id of ["all-experts", "all-classes"]) find(id).addEventListener("change", draw);
follow({
  look,
  every: 1000,
  state: (state, error) => {
    connection(find("connection"), state, error);
    if (error?.needsToken) askForToken(error);
  },
});

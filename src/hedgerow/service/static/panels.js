// The charts of one model: which lines each has, and what is written beside them.
import { BY_LABELS, Chart } from "./charts.js";
import { count, milliseconds, moment, number, plural, share, tick } from "./format.js";
import { BOUND, LINES, MODEL, OTHER, Places, lineOf } from "./palette.js";
import { discrepancy, labels, ranked, soFar, weight, windowed } from "./series.js";

const NAMED = LINES.length; // experts with a line and a name of their own
const GREY = 40; // further experts, thin and grey; beyond that they would only be a smear
const PERCENT = { format: share, tick };
const SHORTEST = 60; // seconds on an axis of time
const NEAR = 2; // the guarantee is in the picture if it is below this many times the highest named line
const UNSETTLED = 0.25; // the part of the points, from the first on, whose rates jump too much to choose the axis by

/** Mistake rates of the model and its experts, and the guarantee where there is one. */
class Rates {
  constructor(root, what, read, experts) {
    this.read = read;
    this.grey = Math.min(experts, GREY);
    const lines = [
      ...Array.from({ length: this.grey }, () => ({ style: OTHER })),
      ...LINES.map((style) => ({ style, legend: true })),
      ...(read.bound ? [{ style: BOUND, legend: true, first: true }] : []),
      { style: MODEL, legend: true, name: "this model", first: true },
      { style: OTHER, legend: "name" },
    ];
    this.chart = new Chart(root, { what, x: BY_LABELS, y: { ...PERCENT, range: () => [0, this.top] }, lines });
    this.top = 1;
  }

  show(points, experts, places, guarantee) {
    const greys = Array.from({ length: this.grey }, (_, i) => this.read.expert(points, i));
    const empty = points.map(() => null);
    const named = places.map((name) => (name === null ? empty : this.read.expert(points, experts.indexOf(name))));
    const bound = this.read.bound ? [this.read.bound(points)] : [];
    const model = this.read.model(points);
    const columns = [...named, ...bound, model];
    this.top = axisEnd(points, columns, bound[0]);
    const others = experts.length - places.filter((name) => name !== null).length;
    const names = [
      ...greys.map(() => ""), ...places.map((name) => name ?? ""), ...(bound.length ? [guarantee] : []), "this model",
      others ? plural(others, "other expert") : "",
    ];
    this.chart.show([labels(points), ...greys, ...columns, empty], names, this.#above(greys, bound[0]?.at(-1)));
  }

  #above(greys, bound) {
    const over = greys.filter((column) => column.at(-1) > this.top).length;
    const above = bound > this.top ? `the guarantee (${share(bound)})` : "";
    const what = [over ? plural(over, "expert") : "", above].filter(Boolean);
    return what.length ? `Above the end of the axis: ${what.join(" and ")}.` : "";
  }
}

/** The end of an axis of rates: room for the named lines once they have settled, and for the guarantee if it is near. */
function axisEnd(points, columns, bound) {
  const from = Math.floor(UNSETTLED * points.length);
  const settled = columns.filter((column) => column !== bound).flatMap((column) => column.slice(from));
  const most = settled.reduce((top, v) => Math.max(top, v ?? 0), 0.05);
  const guarantee = bound?.at(-1) ?? 0;
  return Math.min(1, Math.ceil((guarantee < NEAR * most ? Math.max(most, guarantee) : most) * 1.1 * 20) / 20);
}

/** All charts that follow from the history. */
export class HistoryPanels {
  constructor(find, stats) {
    this.experts = stats.experts;
    this.sources = stats.sources;
    this.places = new Places(NAMED);
    const n = this.experts.length;
    const who = "of this model and its experts";
    this.soFar = new Rates(find("so-far"), `Mistakes so far ${who}, and the guarantee, in percent`, soFar, n);
    this.windowed = new Rates(find("windowed"), `Mistakes among the newest 200 labels ${who}, in percent`, windowed, n);
    this.weights = new Chart(find("weights"), {
      what: "Weight of the most trusted experts along the stream, in percent",
      x: BY_LABELS,
      y: { ...PERCENT, range: () => [0, 1] },
      lines: [...LINES.map((style) => ({ style, legend: true })), { style: OTHER, legend: true }],
    });
    this.discrepancy = new Chart(find("discrepancy"), {
      what: "Discrepancy between the stream and each source",
      x: BY_LABELS,
      y: { format: number },
      lines: this.sources.map((name, i) => ({ style: lineOf(i), legend: true, name })),
    });
  }

  show(points, stats) {
    const now = this.experts.map((name) => stats.weights[name] ?? 0);
    const order = ranked(now, points).map((i) => this.experts[i]);
    const places = this.places.update(order);
    const guarantee = stats.guarantee === "mistakes" ? "guarantee: at most" : `guarantee for the ${stats.guarantee}`;
    this.soFar.show(points, this.experts, places, guarantee);
    this.windowed.show(points, this.experts, places, guarantee);
    this.#weights(points, places);
    this.discrepancy.show([labels(points), ...this.sources.map((_, i) => discrepancy(points, i))]);
  }

  #weights(points, places) {
    const none = points.map(() => null);
    const named = places.map((name) => (name === null ? none : weight(points, this.experts.indexOf(name))));
    const rest = this.experts.map((name, i) => [name, i]).filter(([name]) => !places.includes(name)).map(([, i]) => i);
    const others = points.map((p) => rest.reduce((sum, i) => sum + p.weights[i], 0));
    const together = rest.length ? `${plural(rest.length, "other expert")} together` : "";
    const names = [...places.map((name) => name ?? ""), together];
    this.weights.show([labels(points), ...named, rest.length ? others : none], names);
  }
}

/** All times seen, and at least the last minute. */
function lately({ data: [at] }) {
  const last = at.at(-1) ?? Date.now() / 1000;
  return [Math.min(at[0] ?? last, last - SHORTEST), last];
}

/** Throughput and latency since the page was opened. */
export class SpeedPanels {
  constructor(find) {
    const x = { label: "time of day", format: moment, time: true, range: lately };
    const [first, second, third, fourth] = LINES;
    this.rate = new Chart(find("rate"), {
      what: "Events and labels a second, mean over the last minute",
      x,
      y: { format: number },
      lines: [
        { style: first, legend: true, name: "events a second" }, { style: second, legend: true, name: "labels a second" },
      ],
      height: 170,
    });
    this.latency = new Chart(find("latency"), {
      what: "Latency of predictions and labels in milliseconds, newest 1000 calls",
      x,
      y: { format: milliseconds },
      lines: [
        { style: first, legend: true, name: "predict, median" }, { style: second, legend: true, name: "predict, p99" },
        { style: third, legend: true, name: "label, median" }, { style: fourth, legend: true, name: "label, p99" },
      ],
      height: 170,
    });
  }

  show(watched) {
    const times = watched.times;
    const read = (kind, name) => watched.column((row) => row.latency?.[kind]?.[name]);
    this.rate.show([times, watched.column((row) => row.rate?.events), watched.column((row) => row.rate?.labels)]);
    const kinds = [["predict", "p50"], ["predict", "p99"], ["label", "p50"], ["label", "p99"]];
    this.latency.show([times, ...kinds.map(([kind, name]) => read(kind, name))]);
  }
}

/** Reliability: of the predictions that were this sure, how many were right; below, how many there were. */
export class Calibration {
  constructor(root) {
    const x = { label: "probability of the prediction", ...PERCENT, range: () => [0, 1] };
    this.chart = new Chart(root, {
      what: "Reliability diagram: share of right predictions by their probability",
      x,
      y: { ...PERCENT, range: () => [0, 1] },
      lines: [
        { style: { ...BOUND, spanGaps: true }, legend: "name", name: "perfectly calibrated" },
        { style: { ...LINES[0], points: true, spanGaps: true }, legend: "name", name: "share that was right" },
      ],
      height: 345,
      table: false,
    });
    this.counts = new Chart(root, {
      what: "Number of labelled predictions by their probability",
      x,
      y: { format: count, space: 24 },
      lines: [{ style: { ...LINES[0], bars: true, width: 1 }, legend: "name", name: "labelled predictions" }],
      height: 140,
      table: false,
    });
  }

  show(bins) {
    const filled = bins.filter((bin) => bin.count > 0);
    const at = [0, ...filled.map((bin) => bin.confidence), 1];
    this.chart.show([at, at, [null, ...filled.map((bin) => bin.right), null]]);
    this.counts.show([bins.map((bin) => (bin.from + bin.to) / 2), bins.map((bin) => bin.count)]);
  }
}

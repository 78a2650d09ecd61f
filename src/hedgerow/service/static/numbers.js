// The page of a model that predicts numbers: errors instead of mistakes, coverage instead of calibration.
import { BY_LABELS, Chart } from "./charts.js";
import { setDatum, setText } from "./dom.js";
import { NONE, count, number, plural, share, tick } from "./format.js";
import { EDGE, LINES, MODEL, OBSERVED, OTHER } from "./palette.js";

const OF_CLASSES = ["weights", "discrepancy", "balance", "calibration"]; // cards that numbers do not have
const TITLES = {
  "so-far-title": "Error so far (RMSE)", "windowed-title": "Labels inside their interval",
  "error-tile": "Error so far (RMSE)", "newest-tile": "Error, newest labels", "best-tile": "Best expert (RMSE)",
  "outcome-head": "Probability or interval", "expert-errors": "RMSE",
};

/** Experts by their error, the best first. */
const byError = (stats) => Object.entries(stats.expert_rmse).filter(([, rmse]) => rmse !== null).sort((a, b) => a[1] - b[1]);

export class NumberPanels {
  constructor(find, stats) {
    this.find = find;
    for (const [id, text] of Object.entries(TITLES)) setText(find(id), text);
    for (const id of OF_CLASSES) find(`${id}-title`).parentElement.hidden = true;
    setText(find("so-far-note"), "Root of the mean squared error, in the units of the labels.");
    setText(find("windowed-note"), "In percent of the labels so far.");
    const best = LINES.map((style) => ({ style, legend: true }));
    this.errors = new Chart(find("so-far"), {
      what: "Error so far of this model, of the running mean and of the best experts",
      x: BY_LABELS,
      y: { format: number },
      lines: [...best, { style: OTHER, legend: true, name: "running mean" }, { style: MODEL, legend: true, name: "this model", first: true }],
    });
    this.coverage = new Chart(find("windowed"), {
      what: "Share of labels that were inside their interval, in percent",
      x: BY_LABELS,
      y: { format: share, tick, range: () => [0, 1] },
      lines: [{ style: OTHER, legend: true, name: "promised" }, { style: MODEL, legend: true, name: "inside", first: true }],
    });
    this.intervals = new Chart(find("intervals"), {
      what: "Predicted number, its interval and the label of the newest events",
      x: { ...BY_LABELS, label: "number of the event" },
      y: { format: number, range: (_, low, high) => uPlot.rangeNum(low, high, 0.1, true) },
      lines: [
        { style: EDGE, legend: true, name: "interval, upper end" }, { style: EDGE, legend: true, name: "interval, lower end" },
        { style: MODEL, legend: true, name: "predicted", first: true }, { style: OBSERVED, legend: true, name: "label" },
      ],
      bands: [[1, 2]],
    });
    this.promised = Number(Object.keys(stats.coverage)[0]);
  }

  show(points, stats, latest) {
    const read = (of) => points.map((point) => of(point) ?? null);
    const best = byError(stats).slice(0, LINES.length).map(([name]) => name);
    const experts = LINES.map((_, i) => {
      const at = stats.experts.indexOf(best[i]);
      return read((point) => point.expert_rmse[at]);
    });
    const names = [...LINES.map((_, i) => best[i] ?? ""), "running mean", "this model"];
    const x = points.map((point) => point.labels);
    this.errors.show([x, ...experts, read((p) => p.mean_rmse), read((p) => p.rmse)], names);
    this.coverage.show([x, x.map(() => this.promised), read((p) => p.inside)]);
    const events = latest.toReversed();
    const columns = [(e) => e.interval[1], (e) => e.interval[0], (e) => e.prediction, (e) => e.label];
    this.intervals.show([(e) => e.number, ...columns].map((of) => events.map(of)));
    this.#tiles(stats);
  }

  #tiles(stats) {
    const put = (id, value, text) => setDatum(this.find(id), value, text);
    const [best, least] = byError(stats)[0] ?? [NONE, null];
    const outside = stats.inside === null ? null : Math.round(stats.labels * (1 - stats.inside));
    put("rate-so-far", stats.rmse, number(stats.rmse));
    put("mistakes", outside, `${count(outside)} outside their interval`);
    put("rate-window", stats.recent_rmse, number(stats.recent_rmse));
    put("window-labels", stats.window.labels, count(stats.window.labels));
    put("window-mistakes", stats.window.outside, `${count(stats.window.outside)} outside`);
    put("best-mistakes", least, number(least));
    setText(this.find("best"), best);
  }
}

/** The stats of a model of numbers as a point of its history. */
export const presentNumbers = (stats) => ({ ...stats, expert_rmse: stats.experts.map((name) => stats.expert_rmse[name]) });

export const numberFacts = ({ method, features, sources, experts }) => [
  `method ${method}`, plural(features, "feature"), plural(sources.length, "source"), plural(experts.length, "expert"),
].join(" · ");

// The history of a model as columns for the charts. A point is what the API gives; nothing is interpolated.
import { ratio } from "./format.js";
import { presentNumbers } from "./numbers.js";

const MOST = 2000; // as many as the service keeps
export const WINDOW = 200; // labels in the service's window

export class History {
  constructor() { this.points = []; }

  replace(points) { this.points = points.slice(); }

  /** Adds the newest point; one of the same event replaces it, an older one is not needed. */
  add(point) {
    if (!point) return;
    const last = this.points.at(-1);
    if (last && point.number < last.number) return;
    if (last && (point.number === last.number || point.labels === last.labels)) this.points.pop();
    this.points.push(point);
    const size = this.points.length;
    if (size > 1.5 * MOST) this.points = this.points.filter((_, i) => i % 2 === 0 || i === size - 1);
  }

  /** All points that have labels, up to now: the service adds one every few labels, what came since is in its stats. */
  until(stats) {
    const points = this.points.filter((point) => point.labels > 0);
    const last = points.at(-1);
    return stats.labels > (last?.labels ?? 0) ? [...points, present(stats)] : points;
  }
}

/** The stats as a point of the history. */
function present(stats) {
  if (stats.task === "numbers") return presentNumbers(stats);
  const { labels, mistakes, bound, seen, window } = stats;
  return {
    labels,
    mistakes,
    bound,
    seen,
    windowed: ratio(window.mistakes, window.labels),
    weights: stats.experts.map((name) => stats.weights[name]),
    expert_mistakes: stats.experts.map((name) => stats.expert_mistakes[name]),
    discrepancy: stats.sources.map((name) => stats.discrepancy[name]),
  };
}

const column = (points, read) => points.map((point) => read(point) ?? null);

/** Mistakes so far by labels so far: the model's, the guarantee's, each expert's (whose counts may be older). */
export const soFar = {
  model: (points) => column(points, (p) => ratio(p.mistakes, p.labels)),
  bound: (points) => column(points, (p) => ratio(p.bound, p.seen)),
  expert: (points, i) => column(points, (p) => ratio(p.expert_mistakes[i], p.seen)),
};

/** The same over the newest labels; an expert's since the point that is a window ago, or the first one before that. */
export const windowed = {
  model: (points) => column(points, (p) => p.windowed),
  bound: null,
  expert: (points, i) => {
    let then = -1;
    return column(points, (p) => {
      while (points[then + 1].labels <= p.labels - WINDOW) then += 1;
      if (then >= 0) return ratio(p.expert_mistakes[i] - points[then].expert_mistakes[i], p.labels - points[then].labels);
      return p.seen === p.labels ? ratio(p.expert_mistakes[i], p.labels) : null; // else it began before the first point
    });
  },
};

export const labels = (points) => points.map((point) => point.labels);
export const weight = (points, i) => column(points, (p) => p.weights[i]);
export const discrepancy = (points, i) => column(points, (p) => p.discrepancy[i]);

/** Experts' places in the list, the most trusted first: by the weight now plus the mean weight over the history. */
export function ranked(weights, points) {
  const size = Math.max(1, points.length);
  const mean = weights.map((_, i) => points.reduce((sum, p) => sum + (p.weights[i] ?? 0), 0) / size);
  return weights.map((w, i) => [w + mean[i], i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).map(([, i]) => i);
}

/** What is seen only while the page is open: throughput and latency have no history in the service. */
export class Watched {
  constructor(most = 1200) {
    this.most = most;
    this.rows = [];
  }

  add(stats) {
    this.rows.push({ at: Date.now() / 1000, rate: stats.rate, latency: stats.latency });
    if (this.rows.length > this.most) this.rows.splice(0, this.rows.length - this.most);
  }

  get times() { return this.rows.map((row) => row.at); }

  column(read) { return this.rows.map((row) => read(row) ?? null); }
}

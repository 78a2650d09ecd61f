// The history of a model as columns for the charts. A point is what the API gives; nothing is interpolated.
import { ratio } from "./format.js";

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
    if (this.points.length > 1.5 * MOST) this.points = this.points.filter((_, i) => i % 2 === 1 || i === this.points.length - 1);
  }

  /** Points that have labels: before the first one there is no rate. */
  get labelled() { return this.points.filter((point) => point.labels > 0); }
}

const column = (points, read) => points.map((point) => read(point) ?? null);

/** Mistakes so far by labels so far: the model's, the guarantee's, each expert's. */
export const soFar = {
  model: (points) => column(points, (p) => ratio(p.mistakes, p.labels)),
  bound: (points) => column(points, (p) => ratio(p.bound, p.labels)),
  expert: (points, i) => column(points, (p) => ratio(p.expert_mistakes[i], p.labels)),
};

/** The same over the newest labels. */
export const windowed = {
  model: (points) => column(points, (p) => ratio(p.windowed, Math.min(p.labels, WINDOW))),
  bound: null,
  expert: (points, i) => column(points, (p) => ratio(p.expert_windowed[i], Math.min(p.labels, WINDOW))),
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

// Tables whose numbers have bars beside them: who is trusted now, class balance, calibration, latency.
import { datum, element, setDatum, setText } from "./dom.js";
import { NONE, count, milliseconds, number, plural, ratio, share, signed } from "./format.js";
import { bar, fillRows, setBar } from "./tables.js";

/** A row of a heading and cells that hold a number, some with a bar. */
function row(cells) {
  const made = cells.map((kind) => element("td", {}, datum(null, ""), ...(kind ? [bar(kind, 0)] : [])));
  return element("tr", {}, element("th", { scope: "row" }), ...made);
}

function write(tr, name, values) {
  setText(tr.cells[0], name);
  tr.cells[0].title = name;
  values.forEach(([value, text, of], i) => {
    const cell = tr.cells[i + 1];
    setDatum(cell.firstChild, value, text);
    if (of !== undefined && cell.lastChild !== cell.firstChild) setBar(cell.lastChild, of);
  });
}

/** Experts by their weight now, with their mistakes: the first few, or all of them. */
export function showTrust(body, stats, all) {
  const order = Object.entries(stats.weights).sort((a, b) => b[1] - a[1]);
  const shown = all ? order : order.slice(0, 8);
  fillRows(body, shown, () => row(["weight", null, ...(stats.expert_rmse ? [] : [null])]), (tr, [name, weight]) => {
    if (stats.expert_rmse) {
      write(tr, name, [[weight, share(weight), weight], [stats.expert_rmse[name], number(stats.expert_rmse[name])]]);
      return;
    }
    const mistakes = stats.expert_mistakes[name];
    const rate = ratio(mistakes, stats.seen);
    write(tr, name, [[weight, share(weight), weight], [mistakes, count(mistakes)], [rate, share(rate)]]);
  });
  return order.length;
}

/** The columns of which the newest events differ most from the sources. */
export function showShifts(body, stats) {
  const order = Object.entries(stats.shifts).sort((a, b) => b[1][0] - a[1][0]).slice(0, 8);
  const most = Math.max(1, ...order.map(([, [now]]) => now));
  fillRows(body, order, () => row(["weight", null]), (tr, [name, [now, between]]) => {
    write(tr, name, [[now, number(now), now / most], [between, number(between)]]);
  });
}

/** Predicted and labelled counts a class, in the order of the model's classes. */
export function showBalance(body, stats, all) {
  const names = stats.classes.map(String);
  const shown = all ? names : names.slice(0, 12);
  const most = Math.max(1, ...Object.values(stats.predicted), ...Object.values(stats.labelled));
  fillRows(body, shown, () => row(["predicted", "labelled"]), (tr, name) => {
    const [predicted, labelled] = [stats.predicted[name] ?? 0, stats.labelled[name] ?? 0];
    write(tr, name, [[predicted, count(predicted), predicted / most], [labelled, count(labelled), labelled / most]]);
  });
  return names.length;
}

export function showCalibration(body, bins) {
  fillRows(body, bins, () => row([null, null, null]), (tr, bin) => {
    const known = bin.count > 0;
    write(tr, `${share(bin.from)} to ${share(bin.to)}`, [
      [bin.count, count(bin.count)],
      [known ? bin.confidence : null, share(known ? bin.confidence : null)],
      [known ? bin.right : null, share(known ? bin.right : null)],
    ]);
  });
}

const COLUMNS = 15; // with a row of their own

/** What each column added: the largest, the others together, and what is no single column's. */
export function showContributions(body, { columns, interactions }, cells) {
  const order = Object.entries(columns).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const rest = order.slice(COLUMNS);
  const sum = rest.reduce((total, [, amount]) => total + amount, 0);
  const shown = [
    ...order.slice(0, COLUMNS), ...(rest.length ? [[plural(rest.length, "more column"), sum]] : []), ["interactions", interactions],
  ];
  const most = Math.max(...shown.map(([, amount]) => Math.abs(amount)));
  fillRows(body, shown, () => row([null, "added"]), (tr, [name, amount], i) => {
    const cell = i < Math.min(order.length, COLUMNS) ? cells[name] ?? null : null;
    const text = typeof cell === "number" ? number(cell) : String(cell ?? NONE);
    write(tr, name, [[cell, text], [amount, signed(amount), Math.abs(amount) / most]]);
    tr.cells[2].lastChild.classList.toggle("labelled", amount < 0);
  });
}

const CALLS = { predict: "predict", label: "label", predict_then_learn: "predict then learn" };

export function showLatency(body, latency) {
  const rows = Object.entries(CALLS).filter(([kind]) => latency[kind]?.count > 0);
  fillRows(body, rows, () => row([null, null, null, null]), (tr, [kind, name]) => {
    const { p50, p99, max, count: calls } = latency[kind];
    const times = [p50, p99, max].map((seconds) => [seconds, milliseconds(seconds)]);
    write(tr, name, [...times, [calls, count(calls)]]);
  });
}

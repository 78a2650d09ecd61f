// Tables: the one behind every chart, the latest predictions, bars in cells.
import { element, setText } from "./dom.js";
import { NONE, count, iso, moment, number, share } from "./format.js";

const MOST = 60; // rows of a table behind a chart: more is for the API

/** "Show as table": filled when it is opened, and left as it is while it is read. */
export function tableBehind(what, rows) {
  const place = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${what}` });
  const details = element("details", { class: "behind" }, element("summary", {}, "Show as table"), place);
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    const { head, rows: all } = rows();
    const step = Math.max(1, Math.ceil(all.length / MOST));
    const kept = all.filter((_, i) => i % step === 0);
    const thinned = step > 1 ? `, ${kept.length} of ${count(all.length)} rows` : "";
    const caption = `As of ${moment(Date.now() / 1000)}, newest first${thinned}. Open it again for newer numbers.`;
    place.replaceChildren(table(caption, head, kept));
  });
  return details;
}

/** A table of texts; the first cell of a row is its heading. */
export function table(caption, head, rows) {
  const cells = (row) => row.map((cell, i) => element(i ? "td" : "th", i ? {} : { scope: "row" }, cell ?? NONE));
  return element(
    "table", {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))),
  );
}

/** A bar whose length is a share; its number stands beside it in text. */
export function bar(kind, of) {
  const made = element("span", { class: `bar ${kind}`, "aria-hidden": "true" });
  setBar(made, of);
  return made;
}

export function setBar(node, of) {
  node.style.setProperty("--share", Math.max(0, Math.min(1, of || 0)));
}

/** Keeps as many rows in a table's body as there are items, and lets `fill` write each: rows are reused, not rebuilt. */
export function fillRows(body, items, make, fill) {
  while (body.rows.length > items.length) body.deleteRow(-1);
  while (body.rows.length < items.length) body.append(make());
  items.forEach((item, i) => fill(body.rows[i], item, i));
}

const OUTCOMES = {
  right: "✓ right",
  wrong: "✗ wrong",
  inside: "✓ inside",
  outside: "✗ outside",
  pending: "pending",
  expired: "expired",
};

export function outcome(row) {
  if (row.status !== "learned") return row.status;
  if (row.interval) return row.correct ? "inside" : "outside";
  return row.correct ? "right" : "wrong";
}

/** The latest predictions, newest first; a label that came late is filled in where its prediction stands. */
export class Latest {
  constructor(body) {
    this.body = body;
    this.before = new Map();
  }

  show(rows) {
    fillRows(this.body, rows, () => {
      const cells = ["prediction", "probability", "label", "outcome", "time", "id"];
      const first = element("th", { class: "number", scope: "row" });
      return element("tr", {}, first, ...cells.map((name) => element("td", { class: name })),
        element("td", {}, element("button", { type: "button" }, "Explain")));
    }, (tr, row) => this.#fill(tr, row));
    this.before = new Map(rows.map((row) => [row.number, row.status]));
  }

  #fill(tr, row) {
    const [at, prediction, probability, label, end, time, id, why] = tr.cells;
    const is = outcome(row);
    setText(at, count(row.number));
    setText(id, row.id);
    id.title = row.id;
    setText(time, moment(row.time));
    time.title = iso(row.time);
    setText(prediction, row.interval ? number(row.prediction) : String(row.prediction));
    setText(probability, row.interval ? row.interval.map(number).join(" to ") : share(row.probability));
    setText(label, row.label === null ? NONE : String(row.label));
    setText(end, OUTCOMES[is] ?? is);
    why.firstChild.setAttribute("aria-label", `Explain ${count(row.number)}`);
    tr.dataset.number = row.number;
    tr.dataset.outcome = is;
    const was = this.before.get(row.number);
    tr.classList.toggle("late", was === "pending" && row.status === "learned");
  }
}

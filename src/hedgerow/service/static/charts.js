// A line chart with its legend and the table behind it. uPlot draws; everything people read as text is HTML.
import { element, setText, swatch } from "./dom.js";
import { count } from "./format.js";
import { colour } from "./palette.js";
import { tableBehind } from "./tables.js";

const AXIS_WIDTH = 62; // the same in every chart, so that charts in a column stand on one line
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const HEIGHT = 230;
const WHOLE = [1, 2, 5].flatMap((n) => Array.from({ length: 10 }, (_, e) => n * 10 ** e)).sort((a, b) => a - b);
export const BY_LABELS = { label: "labels so far", format: count, incrs: WHOLE };

const axis = (more) => ({
  stroke: () => colour("muted"),
  font: FONT,
  labelFont: FONT,
  grid: { stroke: () => colour("grid"), width: 1 },
  ticks: { stroke: () => colour("grid"), width: 1, size: 4 },
  ...more,
});

function series(style) {
  const made = {
    stroke: () => colour(style.color),
    width: style.width,
    dash: style.dash ?? undefined,
    spanGaps: style.spanGaps ?? false,
    points: { show: style.points ?? false, size: 7, fill: () => colour(style.color) },
  };
  if (style.alone) made.paths = () => null; // points without a line
  if (style.bars) {
    made.paths = uPlot.paths.bars({ size: [0.8, 60] });
    made.fill = () => colour(style.color);
  }
  return made;
}

/**
 * One chart inside `root`.
 *
 * options:
 *   what    one sentence, for those who do not see the chart
 *   x       {label, format, tick, range, time, incrs}
 *   y       {format, tick, range, space}; `tick` writes the numbers of an axis, else `format` does
 *   lines   [{style, name, legend, first}]: a name may change later; a legend is true, "name" (without a value) or
 *           nothing; the first stands first in the legend, though it is drawn last
 *   bands   [[i, j]]: the room between the lines number i and j, counted from 1, the upper one first, is filled
 *   table   false for a chart whose table stands elsewhere
 */
export class Chart {
  constructor(root, { what, x, y, lines, bands = [], height = HEIGHT, table = true }) {
    Object.assign(this, { what, x, y, lines, bands, height });
    this.data = [[], ...lines.map(() => [])];
    this.plot = element("div", { class: "plot", role: "img", "aria-label": what });
    this.legend = element("ul", { class: "legend" });
    this.note = element("p", { class: "note chart-note" });
    this.place = element("div", { class: "chart" }, this.plot, this.legend, this.note);
    if (table) this.place.append(tableBehind(what, () => this.asTable()));
    root.append(this.place);
    this.items = lines.map((line) => this.#legendItem(line));
    new ResizeObserver(() => this.#fit()).observe(this.place);
    document.addEventListener("themechange", () => this.uplot?.redraw());
  }

  #legendItem(line) {
    const name = element("span", { class: "name" }, line.name ?? "");
    const value = element("span", { class: "value" });
    value.hidden = line.legend === "name";
    const item = element("li", {}, swatch(line.style.bars ? { ...line.style, width: 8 } : line.style), name, value);
    item.hidden = !line.legend || !line.name;
    if (line.first) this.legend.prepend(item);
    else this.legend.append(item);
    return { item, name, value };
  }

  #make(width) {
    const { label, format, tick: ticked = format, range, time = false, incrs } = this.x;
    const { space = 36, tick = this.y.format } = this.y;
    this.uplot = new uPlot({
      width,
      height: this.height,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
      scales: { x: { time, range: range ?? spread }, y: { range: this.y.range ?? fromZero } },
      axes: [
        axis({ label, labelSize: 20, labelGap: 0, size: 26, space: 55, incrs, values: (_, ticks) => ticks.map(ticked) }),
        axis({ size: AXIS_WIDTH, space, values: (_, ticks) => ticks.map(tick) }),
      ],
      series: [{}, ...this.lines.map((line) => series(line.style))],
      bands: this.bands.map((pair) => ({ series: pair, fill: () => colour("band") })),
      hooks: { setCursor: [() => this.#values()] },
    }, this.data, this.plot);
  }

  #fit() {
    const width = Math.floor(this.place.clientWidth);
    if (width <= 0) return;
    if (!this.uplot) this.#make(width);
    else if (width !== this.uplot.width) this.uplot.setSize({ width, height: this.height });
  }

  /** New data: the x column, then a column a line (null: not there). `names` may rename lines. */
  show(data, names = null, note = "") {
    this.data = data;
    this.lines.forEach((line, i) => {
      if (names && names[i] !== undefined) line.name = names[i];
      setText(this.items[i].name, line.name ?? "");
      this.items[i].item.hidden = !line.legend || !line.name;
    });
    setText(this.note, note);
    this.#fit();
    this.uplot?.setData(data);
    this.#values();
  }

  /** The values in the legend: where the pointer is, else the newest. */
  #values() {
    const at = this.uplot?.cursor?.idx ?? this.data[0].length - 1;
    this.items.forEach(({ value, item }, i) => {
      const shown = this.data[i + 1]?.[at];
      if (!item.hidden && !value.hidden) setText(value, shown == null ? "" : this.y.format(shown));
    });
  }

  asTable() {
    const all = this.lines.map((line, i) => [line, this.data[i + 1]]);
    const shown = all.filter(([line]) => line.legend === true && line.name);
    const head = [this.x.label, ...shown.map(([line]) => line.name)];
    const rows = this.data[0].map((at, i) => [
      this.x.format(at), ...shown.map(([, column]) => (column[i] == null ? null : this.y.format(column[i]))),
    ]);
    return { head, rows: rows.filter((row) => row.slice(1).some((cell) => cell !== null)).reverse() };
  }
}

/** The whole of x, and a little room where there is only one point. */
function spread({ data: [at] }) {
  if (!at.length) return [0, 1];
  return at.length === 1 ? [at[0] - 0.5, at[0] + 0.5] : [at[0], at.at(-1)];
}

function fromZero(_, low, high) {
  return [0, high > 0 ? 1.08 * high : 1];
}

// How numbers are written, in one place. Every number is the API's own; nothing is smoothed or estimated.
//   counts         exact, thousands separated by commas            12,345
//   shares         percent with one digit after the point          12.3 %   (on an axis: 12 %)
//   times it took  milliseconds, three significant digits          1.23 ms
//   rates          a second, three significant digits              19.8
//   other numbers  three significant digits                        0.000791
//   moments        the reader's clock, 24 hours                    18:20:33
// What is not there is a dash. An element of class "data" carries the unrounded number in its value.
const grouped = new Intl.NumberFormat("en-US");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
export const NONE = "–";

const known = (x) => typeof x === "number" && Number.isFinite(x);

export const count = (n) => (known(n) ? grouped.format(n) : NONE);

export const share = (x) => (known(x) ? `${(100 * x).toFixed(1)} %` : NONE);

/** On an axis the ticks are round, so that a digit less says the same. */
export const tick = (x) => `${Number((100 * x).toFixed(1))} %`;

export const ratio = (part, whole) => (whole > 0 && known(part) ? part / whole : null);

export function number(x) {
  if (!known(x)) return NONE;
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1000) return grouped.format(Math.round(x));
  return size < 1e-6 ? x.toExponential(2) : String(Number(x.toPrecision(3)));
}

export const signed = (x) => (x > 0 ? `+${number(x)}` : number(x));

export const milliseconds = (seconds) => (known(seconds) ? `${number(1000 * seconds)} ms` : NONE);

export const moment = (unix) => (known(unix) ? clock.format(new Date(1000 * unix)) : NONE);

export const iso = (unix) => new Date(1000 * unix).toISOString();

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

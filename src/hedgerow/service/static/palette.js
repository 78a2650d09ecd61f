// How lines look. Hues after Okabe and Ito, darkened or lightened to at least 3:1 against the page; each line also has
// dashes of its own and its name in the legend, so that no colour is needed to tell them apart. The colours themselves
// are in style.css.
export const MODEL = { color: "model", width: 2.5, dash: null };
export const BOUND = { color: "bound", width: 1.5, dash: [12, 4] };
export const OTHER = { color: "other", width: 1, dash: null };
export const EDGE = { color: "1", width: 1, dash: null }; // of a band
export const OBSERVED = { color: "2", width: 6, dash: [6, 5], points: true, alone: true };
export const LINES = [
  { color: "1", width: 1.75, dash: null },
  { color: "2", width: 1.75, dash: [8, 4] },
  { color: "3", width: 1.75, dash: [2, 3] },
  { color: "4", width: 1.75, dash: [10, 3, 2, 3] },
  { color: "5", width: 2.25, dash: [3, 5] },
];

/** The look of one of many: the first few have colours, further ones the same dashes in grey. */
export const lineOf = (i) => ({ ...LINES[i % LINES.length], ...(i < LINES.length ? {} : { color: "bound" }) });

const probe = document.createElement("span");
probe.hidden = true;
let known = new Map();
document.addEventListener("themechange", () => { known = new Map(); });

/** The colour of that name in the present theme, as a canvas wants it. */
export function colour(name) {
  if (!known.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.className = `colour-${name}`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
}

/**
 * Gives places (colours) to the few names that matter most, and lets a name keep its place for as long as it is
 * among them: a line does not change its colour because another one came.
 */
export class Places {
  constructor(size) { this.names = Array(size).fill(null); }

  /** `ranked` has the names, the most important first. Returns the names by place. */
  update(ranked) {
    const wanted = ranked.slice(0, this.names.length);
    this.names = this.names.map((name) => (wanted.includes(name) ? name : null));
    for (const name of wanted.filter((one) => !this.names.includes(one))) this.names[this.names.indexOf(null)] = name;
    return this.names;
  }
}

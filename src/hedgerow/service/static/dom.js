// Small helpers to make elements. Text goes in as text, never as markup: names and labels come from outside.

/** An element with attributes ("class", "data-x", ..; null leaves one out) and children (nodes or text). */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** A number as people read it, with the unrounded one in its value. */
export const datum = (value, text) => element("data", { value: value ?? "" }, text);

/** Changes the text only where it differs, so that selections and screen readers are left in peace. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setDatum(node, value, text) {
  node.value = value ?? "";
  setText(node, text);
}

/** A short line as it looks in a chart: its colour, dashes and width. */
export function swatch({ color, dash, width }) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 28 10");
  svg.setAttribute("class", "swatch");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(ns, "line");
  for (const [name, value] of Object.entries({ x1: 0, x2: 28, y1: 5, y2: 5, "stroke-width": width })) {
    line.setAttribute(name, value);
  }
  line.setAttribute("class", `line-${color}`);
  if (dash) line.setAttribute("stroke-dasharray", dash.join(" "));
  svg.append(line);
  return svg;
}

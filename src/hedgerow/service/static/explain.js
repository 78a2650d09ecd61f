// What each column added to a prediction: of an event in the table, or of an instance that is typed.
import { get, post } from "./api.js";
import { showContributions } from "./bars.js";
import { setText } from "./dom.js";
import { number } from "./format.js";

/** The JSON in a field, null if it is empty; an error names the field. */
function parsed(field) {
  try {
    return field.value.trim() ? JSON.parse(field.value) : null;
  } catch (error) {
    field.focus();
    throw new Error(`${field.labels[0].textContent}: ${error.message}`);
  }
}

/** By the name of its column; columns without names are x0, x1, .. as the service calls them. */
const cellsOf = (instance, names) => (Array.isArray(instance)
  ? Object.fromEntries(instance.map((cell, i) => [names?.[i] ?? `x${i}`, cell])) : instance);

/** Lets the form, and the buttons in the table of events, explain. `names` gives the names of the features, if any. */
export function explains(find, path, names) {
  const [form, field, rows] = ["explain-form", "instance", "explain-rows"].map(find);
  let asked = 0; // the newest question; answers to older ones are not shown

  /** Explains what the field holds, after `load` has told what to put there. */
  async function explain(load) {
    const mine = ++asked;
    let text;
    rows.replaceChildren();
    setText(find("explain-result"), "");
    try {
      const loaded = await load?.();
      if (mine !== asked) return;
      field.value = loaded ?? field.value;
      const instance = parsed(field);
      const given = parsed(find("reference"));
      const parts = await post(`${path}/explain`, { instance, ...(given === null ? {} : { reference: given }) });
      if (mine !== asked) return;
      showContributions(rows, parts, cellsOf(instance, names()));
      const reference = given === null ? "the mean row of the sources" : "the reference";
      text = `${parts.what}: ${number(parts.value)}; of ${reference}: ${number(parts.reference_value)}.`;
    } catch (error) {
      text = error.message;
    }
    if (mine === asked) setText(find("explain-result"), text);
  }

  form.addEventListener("submit", (submitted) => {
    submitted.preventDefault();
    explain();
  });
  find("latest-rows").addEventListener("click", ({ target }) => {
    const at = target.closest("button")?.closest("tr").dataset.number;
    if (at === undefined) return;
    explain(async () => {
      const [event] = (await get(`${path}/latest?n=1&until=${at}&features=true`)).events;
      if (String(event?.number) !== at) throw new Error("This event is not kept any more.");
      return JSON.stringify(event.features);
    }).then(() => form.parentElement.scrollIntoView({ block: "nearest" }));
  });
}

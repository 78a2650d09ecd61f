// Alarms: what is wrong, the rule that said so, and since which event.
import { element } from "./dom.js";
import { count } from "./format.js";

let before = "";

/** Rebuilt only when something about them changed. */
export function showAlarms(place, alarms) {
  const now = JSON.stringify(alarms);
  if (now === before) return;
  before = now;
  place.dataset.count = alarms.length;
  if (!alarms.length) {
    place.replaceChildren(element("p", { class: "calm" }, "No alarm."));
    return;
  }
  place.replaceChildren(element("ul", { class: "alarm-list" }, ...alarms.map(item)));
}

function item(alarm) {
  return element(
    "li", { class: "alarm", "data-rule": alarm.rule },
    element("strong", {}, alarm.title),
    element("p", {}, alarm.text),
    element("p", { class: "note" }, "rule ", element("code", {}, alarm.rule), since(alarm)),
  );
}

const since = (alarm) => `, since number ${count(alarm.since)} of the journal`;

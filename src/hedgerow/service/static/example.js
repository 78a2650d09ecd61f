// What to type so that the first event comes: shown for as long as there is none.
import { modelPath, token } from "./api.js";
import { setText } from "./dom.js";

const MOST = 100; // features that are written out

function instance(stats) {
  if (stats?.feature_names?.length && stats.features <= MOST) {
    return `{${stats.feature_names.map((name) => `${JSON.stringify(name)}: 0`).join(", ")}}`;
  }
  const n = stats?.features ?? 0;
  if (n > 0 && n <= MOST) return `[${Array(n).fill(0).join(", ")}]`;
  return n ? `[0, 0, .. ${n} numbers]` : "[..]";
}

/** Inside single quotes of a shell. */
const quoted = (text) => text.replaceAll("'", "'\\''");

export function showExample(node, name, stats) {
  const secret = token.get() ? ' \\\n  -H "authorization: Bearer $TOKEN"' : "";
  const post = (what, body) => `curl -s '${location.origin}${modelPath(name)}/${what}'${secret} \\\n`
    + `  -H 'content-type: application/json' -d '${quoted(body)}'`;
  const label = JSON.stringify(stats?.classes?.[0] ?? "..");
  setText(node, [
    post("predict", `{"instances": [${instance(stats)}], "ids": ["first"]}`),
    post("label", `{"labels": [{"id": "first", "label": ${label}}]}`),
  ].join("\n\n"));
}

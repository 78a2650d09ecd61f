// The form that asks for a token when the service wants one. It is kept for this tab only (sessionStorage).
import { token } from "./api.js";
import { element } from "./dom.js";

/** Shows the form above everything else of the page; a token given loads the page again with it. */
export function askForToken(error) {
  if (document.getElementById("token-form")) return;
  const input = element("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const asked = "This service asks for a token that may read.";
  const why = token.get() ? `The token was not accepted: ${error.message}` : asked;
  const form = element(
    "form", { id: "token-form", class: "card", "aria-labelledby": "token-title" },
    element("h2", { id: "token-title" }, "A token, please"),
    element("p", { id: "token-why", role: "alert" }, why),
    element("label", { for: "token" }, "Token"),
    element("div", { class: "row" }, input, element("button", { type: "submit" }, "Use it")),
    element("p", { class: "note" }, "It is kept in this tab only and forgotten when the tab is closed."),
  );
  form.addEventListener("submit", (submitted) => {
    submitted.preventDefault();
    token.set(input.value.trim());
    location.reload();
  });
  document.querySelector("main").prepend(form);
  document.body.classList.add("locked");
  input.focus();
}

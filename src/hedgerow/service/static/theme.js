// The theme: what the system prefers, or what the reader chose with the button. Loaded before the first paint, so that no
// wrong colours flash; a classic script for that reason.
"use strict";
(() => {
  const KEY = "hedgerow-theme";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try { return localStorage.getItem(KEY); } catch { return null; }
  };
  const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const tell = () => {
    const button = document.getElementById("theme");
    if (button) button.textContent = now() === "dark" ? "Light theme" : "Dark theme";
    document.dispatchEvent(new CustomEvent("themechange"));
  };

  const chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  dark.addEventListener("change", tell);
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      root.dataset.theme = now() === "dark" ? "light" : "dark";
      try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* the choice lasts for this page alone */ }
      tell();
    });
    tell();
  });
})();

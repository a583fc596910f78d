"use strict";
// A report page: its theme, its runs, the keys that hold everywhere, and the address that keeps the state.
(() => {
  const params = () => new URLSearchParams(location.hash.slice(1));
  const { by } = ioflameTools;

  // ---- theme -------------------------------------------------------------------------------------------------
  const themes = ["system", "dark", "light"];
  const themeButton = by(document, ".theme");
  const showTheme = () => {
    const now = document.documentElement.dataset.theme ?? "system";
    themeButton.textContent = `Theme: ${now}`;
    for (const run of runs) run?.graph.recolour();
  };
  themeButton.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % 3];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try { localStorage.setItem("ioflame-theme", next); } catch { /* a page that may store nothing forgets it */ }
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);

  // ---- the page ----------------------------------------------------------------------------------------------
  ioflameSaving();
  const articles = [...document.querySelectorAll("article.run")];
  const runs = []; // null for a run without a profile
  for (const article of articles) runs.push(by(article, "script.profile") ? ioflameRun(article, runs.length, runs) : null);
  const tabs = [...document.querySelectorAll("[data-run]")];
  let active = 0;
  function activate(which, remember) {
    active = Math.max(0, Math.min(which, runs.length - 1));
    if (tabs.length) {
      articles.forEach((article, k) => { article.hidden = k !== active; });
      tabs.forEach((tab, k) => tab.setAttribute("aria-pressed", String(k === active)));
    }
    runs[active]?.graph.resize();
    if (!remember) return;
    if (runs[active]) runs[active].writeHash(true);
    else location.hash = `run=${active}`;
  }
  tabs.forEach((tab, k) => tab.addEventListener("click", () => activate(k, true)));
  function read() {
    activate(Number.parseInt(params().get("run") ?? "0", 10) || 0, false);
    runs[active]?.readHash(params());
  }
  window.addEventListener("popstate", read);
  window.addEventListener("hashchange", read);
  window.addEventListener("resize", () => runs[active]?.graph.resize());
  window.addEventListener("keydown", (event) => {
    const run = runs[active];
    if (!run || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "") && document.activeElement.type !== "checkbox";
    if (event.key === "Escape") { run.back(); event.preventDefault(); }
    if (typing) return;
    if (event.key === "/") { event.preventDefault(); run.el.search.focus(); run.el.search.select(); }
    if (event.key === "n" || event.key === "N") { event.preventDefault(); run.jump(event.key === "n" ? 1 : -1); }
  });
  // Runs that are hidden have no width to draw in: each is brought up once while all are still to be seen.
  for (const run of runs) run?.readHash(new URLSearchParams());
  read();
  showTheme();
  window.ioflameRuns = runs;
})();

"use strict";
// A report page: its theme, its runs, the keys that hold everywhere, and the address that keeps the state.
(() => {
  const params = () => new URLSearchParams(location.hash.slice(1));
  const { by } = ioflameDom;

  // ---- theme -------------------------------------------------------------------------------------------------
  const themes = ["system", "dark", "light"];
  const themeButton = by(document, ".theme");
  const showTheme = () => {
    const now = document.documentElement.dataset.theme ?? "system";
    themeButton.textContent = `Theme: ${now}`;
    for (const of of drawn) for (const run of of.values()) run.graph.recolour();
    for (const one of differences) one.graph.recolour();
  };
  themeButton.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % 3];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try { localStorage.setItem("ioflame-theme", next); } catch { /* a page that may store nothing forgets it */ }
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);

  // ---- the way to a section ----------------------------------------------------------------------------------
  // The address keeps the state of the graph, so a link must not replace it.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("main a[href^='#']");
    if (!link) return;
    event.preventDefault();
    const heading = document.getElementById(link.getAttribute("href").slice(1));
    heading.closest("details")?.setAttribute("open", "");
    heading.scrollIntoView();
    heading.focus({ preventScroll: true });
  });

  // ---- paper has no folds --------------------------------------------------------------------------------------
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details.folded:not([open])")];
    for (const one of unfolded) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of unfolded) one.open = false;
  });

  // ---- the page ----------------------------------------------------------------------------------------------
  ioflameSaving();
  const differences = [...document.querySelectorAll(".flame.difference")].map(ioflameDifferenceGraph);
  const articles = [...document.querySelectorAll("article.run")];
  const blocks = articles.map(
    (article) => new Map([...article.querySelectorAll(".flame:not(.difference)")].map((block) => [block.dataset.of, block])),
  );
  // What is drawn by now: of each run its on-CPU graph, and the others from when they are first asked for.
  const runs = []; // null for a run without a CPU profile
  const drawn = articles.map(() => new Map());
  const turns = blocks.map((of) => of.keys().next().value); // which graph of the run is shown
  const shownOf = (k) => drawn[k]?.get(turns[k]) ?? null;
  function draw(k, key) {
    if (!drawn[k].has(key) && blocks[k].has(key)) {
      drawn[k].set(key, ioflameRun(articles[k], blocks[k].get(key), k, articles.length > 1));
    }
    return drawn[k].get(key) ?? null;
  }
  function turn(k, key) {
    if (!blocks[k]?.size) return;
    turns[k] = blocks[k].has(key) ? key : blocks[k].keys().next().value;
    for (const [name, block] of blocks[k]) block.hidden = name !== turns[k];
    for (const button of articles[k].querySelectorAll("[data-graph]"))
      button.setAttribute("aria-pressed", String(button.dataset.graph === turns[k]));
    const fresh = !drawn[k].has(turns[k]);
    const graph = draw(k, turns[k]);
    if (fresh) graph.readHash(new URLSearchParams());
    graph.graph.resize();
  }
  articles.forEach((article, k) => {
    runs.push(null);
    runs[k] = draw(k, "cpu");
    for (const button of article.querySelectorAll("[data-graph]"))
      button.addEventListener("click", () => {
        turn(k, button.dataset.graph);
        shownOf(k).writeHash(true);
      });
    // A click on a category of the tables is about the CPU, whichever graph is shown.
    article.addEventListener("click", (event) => {
      if (event.target.closest?.("[data-owner], [data-leaf]") && !event.target.closest(".flame") && runs[k])
        turn(k, "cpu");
    });
  });
  const tabs = [...document.querySelectorAll("[data-run]")];
  let active = 0;
  function activate(which, remember) {
    active = Math.max(0, Math.min(which, runs.length - 1));
    if (tabs.length) {
      articles.forEach((article, k) => { article.hidden = k !== active; });
      tabs.forEach((tab, k) => tab.setAttribute("aria-pressed", String(k === active)));
    }
    shownOf(active)?.graph.resize();
    if (!remember) return;
    if (shownOf(active)) shownOf(active).writeHash(true);
    else location.hash = `run=${active}`;
  }
  tabs.forEach((tab, k) => tab.addEventListener("click", () => activate(k, true)));
  function read() {
    activate(Number.parseInt(params().get("run") ?? "0", 10) || 0, false);
    turn(active, params().get("graph"));
    shownOf(active)?.readHash(params());
  }
  window.addEventListener("popstate", read);
  window.addEventListener("hashchange", read);
  window.addEventListener("resize", () => {
    shownOf(active)?.graph.resize();
    for (const one of differences) one.graph.resize();
  });
  // What is drawn while folded has no width; the event does not bubble.
  document.addEventListener("toggle", () => { for (const one of differences) one.graph.resize(); }, true);
  window.addEventListener("keydown", (event) => {
    const run = shownOf(active);
    if (!run || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing =
      /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "") &&
      document.activeElement.type !== "checkbox";
    if (event.key === "Escape") {
      run.back();
      event.preventDefault();
    }
    if (typing) return;
    if (event.key === "/") { event.preventDefault(); run.el.search.focus(); run.el.search.select(); }
    if (event.key === "n" || event.key === "N") { event.preventDefault(); run.jump(event.key === "n" ? 1 : -1); }
  });
  // Runs that are hidden have no width to draw in: each is brought up once while all are still to be seen.
  for (const run of runs) run?.readHash(new URLSearchParams());
  read();
  showTheme();
  window.ioflameRuns = runs;
  window.ioflameDifferences = differences;
  ioflamePlots();
})();

"use strict";
// Plots that are in the page already: which histogram is shown, and what the pointer is on. Without it they stay readable.
function ioflamePlots() {
  const { by, group, make } = ioflameTools;

  // ---- choices -----------------------------------------------------------------------------------------------
  function choose(figure, wanted) {
    for (const [key, value] of Object.entries(wanted)) figure.dataset[key] = value;
    const series = figure.dataset.series ?? "0";
    const scale = figure.dataset.scale ?? "log";
    for (const plot of figure.querySelectorAll("[data-at]")) plot.hidden = plot.dataset.of !== series || plot.dataset.at !== scale;
    for (const button of figure.querySelectorAll("button[data-series]")) button.setAttribute("aria-pressed", String(button.dataset.series === series));
    for (const button of figure.querySelectorAll("button[data-scale]")) button.setAttribute("aria-pressed", String(button.dataset.scale === scale));
  }
  function chooseStage(element) {
    const panel = element.closest(".panel");
    const figure = by(panel, ".histograms");
    const button = [...figure.querySelectorAll("button[data-series]")].find((one) => one.textContent === element.dataset.stage);
    if (!button) return;
    choose(figure, { series: button.dataset.series });
    figure.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("click", (event) => {
    const choice = event.target.closest?.("button[data-series], button[data-scale]");
    if (choice) choose(choice.closest("figure"), choice.dataset.series === undefined ? { scale: choice.dataset.scale } : { series: choice.dataset.series });
    const stage = event.target.closest?.(".panel [data-stage]");
    if (stage) chooseStage(stage);
  });

  // ---- tooltips ----------------------------------------------------------------------------------------------
  const tip = make("div", { class: "tip", role: "tooltip" });
  tip.hidden = true;
  document.body.append(tip);
  let quiet = null; // the element whose own title is set aside while ours is shown
  function show(lines, event) {
    if (!lines) { tip.hidden = true; return; }
    tip.replaceChildren(...lines.map((line, k) => make("div", { class: k ? "more-of" : "name" }, line)));
    tip.hidden = false;
    const size = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, document.documentElement.clientWidth - size.width - 6))}px`;
    tip.style.top = `${event.clientY + 18 + size.height > innerHeight ? Math.max(4, event.clientY - size.height - 10) : event.clientY + 18}px`;
  }
  function restore() {
    if (quiet) quiet.element.prepend(quiet.title);
    quiet = null;
  }
  const three = (value) => String(Number(value.toPrecision(3)));
  function duration(ns) {
    for (const [factor, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) if (ns >= factor) return `${three(ns / factor)} ${unit}`;
    return `${Math.round(ns)} ns`;
  }
  const about = (count) => (Number.isInteger(count) ? group(count) : `about ${group(Math.round(count))}`);
  const share = (count, whole) => `${((100 * count) / (whole || 1)).toFixed(2)} %`;
  function place(svg, event) {
    const edge = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / edge.width;
    return [(event.clientX - edge.left) * scale, (event.clientY - edge.top) * scale];
  }
  const between = (edges, value) => edges.findIndex((edge, k) => k + 1 < edges.length && value >= Math.min(edge, edges[k + 1]) && value < Math.max(edge, edges[k + 1]));
  const read = new WeakMap(); // the data of a plot, parsed when it is first pointed at
  function dataOf(svg, key) {
    if (!read.has(svg)) read.set(svg, JSON.parse(svg.dataset[key]));
    return read.get(svg);
  }
  function histLines(svg, event) {
    const { scale, left, right, edges, counts, n, what } = dataOf(svg, "hist");
    const part = (place(svg, event)[0] - left) / (right - left);
    const [low, high] = [edges[0], edges[edges.length - 1]];
    const at = between(edges, scale === "log" ? low * (high / low) ** part : low + (high - low) * part);
    if (at < 0) return null;
    const below = counts.slice(0, at + 1).reduce((sum, count) => sum + count, 0);
    return [`${duration(edges[at])} \u2013 ${duration(edges[at + 1])}`, `${about(counts[at])} ${what}, ${share(counts[at], n)}`, `${share(below, n)} are not longer`];
  }
  function heatLines(svg, event) {
    const { x, t, y, edges, counts, n, p } = dataOf(svg, "heat");
    const [px, py] = place(svg, event);
    const column = between(x, px);
    const row = between(y, py);
    if (column < 0 || row < 0) return null;
    const count = counts[column][row] ?? 0;
    return [
      `${duration(edges[row])} \u2013 ${duration(edges[row + 1])}, ${t[column]} \u2013 ${t[column + 1]} s`,
      `${about(count)} of ${group(n[column])} reads, ${share(count, n[column])}`,
      ...(n[column] ? [`p50 ${duration(p[column][0])}, p99 ${duration(p[column][1])} in this stretch`] : []),
    ];
  }
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("svg.plot");
    if (quiet && !quiet.element.contains(event.target)) restore();
    if (!svg) { if (!tip.hidden) show(null); return; }
    if (svg.dataset.hist) show(histLines(svg, event), event);
    else if (svg.dataset.heat) show(heatLines(svg, event), event);
    else {
      const element = event.target.closest(".segment");
      const title = element && by(element, "title");
      if (title) { restore(); quiet = { element, title }; title.remove(); }
      show(quiet ? quiet.title.textContent.split("\n") : null, event);
    }
  });
  document.addEventListener("pointerleave", () => { restore(); show(null); });
  document.addEventListener("scroll", () => show(null), true);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") show(null); });
}

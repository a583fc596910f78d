"use strict";
// Plots that are in the page already: which histogram is shown, and what the pointer is on. They are readable without.
function ioflamePlots() {
  const { by, make, placeTip } = ioflameDom;
  const { group, percent: share } = ioflameCore;

  // ---- choices -----------------------------------------------------------------------------------------------
  function choose(figure, wanted) {
    for (const [key, value] of Object.entries(wanted)) figure.dataset[key] = value;
    const series = figure.dataset.series ?? "0";
    const scale = figure.dataset.scale ?? "log";
    for (const plot of figure.querySelectorAll("[data-at]"))
      plot.hidden = plot.dataset.of !== series || plot.dataset.at !== scale;
    for (const button of figure.querySelectorAll("button[data-series]"))
      button.setAttribute("aria-pressed", String(button.dataset.series === series));
    for (const button of figure.querySelectorAll("button[data-scale]"))
      button.setAttribute("aria-pressed", String(button.dataset.scale === scale));
  }
  function chooseStage(element) {
    const panel = element.closest(".panel");
    const figure = by(panel, ".histograms");
    const button = [...figure.querySelectorAll("button[data-series]")].find(
      (one) => one.textContent === element.dataset.stage,
    );
    if (!button) return;
    choose(figure, { series: button.dataset.series });
    figure.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("click", (event) => {
    const choice = event.target.closest?.("button[data-series], button[data-scale]");
    if (choice)
      choose(
        choice.closest("figure"),
        choice.dataset.series === undefined ? { scale: choice.dataset.scale } : { series: choice.dataset.series },
      );
    const stage = event.target.closest?.(".panel [data-stage]");
    if (stage) chooseStage(stage);
  });

  // ---- tooltips ----------------------------------------------------------------------------------------------
  const tip = make("div", { class: "tip", role: "tooltip" });
  tip.hidden = true;
  by(document, "main").append(tip);
  let quiet = null; // the element whose own title is set aside while ours is shown
  function show(lines, at) {
    if (!lines) { tip.hidden = true; return; }
    tip.replaceChildren(...lines.map((line, k) => make("div", { class: k ? "more-of" : "name" }, line)));
    placeTip(tip, at.clientX, at.clientY);
  }
  function restore() {
    if (quiet) quiet.element.prepend(quiet.title);
    quiet = null;
  }
  const three = (value) => String(Number(value.toPrecision(3)));
  function duration(ns) {
    for (const [factor, unit] of [
      [1e9, "s"],
      [1e6, "ms"],
      [1e3, "us"],
    ])
      if (ns >= factor) return `${three(ns / factor)} ${unit}`;
    return `${Math.round(ns)} ns`;
  }
  const about = (count) => (Number.isInteger(count) ? group(count) : `about ${group(Math.round(count))}`);
  function place(svg, event) {
    const edge = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / edge.width;
    return [(event.clientX - edge.left) * scale, (event.clientY - edge.top) * scale];
  }
  const between = (edges, value) =>
    edges.findIndex(
      (edge, k) =>
        k + 1 < edges.length && value >= Math.min(edge, edges[k + 1]) && value < Math.max(edge, edges[k + 1]),
    );
  const read = new WeakMap(); // the data of a plot, parsed when it is first pointed at
  function dataOf(svg, key) {
    if (!read.has(svg)) read.set(svg, JSON.parse(svg.dataset[key]));
    return read.get(svg);
  }
  // Which bar of a histogram, which cell of a heat map: by where the pointer is; the lines of a tooltip by which it is.
  function barAt(svg, event) {
    const { scale, left, right, edges } = dataOf(svg, "hist");
    const part = (place(svg, event)[0] - left) / (right - left);
    const [low, high] = [edges[0], edges[edges.length - 1]];
    return between(edges, scale === "log" ? low * (high / low) ** part : low + (high - low) * part);
  }
  function barLines(svg, at) {
    const { edges, counts, n, what } = dataOf(svg, "hist");
    const below = counts.slice(0, at + 1).reduce((sum, count) => sum + count, 0);
    return [
      `${duration(edges[at])} \u2013 ${duration(edges[at + 1])}`,
      `${about(counts[at])} ${what}, ${share(counts[at], n)}`,
      `${share(below, n)} are not longer`,
    ];
  }
  function cellAt(svg, event) {
    const { x, y } = dataOf(svg, "heat");
    const [px, py] = place(svg, event);
    return [between(x, px), between(y, py)];
  }
  function cellLines(svg, [column, row]) {
    const { t, edges, counts, n, p } = dataOf(svg, "heat");
    const count = counts[column][row] ?? 0;
    return [
      `${duration(edges[row])} \u2013 ${duration(edges[row + 1])}, ${t[column]} \u2013 ${t[column + 1]} s`,
      `${about(count)} of ${group(n[column])} reads, ${share(count, n[column])}`,
      ...(n[column] ? [`p50 ${duration(p[column][0])}, p99 ${duration(p[column][1])} in this stretch`] : []),
    ];
  }
  function linesAt(svg, event) {
    if (svg.dataset.hist) {
      const at = barAt(svg, event);
      return at < 0 ? null : barLines(svg, at);
    }
    const at = cellAt(svg, event);
    return at.includes(-1) ? null : cellLines(svg, at);
  }
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("svg.plot");
    if (quiet && !quiet.element.contains(event.target)) restore();
    if (!svg) { if (!tip.hidden) show(null); return; }
    if (svg.dataset.hist || svg.dataset.heat) show(linesAt(svg, event), event);
    else {
      const element = event.target.closest(".segment");
      const title = element && by(element, "title");
      if (title) { restore(); quiet = { element, title }; title.remove(); }
      show(quiet ? quiet.title.textContent.split("\n") : null, event);
    }
  });
  document.addEventListener("pointerleave", () => { restore(); show(null); });
  document.addEventListener("scroll", () => { if (walk) point(); else show(null); }, true);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") show(null); });

  // ---- keys --------------------------------------------------------------------------------------------------
  // The arrows walk a plot that has the focus, from one bar or cell that holds something to the next.
  const said = make("p", { class: "sr", role: "status" });
  let walk = null; // { holder, svg, at, mark }
  const filled = (counts) => Object.keys(counts).map(Number).filter((k) => counts[k] > 0).sort((a, b) => a - b);
  const fullest = (counts) => filled(counts).reduce((best, k) => (best < 0 || counts[k] > counts[best] ? k : best), -1);
  function next(list, from, key) {
    if (key === "Home") return list[0];
    if (key === "End") return list[list.length - 1];
    const onwards = key === "ArrowRight" || key === "ArrowUp";
    return (onwards ? list.find((k) => k > from) : list.findLast((k) => k < from)) ?? from;
  }
  function stepBar(svg, at, key) {
    const { counts } = dataOf(svg, "hist");
    return at === null && key.startsWith("Arrow") ? fullest(counts) : next(filled(counts), at, key);
  }
  function stepCell(svg, at, key) {
    const { counts } = dataOf(svg, "heat");
    const most = (column) => Math.max(...Object.values(counts[column]));
    const columns = counts.map((_, column) => column).filter((column) => filled(counts[column]).length);
    if (at === null) {
      const column = columns.reduce((best, one) => (most(one) > most(best) ? one : best), columns[0]);
      return [column, fullest(counts[column])];
    }
    const [column, row] = at;
    if (key === "ArrowUp" || key === "ArrowDown") return [column, next(filled(counts[column]), row, key)];
    const there = next(columns, column, key);
    const rows = filled(counts[there]);
    // The nearest row that holds something: the walk stays at its latency where it can.
    return [there, rows.reduce((best, one) => (Math.abs(one - row) < Math.abs(best - row) ? one : best), rows[0])];
  }
  // Left, top, right and bottom of what the walk is at, in the plot's own units.
  function spotOf({ svg, at }) {
    if (svg.dataset.heat) {
      const { x, y } = dataOf(svg, "heat");
      return [x[at[0]], y[at[1] + 1], x[at[0] + 1], y[at[1]]];
    }
    const { scale, left, right, top, bottom, edges } = dataOf(svg, "hist");
    const [low, high] = [edges[0], edges[edges.length - 1]];
    const px = (edge) =>
      left +
      (right - left) * (scale === "log" ? Math.log(edge / low) / Math.log(high / low) : (edge - low) / (high - low));
    return [px(edges[at]), top, px(edges[at + 1]), bottom];
  }
  function point() {
    const [left, , right, bottom] = spotOf(walk);
    const edge = walk.svg.getBoundingClientRect();
    const scale = edge.width / walk.svg.viewBox.baseVal.width;
    show(walk.lines, { clientX: edge.left + right * scale - 8, clientY: edge.top + bottom * scale - 12 });
    return [left * scale, right * scale];
  }
  function stop() {
    if (!walk) return;
    walk.mark.remove();
    walk = null;
    said.textContent = "";
    show(null);
  }
  function step(holder, svg, key) {
    const heat = Boolean(svg.dataset.heat);
    const at = (heat ? stepCell : stepBar)(svg, walk?.svg === svg ? walk.at : null, key);
    if (at === undefined || at === -1) return; // so few in so many bars that each rounds to none
    if (walk?.svg !== svg) {
      stop();
      const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      mark.setAttribute("class", "walked");
      svg.append(mark);
      walk = { holder, svg, mark };
    }
    walk.at = at;
    walk.lines = heat ? cellLines(svg, at) : barLines(svg, at);
    const [left, top, right, bottom] = spotOf(walk);
    const box = {
      x: left - 1,
      y: top - 1,
      width: Math.max(right - left, 1) + 2,
      height: Math.max(bottom - top, 1) + 2,
    };
    for (const [name, value] of Object.entries(box)) walk.mark.setAttribute(name, value.toFixed(1));
    // Of a plot wider than its window the walk's place is scrolled into sight.
    const [from, to] = point();
    if (from < holder.scrollLeft) holder.scrollLeft = from - 20;
    else if (to > holder.scrollLeft + holder.clientWidth) holder.scrollLeft = to + 20 - holder.clientWidth;
    said.textContent = walk.lines.join(", ");
  }
  const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
  for (const svg of document.querySelectorAll("svg[data-hist], svg[data-heat]")) {
    const holder = svg.closest("[tabindex]");
    // So that a screen reader leaves the arrows to the plot.
    holder.setAttribute("role", "application");
    holder.setAttribute(
      "aria-label",
      `${holder.getAttribute("aria-label")}. Arrows walk its ${svg.dataset.heat ? "cells" : "bars"}, Escape ends it.`,
    );
    holder.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (keys.includes(event.key)) step(holder, svg, event.key);
      else if (event.key === "Escape" && walk) { stop(); event.stopPropagation(); }
      else return;
      event.preventDefault();
    });
    holder.addEventListener("blur", stop);
  }
  by(document, "main").append(said);
}

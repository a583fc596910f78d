"use strict";
// Draws the flame graph again from the data in the file, at the width of the window, and lets it be explored.
// Every share is computed from the data: a frame too narrow to draw counts as much as one that is drawn.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const XHTML = "http://www.w3.org/1999/xhtml";
  const svg = document.currentScript?.closest("svg") ?? document.documentElement;
  const { build, percent, group, heaviest } = ioflameCore;
  const data = JSON.parse(svg.querySelector("script.data").textContent);
  const count = data.depth.length;
  const weight = Float64Array.from(data.weight, Number); // for sizes; data.weight keeps the exact figure
  const { parent, end } = ioflameCore.family(data.depth);
  const tree = { depth: data.depth, weight, parent, end };
  const own = Float64Array.from(weight);
  for (let i = 1; i < count; i++) own[parent[i]] -= weight[i];

  const two = data.difference ? ioflameTwoSides(data.difference) : null; // of a drawing of two sides
  const nameOf = (i) => data.names[data.name[i]];
  const cost = data.usPerQuery;
  const usOf = (part) => (cost === null ? "" : `${ioflameCore.perQuery(cost, part, weight[0])} us per query`);
  const exact = (value) => `${BigInt(value).toLocaleString("en-US")} ${data.unit}`;
  function exactOwn(i) {
    let rest = BigInt(data.weight[i]);
    for (let j = i + 1; j < end[i]; j = end[j]) rest -= BigInt(data.weight[j]);
    return rest;
  }

  // ---- state -------------------------------------------------------------------------------------------------
  const state = { zoom: 0, search: "", matchCase: false, category: -1, focus: 0 };
  let found = { matches: null, problem: "" }; // by name: 1 where it matches; or why the search is none
  let hits = null; // by node: 1 for what holds a match
  const isMatch = (i) => i > 0 && found.matches[data.name[i]] === 1;

  // ---- elements ----------------------------------------------------------------------------------------------
  const html = (tag, ...content) => build(document.createElementNS(XHTML, tag), ...content);
  const drawing = (tag, ...content) => build(document.createElementNS(SVG, tag), ...content);
  const panel = (name, content) => svg.appendChild(drawing("foreignObject", { class: name }, content));

  const frames = svg.querySelector(".frames");
  frames.replaceChildren();
  build(frames, { role: "tree", "aria-label": `flame graph of ${data.title}` });
  svg.classList.add("live");
  svg.removeAttribute("viewBox");
  svg.setAttribute("width", "100%");

  const input = html("input");
  const button = (attributes, ...content) => html("button", { type: "button", ...attributes }, ...content);
  const caseButton = button({ class: "case" });
  const showSearch = ioflameCore.searchBox(input, caseButton, (wanted) => change(wanted));
  const resetButton = button({ class: "reset", title: "show the whole profile again (Esc)" }, "Reset zoom");
  const zoomed = html("span", { class: "zoomed" });
  const foundText = html("span", {
    class: "found", role: "status",
    title: "weight of the stacks that hold a matching frame; a stack with several counts once",
  });
  const keysOf = html("span", { class: "of" });
  const keys = data.categories.map(([name, label], index) => {
    const share = html("span", { class: "share" });
    const title = `${label || name}\nclick: show only these frames in colour`;
    const key = button({ title, "aria-pressed": "false" }, html("i", { class: `swatch c${index}` }), name, share);
    key.addEventListener("click", () => change({ category: state.category === index ? -1 : index }));
    return { key, share };
  });
  const head = html(
    "div", { class: "ui head" },
    html(
      "div", { class: "bar" }, html("h1", {}, data.title),
      html("div", { class: "tools", role: "search" }, input, caseButton, resetButton),
    ),
    ...(data.subtitle ? [html("p", { class: "sub" }, data.subtitle)] : []),
    ...data.warnings.map((text) => html("p", { class: "warning" }, text)),
    html("div", { class: "legend" }, keysOf, ...keys.map(({ key }) => key)),
    html("div", { class: "status" }, zoomed, foundText),
  );
  const drawn = html("p", { class: "drawn" });
  const foot = html(
    "div", { class: "ui foot" }, drawn, ...(data.notes ?? []).map((text) => html("p", {}, text)),
    html(
      "p", {},
      "click or Enter: zoom \u00b7 Esc: reset \u00b7 arrows: walk \u00b7 Ctrl-F, F3 or /: search \u00b7 "
        + "click a category: pick it out. " + ioflameCore.SEARCH_HELP,
    ),
  );
  const card = html("div", { class: "card" });
  const headBox = panel("headbox", head);
  const footBox = panel("footbox", foot);
  const tip = panel("tip", html("div", { class: "ui" }, card));
  tip.style.display = "none";

  // ---- drawing -----------------------------------------------------------------------------------------------
  const pool = []; // groups in the order they are drawn; the first boxes.length are in use
  let boxes = [];
  let leftOut = 0; // the weight in frames of the view that are too narrow
  let shownAt = new Map(); // node -> its group
  let floor = 0; // where the root stands
  let height = 0;

  const labelOf = ioflameCore.labels(html("canvas").getContext("2d"));

  function groupAt(index) {
    if (!pool[index]) {
      const [rect, label] = [drawing("rect", { height: data.row - 1 }), drawing("text")];
      pool[index] = Object.assign(drawing("g", { role: "treeitem" }, rect, label), { rect, label });
    }
    return pool[index];
  }

  let rowsOfAll = 0;
  function draw() {
    const width = Math.max(300, svg.getBoundingClientRect().width);
    ({ boxes, leftOut } = ioflameCore.layout(tree, state.zoom, width - 2 * data.margin, data.minWidth));
    const rows = 1 + boxes.reduce((most, box) => Math.max(most, data.depth[box.node]), 0);
    if (!state.zoom) rowsOfAll = rows;
    writeTexts();
    for (const box of [headBox, footBox]) build(box, { width });
    const top = Math.ceil(head.getBoundingClientRect().height) + 2;
    headBox.setAttribute("height", top);
    floor = top + Math.max(rows, rowsOfAll) * data.row;

    shownAt = new Map();
    const tabStop = boxes.some((box) => box.node === state.focus) ? state.focus : state.zoom;
    boxes.forEach((box, index) => {
      const g = groupAt(index);
      const x = data.margin + box.x;
      const y = floor - (data.depth[box.node] + 1) * data.row;
      g.box = box;
      build(g.rect, { x, y, width: box.width - (box.width > 2 ? 0.6 : 0), class: `c${data.category[box.node]}` });
      build(g.label, { x: x + 3, y: y + 12 });
      const text = labelOf(nameOf(box.node), data.forms[data.name[box.node]], box.width - 6);
      if (g.label.textContent !== text) g.label.textContent = text;
      build(g, {
        "aria-label": `${nameOf(box.node)}, ${two?.lineOf(box.node) ?? `${percent(weight[box.node], weight[0])} of all`}`,
        "aria-level": data.depth[box.node] + 1, tabindex: box.node === tabStop ? "0" : "-1",
      });
      if (!g.parentNode) frames.append(g);
      shownAt.set(box.node, g);
    });
    for (let index = boxes.length; index < pool.length; index++) pool[index].remove();
    paint();

    footBox.setAttribute("y", floor + 2);
    height = floor + 2 + Math.ceil(foot.getBoundingClientRect().height);
    footBox.setAttribute("height", height - floor);
    svg.setAttribute("height", Math.max(height, window.innerHeight)); // room for a tooltip below a small graph
    pinHead();
  }

  // Classes only: a search or a picked category moves nothing.
  function paint() {
    for (const [node, g] of shownAt) {
      let mark = g.box.above ? " above" : "";
      if (found.matches) mark += isMatch(node) ? " match" : " pale";
      else if (state.category >= 0 && data.category[node] !== state.category) mark += " pale";
      g.setAttribute("class", `f${mark}`);
    }
  }

  function writeTexts() {
    const view = state.zoom;
    const whole = weight[view];
    resetButton.disabled = view === 0;
    const shares = new Float64Array(keys.length);
    for (let i = view; i < end[view]; i++) shares[data.category[i]] += own[i];
    keysOf.textContent = two ? "frames:" : view ? "share of view:" : "share of all:";
    keys.forEach(({ key, share }, index) => {
      const figure = data.categories[index][2];
      share.textContent = two ? figure : view ? percent(shares[index], whole) : `${figure} %`;
      build(key, { "aria-pressed": state.category === index });
    });
    zoomed.replaceChildren();
    if (view) {
      const us = usOf(whole) && `, ${usOf(whole)}`;
      const told = two?.lineOf(view) ?? `${percent(whole, weight[0])} of all${us}`;
      zoomed.append("view: ", html("b", {}, nameOf(view).slice(0, 300)), `, ${told}`);
    }
    const nodes = end[view] - view + data.depth[view];
    const of = view ? " of the view" : "";
    drawn.textContent = boxes.length === nodes
      ? `All ${group(nodes)} frames${of} are drawn.`
      : `${group(boxes.length)} of ${group(nodes)} frames${of} are drawn. Those narrower than `
        + `${data.minWidth} px are not: they hold ${percent(leftOut, whole)}${of || " of the weight"}, `
        + "which stays in every total.";
    showSearch(state, found.problem);
    foundText.textContent = two && hits ? two.matched(hits, parent)
      : ioflameCore.foundText(found, matchedWeight(view), matchedWeight(0), whole, weight[0], usOf);
  }

  function matchedWeight(view) {
    let sum = 0;
    for (let i = view; hits && i < end[view]; i++) if (hits[i]) sum += own[i];
    return sum;
  }

  // The heading stays in sight while a tall graph scrolls, unless it would fill the window itself.
  function pinHead() {
    const tall = head.getBoundingClientRect().height > 0.45 * window.innerHeight;
    headBox.setAttribute("y", tall ? 0 : Math.max(0, window.scrollY));
  }

  // ---- tooltip -----------------------------------------------------------------------------------------------
  function describe(i) {
    if (two) return two.rowsOf(i);
    const all = `${percent(weight[i], weight[0])} of all`;
    const inView = state.zoom && i >= state.zoom && i < end[state.zoom];
    const self = `${percent(Math.max(0, own[i]), weight[0])} of all (${exact(exactOwn(i))})`;
    const rows = [
      ["weight", `${ioflameCore.scaled(weight[i], data.unit)} (${exact(data.weight[i])})`],
      ["self", end[i] === i + 1 ? "all of it" : self],
      ["share", inView ? `${percent(weight[i], weight[state.zoom])} of view, ${all}` : all],
    ];
    if (cost !== null) rows.push(["cost", usOf(weight[i])]);
    if (data.samples) rows.push(["n", `${group(data.samples[i])} samples`]);
    return rows;
  }

  function showTip(i, x, y) {
    const [category, label] = data.categories[data.category[i]];
    card.replaceChildren(
      html("div", { class: "name" }, ioflameCore.shownName(nameOf(i))),
      html(
        "div", { class: "cat" }, html("i", { class: `swatch c${data.category[i]}` }),
        label ? `${category}: ${label}` : category,
      ),
      html("dl", {}, ...describe(i).flatMap(([key, text]) => [html("dt", {}, key), html("dd", {}, text)])),
    );
    const [left, top] = [window.scrollX, window.scrollY];
    const [right, bottom] = [left + svg.getBoundingClientRect().width, top + window.innerHeight];
    tip.style.display = "";
    build(tip, { width: Math.min(560, right - left - 16), height: 1 });
    const size = card.getBoundingClientRect();
    const [above, below] = [y - size.height - 12, Math.max(top + 4, Math.min(y + 18, bottom - size.height - 4))];
    build(tip, {
      x: Math.max(left + 8, Math.min(x + 14, right - size.width - 8)), height: Math.ceil(size.height) + 2,
      y: y + 18 + size.height > bottom && above >= top ? above : below,
    });
  }
  const hideTip = () => { tip.style.display = "none"; };

  // ---- changing the state ------------------------------------------------------------------------------------
  function change(wanted, remember = true) {
    const zoomChanged = wanted.zoom !== undefined && wanted.zoom !== state.zoom;
    Object.assign(state, wanted);
    found = ioflameCore.compile(data.names, state);
    hits = found.matches && ioflameCore.matchingNodes(tree, isMatch);
    const hadFocus = frames.contains(document.activeElement);
    if (zoomChanged) {
      state.focus = state.zoom;
      hideTip();
    }
    const room = head.offsetHeight;
    if (!zoomChanged && pool.length) writeTexts();
    if (zoomChanged || !pool.length || head.offsetHeight !== room) {
      const before = floor;
      draw();
      if (before && floor !== before) window.scrollBy(0, floor - before); // what was clicked stays where it was
    } else paint();
    if (hadFocus) shownAt.get(state.focus)?.focus({ preventScroll: true });
    if (remember) writeHash(zoomChanged);
  }

  function writeHash(step) {
    const parts = new URLSearchParams();
    if (state.zoom) parts.set("zoom", state.zoom);
    if (state.search) parts.set("search", state.search);
    if (state.matchCase) parts.set("case", "1");
    if (state.category >= 0) parts.set("category", data.categories[state.category][0]);
    ioflameCore.remember(parts, step);
  }

  function readHash() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const zoom = Number(parts.get("zoom") ?? 0);
    change({
      zoom: Number.isInteger(zoom) && zoom >= 0 && zoom < count ? zoom : 0,
      search: parts.get("search") ?? "",
      matchCase: parts.get("case") === "1",
      category: data.categories.findIndex(([name]) => name === parts.get("category")),
    }, false);
  }

  // ---- events ------------------------------------------------------------------------------------------------
  const groupOf = (event) => event.target.closest?.("g.f");

  frames.addEventListener("mousemove", (event) => {
    const g = groupOf(event);
    if (g) showTip(g.box.node, event.pageX, event.pageY);
  });
  frames.addEventListener("mouseleave", hideTip);
  frames.addEventListener("click", (event) => {
    const g = groupOf(event);
    if (g) change({ zoom: g.box.node });
  });
  // On the window: an element of SVG that listens for focus can take it.
  window.addEventListener("focusin", (event) => {
    const g = groupOf(event);
    if (!g || !g.matches(":focus-visible")) return;
    shownAt.get(state.focus)?.setAttribute("tabindex", "-1");
    state.focus = g.box.node;
    g.setAttribute("tabindex", "0");
    const box = g.getBoundingClientRect();
    showTip(state.focus, box.left + window.scrollX, box.bottom + window.scrollY - 14);
  });
  window.addEventListener("focusout", hideTip);

  function neighbour(key) {
    const here = state.focus;
    const level = boxes.filter((box) => data.depth[box.node] === data.depth[here]);
    const place = level.findIndex((box) => box.node === here);
    if (key === "ArrowUp") return heaviest(boxes.filter((box) => parent[box.node] === here));
    if (key === "ArrowDown") return shownAt.get(parent[here])?.box;
    return level[place + (key === "ArrowRight" ? 1 : -1)];
  }
  frames.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      change({ zoom: state.focus });
    } else if (event.key.startsWith("Arrow") && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      const box = neighbour(event.key);
      if (box) shownAt.get(box.node).focus();
    }
  });

  resetButton.addEventListener("click", () => change({ zoom: 0 }));
  window.addEventListener("keydown", (event) => {
    const typing = document.activeElement === input;
    const find = event.key === "f" && (event.ctrlKey || event.metaKey);
    if (find || event.key === "F3" || (event.key === "/" && !typing)) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (typing) {
        input.blur();
        change({ search: "" });
      } else if (state.zoom) change({ zoom: 0 });
      else change({ search: "", category: -1 });
    } else if (event.key === "Enter" && typing) {
      const match = found.matches && heaviest(boxes.filter((box) => isMatch(box.node) && !box.above));
      shownAt.get(match ? match.node : state.zoom)?.focus();
    }
  });
  window.addEventListener("resize", () => { hideTip(); draw(); });
  window.addEventListener("scroll", () => { hideTip(); pinHead(); });
  window.addEventListener("popstate", readHash);
  window.addEventListener("hashchange", readHash);

  readHash();
  if (height > window.innerHeight) window.scrollTo(0, height); // the root is at the bottom
})();

"use strict";
// Draws the flame graph again from the data in the file, at the width of the window, and lets it be explored.
// Every share is computed from the data: a frame too narrow to draw counts as much as one that is drawn.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const XHTML = "http://www.w3.org/1999/xhtml";
  const svg = document.currentScript?.closest("svg") ?? document.documentElement;
  const { data, count, weight, own, parent, end, deepest, nameOf, usOf, percent, exact, exactOwn, scaled, compile, matchedWeight }
    = ioflameProfile(svg);

  // ---- state -------------------------------------------------------------------------------------------------
  const state = { zoom: 0, search: "", matchCase: false, category: -1, focus: 0 };
  let matches = null; // by name: 1 where it matches; null without a valid search
  let problem = ""; // why the search is none
  const isMatch = (i) => i > 0 && matches[data.name[i]] === 1;

  // ---- elements ----------------------------------------------------------------------------------------------
  function html(tag, attributes = {}, ...children) {
    const element = document.createElementNS(XHTML, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  function panel(className, content) {
    const holder = document.createElementNS(SVG, "foreignObject");
    holder.setAttribute("class", className);
    holder.append(content);
    svg.append(holder);
    return holder;
  }

  const frames = svg.querySelector(".frames");
  frames.replaceChildren();
  frames.setAttribute("role", "tree");
  frames.setAttribute("aria-label", `flame graph of ${data.title}`);
  svg.classList.add("live");
  svg.removeAttribute("viewBox");
  svg.setAttribute("width", "100%");

  const input = html("input", {
    type: "search", placeholder: "Search frames (regex) \u00b7 Ctrl-F", "aria-label": "search frames by regular expression",
    spellcheck: "false", autocomplete: "off",
  });
  const caseButton = html("button", { type: "button", class: "case", title: "match upper and lower case", "aria-pressed": "false" }, "Aa");
  const resetButton = html("button", { type: "button", class: "reset", title: "show the whole profile again (Esc)" }, "Reset zoom");
  const zoomed = html("span", { class: "zoomed" });
  const found = html("span", {
    class: "found", role: "status", title: "weight of the stacks that hold a matching frame; a stack with several counts once",
  });
  const keysOf = html("span", { class: "of" });
  const keys = data.categories.map(([name, label], index) => {
    const share = html("span", { class: "share" });
    const button = html(
      "button", { type: "button", title: `${label || name}\nclick: show only these frames in colour`, "aria-pressed": "false" },
      html("i", { class: `swatch c${index}` }), name, share,
    );
    button.addEventListener("click", () => change({ category: state.category === index ? -1 : index }));
    return { button, share };
  });
  const head = html(
    "div", { class: "ui head" },
    html("div", { class: "bar" }, html("h1", {}, data.title), html("div", { class: "tools", role: "search" }, input, caseButton, resetButton)),
    ...(data.subtitle ? [html("p", { class: "sub" }, data.subtitle)] : []),
    ...data.warnings.map((text) => html("p", { class: "warning" }, text)),
    html("div", { class: "legend" }, keysOf, ...keys.map((key) => key.button)),
    html("div", { class: "status" }, zoomed, found),
  );
  const drawn = html("p", { class: "drawn" });
  const foot = html(
    "div", { class: "ui foot" }, drawn,
    html("p", {}, "click or Enter: zoom \u00b7 Esc: reset \u00b7 arrows: walk \u00b7 Ctrl-F, F3 or /: search \u00b7 click a category: pick it out"),
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

  const pen = html("canvas").getContext("2d");
  pen.font = '11px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace';
  const charWidth = pen.measureText("M".repeat(50)).width / 50;
  const textWidth = (text) => (/^[\x20-\x7e]*$/.test(text) ? text.length * charWidth : pen.measureText(text).width);

  // The longest form of the name that fits: whole, without its namespaces, or with the rest of its last part cut.
  function labelOf(i, room) {
    if (room < 3 * charWidth) return "";
    const name = nameOf(i);
    const forms = [0, ...data.forms[data.name[i]]];
    for (const start of forms) {
      if ((name.length - start) * charWidth < 4 * room && textWidth(name.slice(start)) <= room) return name.slice(start);
    }
    let last = Array.from(name.slice(forms[forms.length - 1]).slice(0, Math.ceil(room)));
    last = last.slice(0, Math.ceil(room / charWidth) + 1);
    while (last.length && textWidth(`${last.join("")}\u2026`) > room) last.pop();
    return last.length ? `${last.join("")}\u2026` : "";
  }

  function layout(width) {
    const view = state.zoom;
    const scale = width / weight[view];
    const list = [];
    for (let i = parent[view]; i >= 0; i = parent[i]) list.push({ node: i, x: 0, width, above: true });
    const begin = new Float64Array(deepest + 2); // by depth: the weight left of the next box
    leftOut = 0;
    for (let i = view; i < end[view]; ) {
      const depth = data.depth[i];
      const start = begin[depth];
      begin[depth] += weight[i];
      if (i !== view && weight[i] * scale < data.minWidth) {
        leftOut += weight[i];
        i = end[i];
        continue;
      }
      begin[depth + 1] = start;
      list.push({ node: i, x: start * scale, width: weight[i] * scale, above: false });
      i++;
    }
    return list;
  }

  function group(index) {
    if (!pool[index]) {
      const g = document.createElementNS(SVG, "g");
      g.rect = g.appendChild(document.createElementNS(SVG, "rect"));
      g.label = g.appendChild(document.createElementNS(SVG, "text"));
      g.rect.setAttribute("height", data.row - 1);
      g.setAttribute("role", "treeitem");
      pool[index] = g;
    }
    return pool[index];
  }

  let rowsOfAll = 0;
  function draw() {
    const width = Math.max(300, svg.getBoundingClientRect().width);
    boxes = layout(width - 2 * data.margin);
    const rows = 1 + boxes.reduce((most, box) => Math.max(most, data.depth[box.node]), 0);
    if (!state.zoom) rowsOfAll = rows;
    writeTexts();
    headBox.setAttribute("width", width);
    footBox.setAttribute("width", width);
    const top = Math.ceil(head.getBoundingClientRect().height) + 2;
    headBox.setAttribute("height", top);
    floor = top + Math.max(rows, rowsOfAll) * data.row;

    shownAt = new Map();
    const tabStop = boxes.some((box) => box.node === state.focus) ? state.focus : state.zoom;
    boxes.forEach((box, index) => {
      const g = group(index);
      const x = data.margin + box.x;
      const y = floor - (data.depth[box.node] + 1) * data.row;
      g.box = box;
      g.rect.setAttribute("x", x);
      g.rect.setAttribute("y", y);
      g.rect.setAttribute("width", box.width - (box.width > 2 ? 0.6 : 0));
      g.rect.setAttribute("class", `c${data.category[box.node]}`);
      g.label.setAttribute("x", x + 3);
      g.label.setAttribute("y", y + 12);
      const text = labelOf(box.node, box.width - 6);
      if (g.label.textContent !== text) g.label.textContent = text;
      g.setAttribute("aria-label", `${nameOf(box.node)}, ${percent(weight[box.node], weight[0])} of all`);
      g.setAttribute("aria-level", data.depth[box.node] + 1);
      g.setAttribute("tabindex", box.node === tabStop ? "0" : "-1");
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
      if (matches) mark += isMatch(node) ? " match" : " pale";
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
    keysOf.textContent = view ? "share of view:" : "share of all:";
    keys.forEach(({ button, share }, index) => {
      share.textContent = view ? percent(shares[index], whole) : `${data.categories[index][2]} %`;
      button.setAttribute("aria-pressed", String(state.category === index));
    });
    zoomed.replaceChildren();
    if (view) {
      const us = data.usPerQuery === null ? "" : `, ${usOf(whole / weight[0])}`;
      zoomed.append("view: ", html("b", {}, nameOf(view).slice(0, 300)), `, ${percent(whole, weight[0])} of all${us}`);
    }
    const least = `Those narrower than ${data.minWidth} px are not`;
    const nodes = end[view] - view + data.depth[view];
    const place = view ? "of the view" : "of the weight";
    drawn.textContent = boxes.length === nodes
      ? `All ${nodes.toLocaleString("en-US")} frames${view ? " of the view" : ""} are drawn.`
      : `${boxes.length.toLocaleString("en-US")} of ${nodes.toLocaleString("en-US")} frames${view ? " of the view" : ""} are drawn. `
        + `${least}: they hold ${percent(leftOut, whole)} ${place}, which stays in every total.`;
    writeFound();
  }

  function writeFound() {
    const view = state.zoom;
    found.replaceChildren();
    input.setAttribute("aria-invalid", String(problem !== ""));
    if (problem) {
      found.append(problem);
    } else if (matches) {
      const all = matchedWeight(0, matches);
      const here = matchedWeight(view, matches);
      if (!all) return void found.append("no frame matches");
      found.append("matched ", html("b", {}, `${view ? `${percent(here, weight[view])} of view, ` : ""}${percent(here, weight[0])} of all`));
      if (data.usPerQuery !== null) found.append(` (${usOf(here / weight[0])}${view ? " in view" : ""})`);
      if (view) found.append(`; ${percent(all, weight[0])} in the whole profile`);
    }
  }

  // The heading stays in sight while a tall graph scrolls, unless it would fill the window itself.
  function pinHead() {
    const tall = head.getBoundingClientRect().height > 0.45 * window.innerHeight;
    headBox.setAttribute("y", tall ? 0 : Math.max(0, window.scrollY));
  }

  // ---- tooltip -----------------------------------------------------------------------------------------------
  function describe(i) {
    const rows = [["weight", `${scaled(weight[i])} (${exact(data.weight[i])})`]];
    rows.push(["self", end[i] === i + 1 ? "all of it" : `${percent(Math.max(0, own[i]), weight[0])} of all (${exact(exactOwn(i))})`]);
    const share = `${percent(weight[i], weight[0])} of all`;
    const inView = i >= state.zoom && i < end[state.zoom];
    rows.push(["share", state.zoom && inView ? `${percent(weight[i], weight[state.zoom])} of view, ${share}` : share]);
    if (data.usPerQuery !== null) rows.push(["cost", usOf(weight[i] / weight[0])]);
    if (data.samples) rows.push(["n", `${data.samples[i].toLocaleString("en-US")} samples`]);
    return rows;
  }

  function showTip(i, x, y) {
    const name = nameOf(i);
    const [category, label] = data.categories[data.category[i]];
    card.replaceChildren(
      html("div", { class: "name" }, name.length > 700 ? `${name.slice(0, 700)}\u2026 (${name.length} characters)` : name),
      html("div", { class: "cat" }, html("i", { class: `swatch c${data.category[i]}` }), label ? `${category}: ${label}` : category),
      html("dl", {}, ...describe(i).flatMap(([key, text]) => [html("dt", {}, key), html("dd", {}, text)])),
    );
    const [left, top] = [window.scrollX, window.scrollY];
    const [right, bottom] = [left + svg.getBoundingClientRect().width, top + window.innerHeight];
    tip.style.display = "";
    tip.setAttribute("width", Math.min(560, right - left - 16));
    tip.setAttribute("height", 1);
    const size = card.getBoundingClientRect();
    tip.setAttribute("height", Math.ceil(size.height) + 2);
    const above = y - size.height - 12;
    tip.setAttribute("x", Math.max(left + 8, Math.min(x + 14, right - size.width - 8)));
    tip.setAttribute("y", y + 18 + size.height > bottom && above >= top ? above : Math.max(top + 4, Math.min(y + 18, bottom - size.height - 4)));
  }
  const hideTip = () => { tip.style.display = "none"; };

  // ---- changing the state ------------------------------------------------------------------------------------
  function change(wanted, remember = true) {
    const zoomChanged = wanted.zoom !== undefined && wanted.zoom !== state.zoom;
    Object.assign(state, wanted);
    caseButton.setAttribute("aria-pressed", String(state.matchCase));
    ({ matches, problem } = compile(state.search, state.matchCase));
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
    try {
      // A zoom is a step that the Back button takes back; letters of a search are not.
      history[step ? "pushState" : "replaceState"](null, "", `#${parts}`);
    } catch {
      // a page that may not change its address still works, and forgets
    }
  }

  function readHash() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const zoom = Number(parts.get("zoom") ?? 0);
    input.value = parts.get("search") ?? "";
    change({
      zoom: Number.isInteger(zoom) && zoom >= 0 && zoom < count ? zoom : 0,
      search: input.value,
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

  const heaviest = (list) => list.reduce((best, box) => (!best || box.width > best.width ? box : best), null);
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

  input.addEventListener("input", () => change({ search: input.value }));
  caseButton.addEventListener("click", () => change({ matchCase: !state.matchCase }));
  resetButton.addEventListener("click", () => change({ zoom: 0 }));
  window.addEventListener("keydown", (event) => {
    const typing = document.activeElement === input;
    if (event.key === "F3" || (event.key === "f" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (typing) {
        input.value = "";
        input.blur();
        change({ search: "" });
      } else if (state.zoom) change({ zoom: 0 });
      else {
        input.value = "";
        change({ search: "", category: -1 });
      }
    } else if (event.key === "Enter" && typing) {
      const found = matches ? heaviest(boxes.filter((box) => isMatch(box.node) && !box.above)) : null;
      shownAt.get(found ? found.node : state.zoom)?.focus();
    }
  });
  window.addEventListener("resize", () => { hideTip(); draw(); });
  window.addEventListener("scroll", () => { hideTip(); pinHead(); });
  window.addEventListener("popstate", readHash);
  window.addEventListener("hashchange", readHash);

  readHash();
  if (height > window.innerHeight) window.scrollTo(0, height); // the root is at the bottom
})();

"use strict";
// The flame graph under the SVG file and the report page: the shape of a tree, which frames are drawn, what of a name
// fits, the search and what it found, figures as text, and the address. It knows no element but the search's own.
const ioflameCore = (() => {
  const FONT = '11px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace';

  // `element` with these attributes and children.
  function build(element, attributes = {}, ...children) {
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  // ---- figures -------------------------------------------------------------------------------------------------
  const group = (value) => value.toLocaleString("en-US");
  const percent = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(2)} %`;
  // us per query of a part of all weight, "" where queries were not counted.
  const perQuery = (usPerQuery, part, whole) => (usPerQuery === null ? "" : ((usPerQuery * part) / whole).toFixed(3));
  function scaled(value, unit) {
    const time = unit === "ns";
    const steps = time ? [[1e9, "s"], [1e6, "ms"], [1e3, "us"]] : [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    const [factor, word] = steps.find(([least]) => value >= least) ?? [];
    return factor ? `${(value / factor).toFixed(3)} ${word}${time ? "" : ` ${unit}`}` : `${value} ${unit}`;
  }
  const shownName = (name) => (name.length > 700 ? `${name.slice(0, 700)}\u2026 (${name.length} characters)` : name);
  const heaviest = (boxes) => boxes.reduce((best, box) => (!best || box.width > best.width ? box : best), null);

  // ---- the tree ------------------------------------------------------------------------------------------------
  // Of nodes in depth-first order: the node above each, and the end of those below it (i + 1 .. end[i] - 1).
  function family(depth) {
    const parent = new Int32Array(depth.length).fill(-1);
    const end = new Int32Array(depth.length).fill(depth.length);
    const path = [];
    for (let i = 0; i < depth.length; i++) {
      while (path.length > depth[i]) end[path.pop()] = i;
      if (depth[i]) parent[i] = path[depth[i] - 1];
      path.push(i);
    }
    return { parent, end };
  }

  // The frames of `zoom` and below it that are at least `least` px wide, depth-first, after those above it, which all
  // are as wide as the drawing; and the weight in those that are left out. tree: { weight, depth, parent, end }
  function layout(tree, zoom, width, least) {
    const boxes = [];
    for (let i = tree.parent[zoom]; i >= 0; i = tree.parent[i]) boxes.push({ node: i, x: 0, width, above: true });
    const scale = width / (tree.weight[zoom] || 1);
    const begin = []; // by depth: the weight left of the next box
    let leftOut = 0;
    for (let i = zoom; i < tree.end[zoom]; ) {
      const depth = tree.depth[i];
      const start = begin[depth] ?? 0;
      begin[depth] = start + tree.weight[i];
      if (i !== zoom && tree.weight[i] * scale < least) {
        leftOut += tree.weight[i];
        i = tree.end[i];
        continue;
      }
      begin[depth + 1] = start;
      boxes.push({ node: i, x: start * scale, width: tree.weight[i] * scale, above: false });
      i++;
    }
    return { boxes, leftOut };
  }

  // ---- labels --------------------------------------------------------------------------------------------------
  // Gives the longest form of a name that fits into `room` px: whole, without its namespaces, or with the rest of its
  // last part cut. forms: where the shorter forms begin (flame/layout.py)
  function labels(pen) {
    pen.font = FONT;
    const char = pen.measureText("M".repeat(50)).width / 50;
    const widthOf = (text) => (/^[\x20-\x7e]*$/.test(text) ? text.length * char : pen.measureText(text).width);
    return (name, forms, room) => {
      if (room < 3 * char) return "";
      for (const start of [0, ...forms]) {
        if ((name.length - start) * char < 4 * room && widthOf(name.slice(start)) <= room) return name.slice(start);
      }
      const part = name.slice(forms.at(-1) ?? 0).slice(0, Math.ceil(room));
      const last = Array.from(part).slice(0, Math.ceil(room / char) + 1);
      while (last.length && widthOf(`${last.join("")}\u2026`) > room) last.pop();
      return last.length ? `${last.join("")}\u2026` : "";
    };
  }

  // ---- search --------------------------------------------------------------------------------------------------
  const SEARCH_HELP = "A search is text; where no frame has that text, it is read as a regular expression. Both ignore "
    + "case unless Aa is pressed. /regex/ is always a regular expression and minds case, /regex/i ignores it.";

  // Which of `names` match, 1 by 1, null without a search; or why it is no search.
  function compile(names, { search, matchCase }) {
    if (!search) return { matches: null, problem: "" };
    const mark = (matches) => Uint8Array.from(names, (name) => (matches(name) ? 1 : 0));
    const regex = /^\/(.+)\/([a-z]*)$/s.exec(search);
    if (!regex) {
      const cased = (text) => (matchCase ? text : text.toLowerCase());
      const matches = mark((name) => cased(name).includes(cased(search)));
      if (matches.includes(1)) return { matches, problem: "" };
    }
    try {
      const [, source, flags] = regex ?? ["", search, matchCase ? "" : "i"];
      const pattern = new RegExp(source, flags.replace(/[gy]/g, ""));
      return { matches: mark((name) => pattern.test(name)), problem: "" };
    } catch (error) {
      const reason = String(error.message).split(": ").pop(); // after the pattern, which the reader just typed
      return { matches: null, problem: `not a regular expression: ${reason}` };
    }
  }

  // By node: 1 where it or one above it is a match. So a stack with several counts once, by the node that it ends at.
  function matchingNodes(tree, isMatch) {
    const hits = new Uint8Array(tree.depth.length);
    for (let i = 1; i < hits.length; i++) hits[i] = hits[tree.parent[i]] || (isMatch(i) ? 1 : 0);
    return hits;
  }

  // here, everywhere: the weight of the stacks with a match, in the view and in all; costOf: us of a weight, or ""
  function foundText({ matches, problem }, here, everywhere, view, total, costOf) {
    if (!matches) return problem;
    if (!everywhere) return "no frame matches";
    const cost = costOf(here) && `, ${costOf(here)}`;
    const ofAll = `${percent(here, total)} of all${cost}`;
    if (view >= total) return `matched ${ofAll}`;
    return `matched ${percent(here, view)} of view, ${ofAll}; ${percent(everywhere, total)} in the whole profile`;
  }

  // The field and its button for case; `change` gets what the reader asks for, `show` writes the state back.
  function searchBox(input, caseButton, change) {
    let matchCase = false;
    build(input, {
      type: "search", placeholder: "text or regular expression", title: SEARCH_HELP, spellcheck: "false",
      autocomplete: "off", "aria-label": "search frames by text or regular expression",
    });
    caseButton.textContent = "Aa";
    caseButton.title = "match upper and lower case";
    input.addEventListener("input", () => change({ search: input.value }));
    caseButton.addEventListener("click", () => change({ matchCase: !matchCase }));
    return function show(state, problem) {
      matchCase = state.matchCase;
      if (input.value !== state.search) input.value = state.search;
      build(input, { "aria-invalid": problem !== "" });
      build(caseButton, { "aria-pressed": matchCase });
    };
  }

  // ---- the address ---------------------------------------------------------------------------------------------
  // Keeps the state in the address. The Back button takes back a step, such as a zoom; letters of a search are none.
  function remember(parts, step) {
    try {
      history[step ? "pushState" : "replaceState"](null, "", `#${parts}`);
    } catch { /* a page that may not change its address still works, and forgets */ }
  }

  return {
    FONT, SEARCH_HELP, build, group, percent, perQuery, scaled, shownName, heaviest, family, layout, labels, compile,
    matchingNodes, foundText, searchBox, remember,
  };
})();

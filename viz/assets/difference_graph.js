"use strict";
// The frames of two sides as one flame graph: wide is the mean of both costs, and colour has only what the comparison
// found different (ground/results/frame_differences.py). Nothing is worked out here but sums for the toggles.
function ioflameDifferenceGraph(block) {
  const { by, make, placeTip } = ioflameDom;
  const data = JSON.parse(by(block, "script.frames").textContent);
  const [before, after] = data.sides;
  const count = data.depth.length;
  const { parent, end } = ioflameCore.family(data.depth);
  const name = Int32Array.from(data.name, (which, i) => (i ? which : -1));
  const depth = Int32Array.from(data.depth);
  const parts = ["box", "search", "case", "found", "status", "tip", "reset", "save", "live", "drawn"];
  const el = Object.fromEntries(parts.map((key) => [key, by(block, `[data-part="${key}"]`)]));
  const toggles = [...block.querySelectorAll("[data-shows]")];
  const { only, deltaOf, cost, rowsOf, lineOf, own, matched } = ioflameTwoSides(data);
  const of = (i) => (i ? data.names[data.name[i]] : "all");
  let state = { shows: "merged", zoom: 0, search: "", matchCase: false };
  let search = { matches: null, problem: "" };

  // ---- trees -------------------------------------------------------------------------------------------------
  // Frames of one side alone, with those above them: the rest weighs nothing and is not drawn.
  function alone(kind, side) {
    const weight = own(side, parent).map((us, i) => (only(i) === kind ? Math.max(us, 0) : 0));
    for (let i = count - 1; i > 0; i--) weight[parent[i]] += weight[i];
    return weight;
  }
  const weights = {
    merged: () => Float64Array.from(data.us[0], (us, i) => (us + data.us[1][i]) / 2),
    vanished: () => alone("vanished", 0),
    new: () => alone("new", 1),
  };
  const trees = {};
  // As high as its rows, or as other graphs are.
  const ROW = 18;
  el.box.style.height = `min(72vh, ${(1 + data.depth.reduce((most, one) => Math.max(most, one), 0)) * ROW + 2}px)`;
  const treeOf = (shows) => {
    trees[shows] ??= { count, depth, parent, end, name, weight: weights[shows]() };
    return trees[shows];
  };

  // ---- colours -----------------------------------------------------------------------------------------------
  // Grey unless the interval of the difference leaves zero; orange is more and blue is less, told apart by any eye.
  const most = data.different.reduce((found, is, i) => (is && i ? Math.max(found, Math.abs(deltaOf(i))) : found), 0);
  const ENDS = { more: [245, 150, 50], less: [90, 165, 235] };
  const WHOLE = { new: "rgb(230 110 30)", vanished: "rgb(70 140 225)" };
  const GREY = 214; // of light pages: between it and the ends
  function colourOf(tree, i) {
    if (!data.different[i]) return -1;
    if (only(i) !== "both") return WHOLE[only(i)];
    const delta = deltaOf(i);
    const part = 0.35 + 0.65 * Math.sqrt(Math.min(1, Math.abs(delta) / (most || 1)));
    const mix = (channel) => Math.round(GREY + (channel - GREY) * part);
    return `rgb(${ENDS[delta > 0 ? "more" : "less"].map(mix).join(" ")})`;
  }

  // ---- texts -------------------------------------------------------------------------------------------------
  function tell(one, x, y) {
    if (!one) { el.tip.hidden = true; return; }
    el.tip.replaceChildren(
      make("div", { class: "name" }, ioflameCore.shownName(of(one.node))),
      make("dl", {}, ...rowsOf(one.node).flatMap(([key, text]) => [make("dt", {}, key), make("dd", {}, text)])),
    );
    placeTip(el.tip, x, y);
  }
  function write() {
    const tree = treeOf(state.shows);
    const { zoom } = state;
    const without = state.shows === "vanished" ? after.name : before.name;
    const whose = of(zoom).slice(0, 200);
    el.status.textContent = state.shows === "merged" ? `${whose}: ${lineOf(zoom)}`
      : `only what ${without} has not: ${cost(tree.weight[zoom])}${zoom ? ` in ${whose}` : ""}`;
    el.reset.disabled = !zoom;
    for (const button of toggles) button.setAttribute("aria-pressed", String(button.dataset.shows === state.shows));
    showSearch(state, search.problem);
    const hits = search.matches && ioflameCore.matchingNodes(tree, (i) => name[i] >= 0 && search.matches[name[i]]);
    el.found.textContent = search.matches ? matched(hits, parent) : search.problem;
    const drawn = graph.boxes.filter((one) => !one.above).length;
    el.drawn.textContent = `${ioflameCore.group(drawn)} of ${ioflameCore.group(count)} frames are drawn.`;
  }
  const graph = ioflameGraph(el.box, { data }, {
    hover: tell,
    focus(one, x, y) {
      tell(one, x, y);
      el.live.textContent = [of(one.node), ...rowsOf(one.node).map((row) => row.join(" "))].join(", ");
    },
    zoom: (one) => change({ zoom: one.node }),
    sandwich: (one) => change({ zoom: one.node }),
  });
  const showSearch = ioflameCore.searchBox(el.search, el.case, (wanted) => change(wanted));
  function change(wanted) {
    if (wanted.shows && wanted.shows !== state.shows) wanted.zoom ??= 0;
    Object.assign(state, wanted);
    search = ioflameCore.compile(data.names, state);
    graph.show({ parts: [{ tree: treeOf(state.shows), zoom: state.zoom }], up: false, hits: search.matches, colourOf });
    write();
  }
  for (const button of toggles) button.addEventListener("click", () => change({ shows: button.dataset.shows }));
  el.reset.addEventListener("click", () => change({ zoom: 0 }));
  const asText = (one) => [of(one.node), ...rowsOf(one.node).map((row) => row.join(": "))].join("\n");
  el.save.addEventListener("click", () => ioflameSave("difference.svg", graph.toSvg(data.title, asText)));
  block.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    change(state.zoom ? { zoom: 0 } : { search: "" });
    event.preventDefault();
  });
  // A line of the explanation shows its frame.
  for (const button of block.parentElement.querySelectorAll("[data-node]")) {
    button.addEventListener("click", () => {
      change({ shows: "merged", zoom: Number(button.dataset.node) });
      el.box.scrollIntoView({ block: "nearest" });
    });
  }
  change({});
  return { graph, change, data, colourOf, only, treeOf, state: () => state };
}

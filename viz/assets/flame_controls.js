"use strict";
// A flame graph of a run on the page: its state, the views and texts that follow from it, and its controls.
// `block`: its elements, by whose time it shows; `several`: there are other runs beside it.
function ioflameRun(article, block, index, several) {
  const { by, make, placeTip } = ioflameDom;
  const { percent, group, scaled } = ioflameCore;
  const packed = JSON.parse(by(block, "script.profile").textContent);
  const turn = block.dataset.of;
  const kind = packed.kind ?? "category";
  const profile = ioflameUnpack(packed.profile);
  const views = ioflameViews(profile);
  const { data, total } = profile;
  const { unit, usPerQuery, hues } = packed;
  const opens = packed.opens ?? "callees";
  const fresh = () => ({
    view: opens, fn: -1, up: false, zoom: 0, search: "", matchCase: false, owner: -1, leaf: -1, group: -1,
    threads: "name", noKernel: false, colour: "owner",
  });
  let state = fresh();
  let shown = null; // { key, parts, stacks }: what the present trees were made of
  let search = { matches: null, problem: "" }; // by name
  let hitStacks = null;
  // The tables of the run filter its on-CPU graph; each graph has a legend of its own.
  const all = (turn === "cpu" ? article : block).querySelectorAll("[data-owner], [data-leaf], [data-group]");
  const pickers = [...all].filter((one) => (one.closest(".flame") ?? block) === block);
  const colours = ["owner", "group"];

  const el = Object.fromEntries([
    "box", "search", "case", "searchHelp", "found", "status", "drawn", "tip", "legend", "view", "direction", "threads",
    "kernel", "colour", "reset", "live", "functions", "clear", "save",
  ].map((key) => [key, by(block, `[data-part="${key}"]`)]));

  const showSearch = ioflameCore.searchBox(el.search, el.case, (wanted) => change(wanted));
  el.searchHelp.textContent = ioflameCore.SEARCH_HELP;

  // ---- figures -----------------------------------------------------------------------------------------------
  const us = (weight) => (usPerQuery === null ? "" : `${ioflameCore.perQuery(usPerQuery, weight, total)} us per query`);
  const stacksOf = (tree, from, to) => Array.from(tree.order.subarray(from, to));
  const exact = (tree, from, to) => `${group(profile.exactOf(stacksOf(tree, from, to)))} ${unit}`;
  const sumOf = (stacks, figure) => stacks.reduce((sum, s) => sum + figure(s), 0);
  const viewWeight = () => shown.parts[0].tree.weight[shown.parts[0].zoom];

  function rowsOf({ part, node }) {
    const { tree } = part;
    const weight = tree.weight[node];
    const own = sumOf(stacksOf(tree, tree.from[node], tree.ended[node]), (s) => profile.weights[s]);
    const inView = part.sandwich || part.callers || (node >= part.zoom && node < tree.end[part.zoom]);
    const turned = state.view !== "callees" && (part.callers || !part.sandwich);
    const ofView = inView && viewWeight() < total ? `${percent(weight, viewWeight())} of view, ` : "";
    const ofAll = (part) => `${percent(part, total)} of all`;
    const ending = exact(tree, tree.from[node], tree.ended[node]);
    const rows = [
      ["total", `${scaled(weight, unit)} (${exact(tree, tree.from[node], tree.to[node])})`],
      [turned ? "first" : "self", `${ofAll(own)} (${ending})${turned ? ": the outermost frame here" : ""}`],
      ["share", `${ofView}${ofAll(weight)}`],
    ];
    const at = tree.name[node];
    if (at >= 0 && profile.objectOf(at)) rows.unshift(["object", profile.objectOf(at)]);
    if (usPerQuery !== null) rows.push(["cost", us(weight)]);
    if (profile.samplesOf) {
      const n = sumOf(stacksOf(tree, tree.from[node], tree.to[node]), profile.samplesOf);
      rows.push(["n", `${group(n)} ${packed.counted ?? "samples"}`]);
    }
    return rows;
  }
  const categoryOf = (tree, i) => (tree.category[i] < 0 ? null : data.categories[tree.category[i]]);
  const turnedTree = () => state.view !== "callees";

  // ---- tooltip -----------------------------------------------------------------------------------------------
  function showTip(one, x, y) {
    if (!one) { el.tip.hidden = true; return; }
    const name = graph.nameOf(one.part.tree, one.node);
    const owner = categoryOf(one.part.tree, one.node);
    const whose = turnedTree() ? `${kind} of its heaviest stack` : kind;
    el.tip.replaceChildren(
      make("div", { class: "name" }, ioflameCore.shownName(name)),
      ...(owner ? [make("div", { class: "cat" }, `${whose}: ${owner[0]}${owner[1] ? ` (${owner[1]})` : ""}`)] : []),
      make("dl", {}, ...rowsOf(one).flatMap(([key, text]) => [make("dt", {}, key), make("dd", {}, text)])),
    );
    placeTip(el.tip, x, y);
  }

  const graph = ioflameGraph(el.box, profile, {
    hover: showTip,
    focus(one, x, y) {
      showTip(one, x, y);
      const { tree } = one.part;
      const share = `${percent(tree.weight[one.node], total)} of all`;
      el.live.textContent = `${graph.nameOf(tree, one.node)}, ${share}, depth ${tree.depth[one.node]}`;
    },
    zoom(one) {
      const name = one.part.tree.name[one.node];
      if (state.view !== "function") change({ zoom: one.node }, true);
      else if (name >= 0) change({ fn: name }, true);
    },
    sandwich(one) {
      const name = one.part.tree.name[one.node];
      if (name >= 0) change({ view: "function", fn: name, zoom: 0 }, true);
    },
  });

  // ---- state -> picture --------------------------------------------------------------------------------------
  const options = () => ({
    mergeThreads: state.threads === "merged", splitThreads: state.threads === "split", hideKernel: state.noKernel,
  });
  // What the trees depend on.
  const treeKey = () => [
    state.view, state.fn, state.owner, state.leaf, state.group, state.threads, state.noKernel,
  ].join();
  function trees() {
    const key = treeKey();
    if (shown?.key === key) return;
    const stacks = views.select(state);
    let parts;
    if (state.view === "function") {
      const { below, above } = views.around(stacks, state.fn, options());
      parts = [{ tree: below, zoom: 0, sandwich: true }, { tree: above, zoom: 0, callers: true }];
    } else {
      const tree = state.view === "callers" ? views.fromLeaf(stacks, options()) : views.fromRoot(stacks, options());
      parts = [{ tree, zoom: 0 }];
    }
    shown = { key, parts, stacks };
    fillFunctions(stacks, options());
  }
  const colourOf = (tree, i) => {
    if (tree.name[i] < 0) return -1;
    if (state.colour === "owner") return hues[tree.category[i]];
    return groupHue[views.groupOfName[tree.name[i]]];
  };

  function change(wanted, step = false, remember = true) {
    const before = treeKey();
    const searched = state.search + state.matchCase;
    Object.assign(state, wanted);
    if (state.view === "function" && state.fn < 0) state.view = opens;
    const turned = before !== treeKey();
    if (turned && wanted.zoom === undefined) state.zoom = 0;
    trees();
    const [first] = shown.parts;
    if (!(state.zoom >= 0 && state.zoom < first.tree.count) || state.view === "function") state.zoom = 0;
    if (searched !== state.search + state.matchCase || turned || search.matches === null) {
      search = ioflameCore.compile(data.names, state);
      hitStacks = search.matches && views.matchingStacks(search.matches, options());
    }
    if (first.zoom !== state.zoom) shown.parts = [{ ...first, zoom: state.zoom }];
    graph.show({ parts: shown.parts, up: state.up, hits: search.matches, colourOf });
    write();
    if (turned || wanted.zoom !== undefined) showTip(null);
    if (remember) writeHash(step);
  }

  // ---- texts -------------------------------------------------------------------------------------------------
  function write() {
    const [{ tree, zoom }] = shown.parts;
    const whole = tree.weight[zoom];
    const filters = [
      state.owner >= 0 ? `${kind} ${data.categories[state.owner][0]}` : "",
      state.leaf >= 0 ? `leaf ${data.leaves[state.leaf][0]}` : "",
      state.group >= 0 ? `the bottom frame in ${views.groupNames[state.group]}` : "",
    ].filter(Boolean);
    const parts = [];
    if (filters.length) {
      parts.push(`only stacks with ${filters.join(" and ")}: ${percent(tree.weight[0], total)} of all`);
    }
    if (state.view === "function") {
      const name = data.names[state.fn].slice(0, 200);
      parts.push(`function ${name}: ${percent(whole, total)} of all; callers and callees`);
    }
    if (state.view !== "function" && zoom) {
      parts.push(`view: ${graph.nameOf(tree, zoom).slice(0, 200)}, ${percent(whole, total)} of all`);
    }
    if (parts.length && usPerQuery !== null) parts.push(us(whole));
    if (!parts.length) parts.push(`view: the whole profile, ${scaled(total, unit)}`);
    el.status.textContent = parts.join("; ");
    el.reset.disabled = !zoom && state.view !== "function";
    el.clear.hidden = !filters.length;

    showSearch(state, search.problem);
    el.found.textContent = ioflameCore.foundText(
      search, hitStacks && views.matchedWeight(tree, zoom, hitStacks),
      hitStacks && profile.weights.reduce((sum, weight, s) => sum + hitStacks[s] * weight, 0), whole, total, us,
    );
    const nodes = shown.parts.reduce((sum, part) => sum + part.tree.end[part.zoom] - part.zoom, 0);
    const drawn = graph.boxes.filter((one) => !one.above).length;
    const kept = leftOutText(nodes, drawn, whole);
    el.drawn.textContent = kept;

    el.view.value = state.view;
    el.view.querySelector("[value=function]").disabled = state.fn < 0;
    el.direction.value = state.up ? "up" : "down";
    el.threads.value = state.threads;
    el.kernel.checked = !state.noKernel;
    el.colour.value = state.colour;
    for (const button of pickers) {
      const set = ["owner", "leaf", "group"].filter((key) => button.dataset[key] !== undefined);
      button.setAttribute("aria-pressed", String(set.every((key) => Number(button.dataset[key]) === state[key])));
    }
    for (const list of el.legend.querySelectorAll("[data-for]")) list.hidden = list.dataset.for !== state.colour;
    const keys = "Arrows walk, Enter zooms, s shows callers and callees, Escape goes back.";
    by(el.box, "canvas").setAttribute("aria-label", `flame graph, ${el.status.textContent}. ${keys}`);
  }
  function leftOutText(nodes, drawn, whole) {
    if (graph.leftOut <= 0) return `All ${group(drawn)} frames of the view are drawn.`;
    return `${group(drawn)} of ${group(nodes)} frames are drawn. Those narrower than 0.5 px are not: `
      + `they hold ${percent(graph.leftOut, whole)} of the view, which stays in every total.`;
  }

  // ---- legend ------------------------------------------------------------------------------------------------
  const groupWeights = new Float64Array(views.groupNames.length);
  profile.ends.forEach((node, s) => { groupWeights[views.groupOfName[profile.name[node]]] += profile.weights[s]; });
  const groupOrder = [...groupWeights.keys()].sort((a, b) => groupWeights[b] - groupWeights[a]);
  const groupHue = new Int32Array(views.groupNames.length).fill(-1);
  groupOrder.slice(0, 15).forEach((which, place) => {
    groupHue[which] = views.groupNames[which] === "no object" ? -1 : place;
  });
  const groupList = el.legend.querySelector('[data-for="group"]');
  for (const which of groupOrder.slice(0, 15)) {
    if (!groupWeights[which]) continue;
    const swatch = make("i", { class: `swatch ${groupHue[which] < 0 ? "hother" : `h${groupHue[which]}`}` });
    const attributes = { type: "button", "data-group": which, "aria-pressed": "false" };
    const words = `${views.groupNames[which]} ${percent(groupWeights[which], total)}`;
    const button = make("button", { ...attributes, title: "show only stacks that end in it" }, swatch, words);
    groupList.append(button);
    pickers.push(button);
  }

  const fillFunctions = ioflameFunctionTable(el.functions, { profile, views, usPerQuery }, (fn) => {
    change({ view: "function", fn, zoom: 0 }, true);
    by(block, ".graph").scrollIntoView({ block: "nearest" });
  });

  // ---- the address -------------------------------------------------------------------------------------------
  function writeHash(step) {
    const parts = new URLSearchParams();
    if (several) parts.set("run", index);
    if (turn !== by(article, ".flame").dataset.of) parts.set("graph", turn);
    if (state.view !== opens) parts.set("view", state.view);
    if (state.view === "function") {
      parts.set("fn", data.names[state.fn]);
      if (profile.objectOf(state.fn)) parts.set("object", profile.objectOf(state.fn));
    }
    if (state.up) parts.set("dir", "up");
    if (state.zoom) parts.set("zoom", state.zoom);
    if (state.search) parts.set("search", state.search);
    if (state.matchCase) parts.set("case", "1");
    if (state.owner >= 0) parts.set("owner", data.categories[state.owner][0]);
    if (state.leaf >= 0) parts.set("leaf", data.leaves[state.leaf][0]);
    if (state.group >= 0) parts.set("group", views.groupNames[state.group]);
    if (state.threads !== "name") parts.set("threads", state.threads);
    if (state.noKernel) parts.set("kernel", "off");
    if (state.colour !== "owner") parts.set("colour", state.colour);
    ioflameCore.remember(parts, step);
  }
  function readHash(parts) {
    const place = (list, text) => (text === null ? -1 : list.findIndex((one) => one === text));
    const wanted = fresh();
    wanted.view = ["callees", "callers", "function"].includes(parts.get("view")) ? parts.get("view") : opens;
    wanted.fn = profile.placeOf(parts.get("fn"), parts.get("object") ?? "");
    wanted.up = parts.get("dir") === "up";
    wanted.zoom = Number.parseInt(parts.get("zoom") ?? "0", 10) || 0;
    wanted.search = parts.get("search") ?? "";
    wanted.matchCase = parts.get("case") === "1";
    wanted.owner = place(data.categories.map(([name]) => name), parts.get("owner"));
    wanted.leaf = place(data.leaves.map(([name]) => name), parts.get("leaf"));
    wanted.group = place(views.groupNames, parts.get("group"));
    wanted.threads = threadings.includes(parts.get("threads")) ? parts.get("threads") : "name";
    wanted.noKernel = parts.get("kernel") === "off";
    wanted.colour = colours.includes(parts.get("colour")) ? parts.get("colour") : "owner";
    change(wanted, false, false);
  }

  const threadings = ["name", "merged", ...(profile.threadOf ? ["split"] : [])];
  for (const choice of el.threads.options) {
    if (!threadings.includes(choice.value)) choice.hidden = choice.disabled = true;
  }

  // ---- controls ----------------------------------------------------------------------------------------------
  el.search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); graph.enter(); jump(1); }
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      change({ search: "" });
      graph.enter();
    }
  });
  el.view.addEventListener("change", () => change({ view: el.view.value }, true));
  el.direction.addEventListener("change", () => change({ up: el.direction.value === "up" }));
  el.threads.addEventListener("change", () => change({ threads: el.threads.value }, true));
  el.kernel.addEventListener("change", () => change({ noKernel: !el.kernel.checked }, true));
  el.colour.addEventListener("change", () => change({ colour: el.colour.value }));
  el.reset.addEventListener("click", () => {
    change({ zoom: 0, view: state.view === "function" ? opens : state.view }, true);
  });
  el.clear.addEventListener("click", () => change({ owner: -1, leaf: -1, group: -1 }, true));
  el.save.addEventListener("click", () => {
    const described = (one) => [graph.nameOf(one.part.tree, one.node), ...rowsOf(one).map((row) => row.join(": "))];
    const svg = graph.toSvg(`${packed.title}; ${el.status.textContent}`, (one) => described(one).join("\n"));
    ioflameSave(turn === "cpu" ? "flamegraph.svg" : `flamegraph-${turn}.svg`, svg);
  });
  article.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-owner], [data-leaf], [data-group]");
    if (!pickers.includes(button)) return;
    const wanted = { owner: -1, leaf: -1, group: -1 };
    const pressed = button.getAttribute("aria-pressed") === "true";
    for (const key of Object.keys(wanted)) {
      if (!pressed && button.dataset[key] !== undefined) wanted[key] = Number(button.dataset[key]);
    }
    change(wanted, true);
  });
  const jump = (way) => {
    const place = graph.jump(way);
    const name = place && graph.nameOf(graph.focused.part.tree, graph.focused.node);
    el.live.textContent = place ? `match ${place[0]} of ${place[1]} that are drawn: ${name}` : "no drawn frame matches";
  };
  function back() {
    if (state.zoom) change({ zoom: 0 }, true);
    else if (state.view === "function") change({ view: opens }, true);
    else if (state.search) { change({ search: "" }); } else change({ owner: -1, leaf: -1, group: -1 }, true);
  }
  return { article, graph, readHash, jump, back, el, profile, views, writeHash, usPerQuery, name: packed.name };
}

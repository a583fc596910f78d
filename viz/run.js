"use strict";
// One run on the page: its state, the views and texts that follow from it, and the controls that change it.
// `block`: one flame graph of the run, by whose time it shows; `runs`: on-CPU graphs of all runs, the first is the base.
function ioflameRun(article, block, index, runs) {
  const { by, percent, group, make } = ioflameTools;
  const packed = JSON.parse(by(block, "script.profile").textContent);
  const turn = block.dataset.of;
  const kind = packed.kind ?? "owner";
  const profile = ioflameUnpack(packed.profile);
  const views = ioflameViews(profile);
  const { data, total } = profile;
  const { unit, usPerQuery, hues } = packed;
  const opens = packed.opens ?? "callees";
  const fresh = () => ({
    view: opens, fn: -1, up: false, zoom: 0, search: "", owner: -1, leaf: -1, group: -1, threads: "name", noKernel: false, colour: "owner",
  });
  let state = fresh();
  let shown = null; // { key, parts, stacks }: what the present trees were made of
  let hits = null;
  let hitStacks = null;
  let problem = "";
  const base = index > 0 && packed.comparable ? runs[0] : null;
  // The tables of the run filter its on-CPU graph; each graph has a legend of its own.
  const pickers = [...(turn === "cpu" ? article : block).querySelectorAll("[data-owner], [data-leaf], [data-group]")].filter((one) => (one.closest(".flame") ?? block) === block);
  const byDifference = ["share", "cost"];
  const colours = ["owner", "group", ...(base ? ["share"] : []), ...(base && usPerQuery !== null && base.usPerQuery !== null ? ["cost"] : [])];

  const el = Object.fromEntries([
    "box", "search", "found", "status", "drawn", "tip", "legend", "view", "direction", "threads", "kernel", "colour", "reset", "live", "functions", "clear", "save",
  ].map((key) => [key, by(block, `[data-part="${key}"]`)]));

  // ---- figures -----------------------------------------------------------------------------------------------
  const us = (weight) => (usPerQuery === null ? "" : `${((usPerQuery * weight) / total).toFixed(3)} us per query`);
  const stacksOf = (tree, from, to) => Array.from(tree.order.subarray(from, to));
  const exact = (tree, from, to) => `${group(profile.exactOf(stacksOf(tree, from, to)))} ${unit}`;
  const samples = (tree, i) => stacksOf(tree, tree.from[i], tree.to[i]).reduce((sum, s) => sum + profile.samplesOf(s), 0);
  function scaled(value) {
    const time = unit === "ns";
    const steps = time ? [[1e9, "s"], [1e6, "ms"], [1e3, "us"]] : [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    for (const [factor, word] of steps) if (value >= factor) return `${(value / factor).toFixed(3)} ${word}${time ? "" : ` ${unit}`}`;
    return `${value} ${unit}`;
  }
  const viewWeight = () => shown.parts[0].tree.weight[shown.parts[0].zoom];

  function rowsOf({ part, node }) {
    const { tree } = part;
    const weight = tree.weight[node];
    const own = stacksOf(tree, tree.from[node], tree.ended[node]).reduce((sum, s) => sum + profile.weights[s], 0);
    const inView = part.sandwich || part.callers || (node >= part.zoom && node < tree.end[part.zoom]);
    const turned = state.view !== "callees" && (part.callers || !part.sandwich);
    const rows = [
      ["total", `${scaled(weight)} (${exact(tree, tree.from[node], tree.to[node])})`],
      [turned ? "first" : "self", `${percent(own, total)} of all (${exact(tree, tree.from[node], tree.ended[node])})${turned ? ": the outermost frame here" : ""}`],
      ["share", `${inView && viewWeight() < total ? `${percent(weight, viewWeight())} of view, ` : ""}${percent(weight, total)} of all`],
    ];
    const at = tree.name[node];
    if (at >= 0 && profile.objectOf(at)) rows.unshift(["object", profile.objectOf(at)]);
    if (usPerQuery !== null) rows.push(["cost", us(weight)]);
    if (base && state.threads !== "split") rows.push(["base", againstBase(tree, node)]);
    if (profile.samplesOf) {
      const n = samples(tree, node);
      rows.push(["n", `${group(n)} ${packed.counted ?? "samples"}`]);
    }
    return rows;
  }
  // ---- against the base --------------------------------------------------------------------------------------
  // By part of the view: what each node weighs in the base, and how far the two are apart at most.
  const differences = new Map();
  function differenceOf(tree) {
    const key = `${shown.key}:${shown.parts.findIndex((part) => part.tree === tree)}`;
    if (differences.has(key)) return differences.get(key);
    const named = (list, at, theirs) => {
      if (at < 0) return -1;
      const place = theirs.indexOf(list[at]);
      return place < 0 ? Infinity : place; // what the base has not, no stack of it passes
    };
    const first = (pairs) => pairs.map(([name]) => name);
    const filter = {
      owner: named(first(data.categories), state.owner, first(base.profile.data.categories)),
      leaf: named(first(data.leaves), state.leaf, first(base.profile.data.leaves)),
      group: named(views.groupNames, state.group, base.views.groupNames),
    };
    const stacks = base.views.select(filter);
    let twin;
    if (state.view === "function") {
      const both = base.views.around(stacks, namePlace(base.profile, data.names[state.fn], profile.objectOf(state.fn)), options());
      twin = shown.parts[0].tree === tree ? both.below : both.above;
    } else twin = state.view === "callers" ? base.views.fromLeaf(stacks, options()) : base.views.fromRoot(stacks, options());
    const found = ioflameDifference(profile, tree, base.profile, twin, state.view === "callees");
    found.most = { share: 0, cost: 0 };
    for (const kind of Object.keys(found.most)) {
      for (let i = 1; i < tree.count; i++) found.most[kind] = Math.max(found.most[kind], Math.abs(apart(tree, i, found, kind)));
    }
    differences.clear(); // of the present view alone
    differences.set(key, found);
    return found;
  }
  function apart(tree, i, found, kind) {
    const [now, then] = [tree.weight[i] / total, found.weights[i] / base.profile.total];
    return kind === "cost" ? now * usPerQuery - then * base.usPerQuery : 100 * (now - then);
  }
  const signed = (value, digits) => `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toFixed(digits)}`;
  function againstBase(tree, i) {
    const found = differenceOf(tree);
    const share = found.weights[i] / base.profile.total;
    if (!share) return "not in the base";
    const cost = colours.includes("cost") ? `; ${(share * base.usPerQuery).toFixed(3)} us, now ${signed(apart(tree, i, found, "cost"), 3)}` : "";
    return `${(100 * share).toFixed(2)} % of all, now ${signed(apart(tree, i, found, "share"), 2)} points${cost}`;
  }
  // From the grey of `other` to orange for more and blue for less: told apart by any eye, under black text.
  function shade(tree, i) {
    const found = differenceOf(tree);
    const value = apart(tree, i, found, state.colour);
    const part = found.most[state.colour] ? Math.sqrt(Math.abs(value) / found.most[state.colour]) : 0;
    const mix = (from, to) => Math.round(from + (to - from) * part);
    const grey = 214;
    const end = value > 0 ? [245, 150, 50] : [90, 165, 235];
    return `rgb(${end.map((channel) => mix(grey, channel)).join(" ")})`;
  }
  function differenceText() {
    const [{ tree }] = shown.parts;
    const found = differenceOf(tree);
    const unitOf = state.colour === "cost" ? "us per query" : "points of share";
    return `Against ${base.name}, in ${unitOf}: orange is more, blue is less, grey is the same; the strongest is ${found.most[state.colour].toFixed(state.colour === "cost" ? 3 : 2)}. `
      + `${percent(found.gone, base.profile.total)} of the base is in frames that are not here, ${percent(found.fresh, total)} of this run in frames that the base has not.`;
  }

  const categoryOf = (tree, i) => (tree.category[i] < 0 ? null : data.categories[tree.category[i]]);
  const turnedTree = () => state.view !== "callees";

  // ---- tooltip -----------------------------------------------------------------------------------------------
  function showTip(one, x, y) {
    if (!one) { el.tip.hidden = true; return; }
    const name = graph.nameOf(one.part.tree, one.node);
    const owner = categoryOf(one.part.tree, one.node);
    el.tip.replaceChildren(
      make("div", { class: "name" }, name.length > 700 ? `${name.slice(0, 700)}\u2026 (${name.length} characters)` : name),
      ...(owner ? [make("div", { class: "cat" }, `${turnedTree() ? `${kind} of its heaviest stack: ` : `${kind}: `}${owner[0]}${owner[1] ? ` (${owner[1]})` : ""}`)] : []),
      make("dl", {}, ...rowsOf(one).flatMap(([key, text]) => [make("dt", {}, key), make("dd", {}, text)])),
    );
    el.tip.hidden = false;
    const size = el.tip.getBoundingClientRect();
    el.tip.style.left = `${Math.max(4, Math.min(x + 14, document.documentElement.clientWidth - size.width - 6))}px`;
    el.tip.style.top = `${y + 18 + size.height > innerHeight ? Math.max(4, y - size.height - 10) : y + 18}px`;
  }

  const graph = ioflameGraph(el.box, profile, {
    hover: showTip,
    focus(one, x, y) {
      showTip(one, x, y);
      el.live.textContent = `${graph.nameOf(one.part.tree, one.node)}, ${percent(one.part.tree.weight[one.node], total)} of all, depth ${one.part.tree.depth[one.node]}`;
    },
    zoom(one) {
      const name = one.part.tree.name[one.node];
      if (state.view === "function") { if (name >= 0) change({ fn: name }, true); } else change({ zoom: one.node }, true);
    },
    sandwich(one) {
      const name = one.part.tree.name[one.node];
      if (name >= 0) change({ view: "function", fn: name, zoom: 0 }, true);
    },
  });

  // ---- state -> picture --------------------------------------------------------------------------------------
  const options = () => ({ mergeThreads: state.threads === "merged", splitThreads: state.threads === "split", hideKernel: state.noKernel });
  function trees() {
    const key = [state.view, state.fn, state.owner, state.leaf, state.group, state.threads, state.noKernel].join();
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
    fillFunctions();
  }
  const colourOf = (tree, i) => {
    if (tree.name[i] < 0) return -1;
    if (byDifference.includes(state.colour)) return shade(tree, i);
    if (state.colour === "owner") return hues[tree.category[i]];
    return groupHue[views.groupOfName[tree.name[i]]];
  };

  function change(wanted, step = false, remember = true) {
    const before = JSON.stringify([state.view, state.fn, state.owner, state.leaf, state.group, state.threads, state.noKernel]);
    const searched = state.search;
    Object.assign(state, wanted);
    // The threads of two runs have nothing in common but their names.
    if (state.threads === "split" && byDifference.includes(state.colour)) Object.assign(state, wanted.threads ? { colour: "owner" } : { threads: "name" });
    if (state.view === "function" && state.fn < 0) state.view = opens;
    const turned = before !== JSON.stringify([state.view, state.fn, state.owner, state.leaf, state.group, state.threads, state.noKernel]);
    if (turned && wanted.zoom === undefined) state.zoom = 0;
    trees();
    const [first] = shown.parts;
    if (!(state.zoom >= 0 && state.zoom < first.tree.count) || state.view === "function") state.zoom = 0;
    if (searched !== state.search || turned || hits === null) {
      ({ matches: hits, problem } = views.compile(state.search));
      hitStacks = hits ? views.matchingStacks(hits, options()) : null;
    }
    if (first.zoom !== state.zoom) shown.parts = [{ ...first, zoom: state.zoom }];
    graph.show({ parts: shown.parts, up: state.up, hits, colourOf });
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
    if (filters.length) parts.push(`only stacks with ${filters.join(" and ")}: ${percent(tree.weight[0], total)} of all`);
    if (state.view === "function") parts.push(`function ${data.names[state.fn].slice(0, 200)}: ${percent(whole, total)} of all; callers and callees`);
    else if (zoom) parts.push(`view: ${graph.nameOf(tree, zoom).slice(0, 200)}, ${percent(whole, total)} of all`);
    if (parts.length && usPerQuery !== null) parts.push(us(whole));
    if (!parts.length) parts.push(`view: the whole profile, ${scaled(total)}`);
    el.status.textContent = parts.join("; ");
    el.reset.disabled = !zoom && state.view !== "function";
    el.clear.hidden = !filters.length;

    el.search.setAttribute("aria-invalid", String(problem !== ""));
    el.found.textContent = found(tree, zoom, whole);
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
    const isDifference = byDifference.includes(state.colour);
    el.legend.querySelectorAll("[data-for]").forEach((list) => { list.hidden = list.dataset.for !== (isDifference ? "difference" : state.colour); });
    if (isDifference) by(el.legend, '[data-for="difference"]').textContent = differenceText();
    el.box.querySelector("canvas").setAttribute("aria-label", `flame graph, ${el.status.textContent}. Arrows walk, Enter zooms, s shows callers and callees, Escape goes back.`);
  }
  function found(tree, zoom, whole) {
    if (problem) return problem;
    if (!hits) return "";
    const here = views.matchedWeight(tree, zoom, hitStacks);
    let everywhere = 0;
    for (let s = 0; s < hitStacks.length; s++) if (hitStacks[s]) everywhere += profile.weights[s];
    if (!everywhere) return "no frame matches";
    if (whole >= total) return `matched ${percent(here, total)} of all${usPerQuery === null ? "" : `, ${us(here)}`}`;
    return `matched ${percent(here, whole)} of view, ${percent(here, total)} of all${usPerQuery === null ? "" : `, ${us(here)}`}; ${percent(everywhere, total)} in the whole profile`;
  }
  function leftOutText(nodes, drawn, whole) {
    if (graph.leftOut <= 0) return `All ${group(drawn)} frames of the view are drawn.`;
    return `${group(drawn)} of ${group(nodes)} frames are drawn. Those narrower than 0.5 px are not: they hold ${percent(graph.leftOut, whole)} of the view, which stays in every total.`;
  }

  // ---- legend ------------------------------------------------------------------------------------------------
  const groupWeights = new Float64Array(views.groupNames.length);
  profile.ends.forEach((node, s) => { groupWeights[views.groupOfName[profile.name[node]]] += profile.weights[s]; });
  const groupOrder = [...groupWeights.keys()].sort((a, b) => groupWeights[b] - groupWeights[a]);
  const groupHue = new Int32Array(views.groupNames.length).fill(-1);
  groupOrder.slice(0, 15).forEach((which, place) => { groupHue[which] = views.groupNames[which] === "no object" ? -1 : place; });
  const groupList = el.legend.querySelector('[data-for="group"]');
  for (const which of groupOrder.slice(0, 15)) {
    if (!groupWeights[which]) continue;
    const swatch = make("i", { class: `swatch ${groupHue[which] < 0 ? "hother" : `h${groupHue[which]}`}` });
    const button = make("button", { type: "button", "data-group": which, "aria-pressed": "false", title: "show only stacks that end in it" }, swatch, `${views.groupNames[which]} ${percent(groupWeights[which], total)}`);
    groupList.append(button);
    pickers.push(button);
  }

  // ---- functions ---------------------------------------------------------------------------------------------
  by(el.functions, "[data-for=object]").hidden = !views.known;
  let sortBy = "self";
  let most = 30;
  function fillFunctions() {
    const { self, total: totals, count } = views.functions(shown.stacks, options());
    const used = [...totals.keys()].filter((i) => totals[i] > 0);
    const column = sortBy === "self" ? self : totals;
    used.sort((a, b) => column[b] - column[a] || totals[b] - totals[a]);
    const cost = (value) => (usPerQuery === null ? "-" : ((usPerQuery * value) / total).toFixed(3));
    const body = by(el.functions, "tbody");
    body.replaceChildren(...used.slice(0, most).map((i) => {
      const button = make("button", { type: "button", class: "fn", title: "its callers and callees" }, data.names[i].slice(0, 300));
      button.addEventListener("click", () => { change({ view: "function", fn: i, zoom: 0 }, true); el.box.scrollIntoView({ block: "nearest" }); });
      const cells = [((100 * self[i]) / total).toFixed(2), cost(self[i]), ((100 * totals[i]) / total).toFixed(2), cost(totals[i]), profile.samplesOf ? group(count[i]) : "-"];
      const object = views.known ? [make("td", { class: "object", title: profile.objectOf(i) }, views.shortObject(profile.objectOf(i)))] : [];
      return make("tr", {}, make("th", { scope: "row" }, button), ...cells.map((text) => make("td", {}, text)), ...object);
    }));
    by(el.functions, ".more").hidden = used.length <= most;
    by(el.functions, ".count").textContent = `${group(Math.min(most, used.length))} of ${group(used.length)}`;
    for (const head of el.functions.querySelectorAll("[data-sort]")) {
      head.closest("th").setAttribute("aria-sort", head.dataset.sort === sortBy ? "descending" : "none");
    }
  }
  for (const head of el.functions.querySelectorAll("[data-sort]")) head.addEventListener("click", () => { sortBy = head.dataset.sort; fillFunctions(); });
  by(el.functions, ".more").addEventListener("click", () => { most = most < 300 ? 300 : 5000; fillFunctions(); });

  // ---- the address -------------------------------------------------------------------------------------------
  function writeHash(step) {
    const parts = new URLSearchParams();
    if (runs.length > 1) parts.set("run", index);
    if (turn !== by(article, ".flame").dataset.of) parts.set("graph", turn);
    if (state.view !== opens) parts.set("view", state.view);
    if (state.view === "function") {
      parts.set("fn", data.names[state.fn]);
      if (profile.objectOf(state.fn)) parts.set("object", profile.objectOf(state.fn));
    }
    if (state.up) parts.set("dir", "up");
    if (state.zoom) parts.set("zoom", state.zoom);
    if (state.search) parts.set("search", state.search);
    if (state.owner >= 0) parts.set("owner", data.categories[state.owner][0]);
    if (state.leaf >= 0) parts.set("leaf", data.leaves[state.leaf][0]);
    if (state.group >= 0) parts.set("group", views.groupNames[state.group]);
    if (state.threads !== "name") parts.set("threads", state.threads);
    if (state.noKernel) parts.set("kernel", "off");
    if (state.colour !== "owner") parts.set("colour", state.colour);
    try {
      // A zoom or a turn is a step that the Back button takes back; letters of a search are not.
      history[step ? "pushState" : "replaceState"](null, "", `#${parts}`);
    } catch { /* a page that may not change its address still works, and forgets */ }
  }
  // One name of several objects is several names: the one of this object, or else the first.
  function namePlace(of, text, object) {
    const exactly = of.data.names.findIndex((one, n) => one === text && of.objectOf(n) === object);
    return exactly >= 0 ? exactly : of.data.names.indexOf(text);
  }
  function readHash(parts) {
    const place = (list, text) => (text === null ? -1 : list.findIndex((one) => one === text));
    const wanted = fresh();
    wanted.view = ["callees", "callers", "function"].includes(parts.get("view")) ? parts.get("view") : opens;
    wanted.fn = namePlace(profile, parts.get("fn"), parts.get("object") ?? "");
    wanted.up = parts.get("dir") === "up";
    wanted.zoom = Number.parseInt(parts.get("zoom") ?? "0", 10) || 0;
    wanted.search = parts.get("search") ?? "";
    wanted.owner = place(data.categories.map(([name]) => name), parts.get("owner"));
    wanted.leaf = place(data.leaves.map(([name]) => name), parts.get("leaf"));
    wanted.group = place(views.groupNames, parts.get("group"));
    wanted.threads = threadings.includes(parts.get("threads")) ? parts.get("threads") : "name";
    wanted.noKernel = parts.get("kernel") === "off";
    wanted.colour = colours.includes(parts.get("colour")) ? parts.get("colour") : "owner";
    el.search.value = wanted.search;
    change(wanted, false, false);
  }

  const threadings = ["name", "merged", ...(profile.threadOf ? ["split"] : [])];
  for (const choice of el.threads.options) if (!threadings.includes(choice.value)) choice.hidden = choice.disabled = true;
  for (const choice of el.colour.options) if (!colours.includes(choice.value)) choice.hidden = choice.disabled = true;

  // ---- controls ----------------------------------------------------------------------------------------------
  el.search.addEventListener("input", () => change({ search: el.search.value }));
  el.search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); graph.enter(); jump(1); }
    if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); el.search.value = ""; change({ search: "" }); graph.enter(); }
  });
  el.view.addEventListener("change", () => change({ view: el.view.value }, true));
  el.direction.addEventListener("change", () => change({ up: el.direction.value === "up" }));
  el.threads.addEventListener("change", () => change({ threads: el.threads.value }, true));
  el.kernel.addEventListener("change", () => change({ noKernel: !el.kernel.checked }, true));
  el.colour.addEventListener("change", () => change({ colour: el.colour.value }));
  el.reset.addEventListener("click", () => change({ zoom: 0, view: state.view === "function" ? opens : state.view }, true));
  el.clear.addEventListener("click", () => change({ owner: -1, leaf: -1, group: -1 }, true));
  el.save.addEventListener("click", () => ioflameSave(turn === "cpu" ? "flamegraph.svg" : `flamegraph-${turn}.svg`, graph.toSvg(`${packed.title}; ${el.status.textContent}`, (one) => [graph.nameOf(one.part.tree, one.node), ...rowsOf(one).map((row) => row.join(": "))].join("\n"))));
  article.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-owner], [data-leaf], [data-group]");
    if (!pickers.includes(button)) return;
    const wanted = { owner: -1, leaf: -1, group: -1 };
    const pressed = button.getAttribute("aria-pressed") === "true";
    for (const key of Object.keys(wanted)) if (!pressed && button.dataset[key] !== undefined) wanted[key] = Number(button.dataset[key]);
    change(wanted, true);
  });
  const jump = (way) => {
    const place = graph.jump(way);
    el.live.textContent = place ? `match ${place[0]} of ${place[1]} that are drawn: ${graph.nameOf(graph.focused.part.tree, graph.focused.node)}` : "no drawn frame matches";
  };
  function back() {
    if (state.zoom) change({ zoom: 0 }, true);
    else if (state.view === "function") change({ view: opens }, true);
    else if (state.search) { el.search.value = ""; change({ search: "" }); } else change({ owner: -1, leaf: -1, group: -1 }, true);
  }
  return { article, graph, readHash, jump, back, el, profile, views, writeHash, usPerQuery, name: packed.name };
}

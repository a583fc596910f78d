"use strict";
// The profile that the file holds: its tree, exact weights as text, and the weight that a search matches.
// Nothing here draws.
function ioflameProfile(svg) {
  const data = JSON.parse(svg.querySelector("script.data").textContent);

  // ---- the tree: node i has the nodes i + 1 .. end[i] - 1 below it -------------------------------------------
  const count = data.depth.length;
  const weight = Float64Array.from(data.weight, Number); // for sizes; data.weight keeps the exact figure
  const parent = new Int32Array(count).fill(-1);
  const end = new Int32Array(count).fill(count);
  const path = [];
  let deepest = 0;
  for (let i = 0; i < count; i++) {
    const depth = data.depth[i];
    while (path.length > depth) end[path.pop()] = i;
    if (depth) parent[i] = path[depth - 1];
    path.push(i);
    deepest = Math.max(deepest, depth);
  }
  const own = Float64Array.from(weight);
  for (let i = 1; i < count; i++) own[parent[i]] -= weight[i];

  const nameOf = (i) => data.names[data.name[i]];
  const usOf = (share) => `${(data.usPerQuery * share).toFixed(3)} us per query`;
  const percent = (part, whole) => `${((100 * part) / whole).toFixed(2)} %`;
  const exact = (value) => `${BigInt(value).toLocaleString("en-US")} ${data.unit}`;

  function exactOwn(i) {
    let rest = BigInt(data.weight[i]);
    for (let j = i + 1; j < end[i]; j = end[j]) rest -= BigInt(data.weight[j]);
    return rest;
  }

  function scaled(value) {
    const time = data.unit === "ns";
    const steps = time ? [[1e9, "s"], [1e6, "ms"], [1e3, "us"]] : [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    for (const [factor, word] of steps) {
      if (value >= factor) return `${(value / factor).toFixed(3)} ${word}${time ? "" : ` ${data.unit}`}`;
    }
    return `${value} ${data.unit}`;
  }

  // Which names match, 1 by 1; or the reason why `search` is no search.
  function compile(search, matchCase) {
    if (!search) return { matches: null, problem: "" };
    try {
      const pattern = new RegExp(search, matchCase ? "" : "i");
      return { matches: Uint8Array.from(data.names, (name) => (pattern.test(name) ? 1 : 0)), problem: "" };
    } catch (error) {
      const reason = String(error.message).split(": ").pop(); // after the pattern, which the reader just typed
      return { matches: null, problem: `not a regular expression: ${reason}` };
    }
  }

  // The weight of the stacks through `view` that hold a match anywhere: nested matches count once.
  function matchedWeight(view, matches) {
    const isMatch = (i) => i > 0 && matches[data.name[i]] === 1;
    for (let i = view; i >= 0; i = parent[i]) if (isMatch(i)) return weight[view];
    let sum = 0;
    for (let i = view + 1; i < end[view]; ) {
      if (isMatch(i)) {
        sum += weight[i];
        i = end[i];
      } else i++;
    }
    return sum;
  }

  return { data, count, weight, own, parent, end, deepest, nameOf, usOf, percent, exact, exactOwn, scaled, compile, matchedWeight };
}

"use strict";
// The twin of packed.py: the columns of a profile as a tree and as stacks. Nothing here draws.
function ioflameUnpack(data) {
  if (data.format !== 1) throw new Error(`packed data of format ${data.format}; this reads format 1`);
  const count = data.depth.length;
  const name = Int32Array.from(data.name);
  const depth = Int32Array.from(data.depth);
  const category = Int32Array.from(data.category);
  const own = Float64Array.from(data.own, Number); // for sizes; exactOf adds up the exact figures
  const parent = new Int32Array(count).fill(-1);
  const end = new Int32Array(count).fill(count); // node i has the nodes i + 1 .. end[i] - 1 below it
  const firstStack = new Int32Array(count + 1); // the stacks through node i are firstStack[i] .. firstStack[end[i]] - 1
  const path = [];
  const ends = []; // stack -> the node it ends at
  for (let i = 0; i < count; i++) {
    while (path.length > depth[i]) end[path.pop()] = i;
    if (depth[i]) parent[i] = path[depth[i] - 1];
    path.push(i);
    firstStack[i] = ends.length;
    if (own[i]) ends.push(i);
  }
  firstStack[count] = ends.length;
  const exact = data.own.length === 0 || typeof data.own[0] === "number";
  const samplesOf = data.samples ? (s) => data.samples[ends[s]] : null;
  const leafOf = data.leaf ? (s) => data.leaf[ends[s]] : null;
  let total = 0;
  for (const node of ends) total += own[node];

  // The weight of some stacks, to the last digit, as a BigInt.
  function exactOf(stacks) {
    if (exact) return BigInt(stacks.reduce((sum, s) => sum + own[ends[s]], 0));
    return stacks.reduce((sum, s) => sum + BigInt(data.own[ends[s]]), 0n);
  }
  // The nodes of a stack, root first, without node 0.
  function nodesOf(s) {
    const nodes = new Array(depth[ends[s]]);
    for (let i = ends[s]; i > 0; i = parent[i]) nodes[depth[i] - 1] = i;
    return nodes;
  }
  // The stacks as unpack() in packed.py gives them: [frames, weight, samples, category, anchor depth, leaf].
  function stacks() {
    return ends.map((node, s) => {
      const nodes = nodesOf(s);
      const inside = data.categories[category[node]][0];
      return [
        nodes.map((i) => data.names[name[i]]), String(exactOf([s])), samplesOf ? samplesOf(s) : null, inside,
        inside === "other" ? -1 : nodes.findIndex((i) => category[i] === category[node]),
        leafOf ? data.leaves[leafOf(s)][0] : null,
      ];
    });
  }
  return { data, count, name, depth, category, own, parent, end, ends, firstStack, total, samplesOf, leafOf, exactOf, nodesOf, stacks };
}

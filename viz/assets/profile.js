"use strict";
// The columns of a profile (flame/embedded.py) as a tree and as stacks. Nothing here draws.
function ioflameUnpack(data) {
  if (data.format !== 2) throw new Error(`packed data of format ${data.format}; this reads format 2`);
  const count = data.depth.length;
  const name = Int32Array.from(data.name);
  const depth = Int32Array.from(data.depth);
  const category = Int32Array.from(data.category);
  const ends = Int32Array.from(data.end); // stack -> the node it ends at
  const weights = Float64Array.from(data.weight, Number); // of stacks, for sizes; exactOf adds up the exact figures
  const { parent, end } = ioflameCore.family(depth);
  const firstStack = new Int32Array(count + 1); // the stacks through node i are firstStack[i] .. firstStack[end[i]] - 1
  const ended = new Int32Array(count); // those that end at node i come first, up to ended[i] - 1
  const own = new Float64Array(count); // what ends at the node
  let next = 0;
  let total = 0;
  for (let i = 0; i < count; i++) {
    firstStack[i] = next;
    for (; next < ends.length && ends[next] === i; next++) own[i] += weights[next];
    ended[i] = next;
    total += own[i];
  }
  firstStack[count] = next;
  const exact = typeof data.weight[0] === "number";
  const samplesOf = data.samples ? (s) => data.samples[s] : null;
  const leafOf = data.leaf ? (s) => data.leaf[s] : null;
  const threadOf = data.thread ? (s) => data.thread[s] : null; // a name's index, or -1

  // The weight of some stacks, to the last digit, as a BigInt.
  function exactOf(stacks) {
    if (exact) return BigInt(stacks.reduce((sum, s) => sum + weights[s], 0));
    return stacks.reduce((sum, s) => sum + BigInt(data.weight[s]), 0n);
  }
  // The nodes of a stack, root first, without node 0.
  function nodesOf(s) {
    const nodes = new Array(depth[ends[s]]);
    for (let i = ends[s]; i > 0; i = parent[i]) nodes[depth[i] - 1] = i;
    return nodes;
  }
  const objectOf = (n) => data.objects[data.object[n]]; // of a name, "" where it is not known
  // One name of several objects is several names: the one of this object, or else the first; -1 where it has none.
  function placeOf(text, object) {
    const exactly = data.names.findIndex((one, n) => one === text && objectOf(n) === object);
    return exactly >= 0 ? exactly : data.names.indexOf(text);
  }
  return {
    data, count, name, depth, category, own, weights, parent, end, ends, ended, firstStack, total, samplesOf, leafOf,
    threadOf, objectOf, placeOf, exactOf, nodesOf,
  };
}

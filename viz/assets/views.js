"use strict";
// The trees that a profile is looked at through, and the weight that a search matches. Nothing here draws.
//
// A tree is columns in depth-first order over a permutation of stacks: the stacks through node i are
// order[from[i]] .. order[to[i] - 1], and those that end at it come first, up to ended[i]. So every figure of a
// node, however the tree was turned, is a sum over stacks of the file.
function ioflameViews(profile) {
  const { data, name, category, depth, own, weights, parent, end, ends, nodesOf, threadOf } = profile;
  const kernel = Uint8Array.from(data.names, (text) => (text.endsWith("_[k]") ? 1 : 0));
  const categories = data.categories.length;
  const everything = Int32Array.from(ends.keys());

  // ---- groups: the objects of the frames, or what their names say of them where the profile knows no objects --
  const groupNames = [];
  const groupIndex = new Map();
  const known = data.objects.length > 1;
  const PAST_RETURN_TYPE = /(?:^|[\s*&:])([A-Za-z_]\w*)(?:<|::)/;
  const groupOfName = Int32Array.from(data.names, (text, n) => {
    let group = "plain C names";
    if (known) return groupNumber(shortObject(profile.objectOf(n)) || "no object");
    const object = /^\[+([^\]]+)\]/.exec(text);
    if (text.endsWith("_[k]")) group = "kernel";
    else if (object) group = object[1];
    else if (text.includes("::")) group = PAST_RETURN_TYPE.exec(text)?.[1] ?? "other C++";
    return groupNumber(group);
  });
  function groupNumber(group) {
    if (!groupIndex.has(group)) { groupIndex.set(group, groupNames.length); groupNames.push(group); }
    return groupIndex.get(group);
  }
  // `/usr/lib/librocksdb.so.7.8.3` is `librocksdb.so.7.8.3`; `[kernel.kallsyms]` is `kernel`; its modules keep
  // their names.
  function shortObject(path) {
    if (/^\[(kernel|guest\.kernel)\b.*\]/.test(path)) return "kernel";
    return path.startsWith("/") ? path.slice(path.lastIndexOf("/") + 1) : path;
  }

  // ---- which stacks ------------------------------------------------------------------------------------------
  // filter: { owner, leaf, group }: indexes, -1 for all
  function select(filter) {
    const { owner = -1, leaf = -1, group = -1 } = filter;
    if (owner < 0 && leaf < 0 && group < 0) return everything;
    return everything.filter((s) => (owner < 0 || category[ends[s]] === owner)
      && (leaf < 0 || profile.leafOf?.(s) === leaf) && (group < 0 || groupOfName[name[ends[s]]] === group));
  }

  // ---- trees -------------------------------------------------------------------------------------------------
  function tree(stacks, keysOf, whole) {
    const n = stacks.length;
    const start = new Int32Array(n + 1);
    const all = [];
    for (let k = 0; k < n; k++) {
      start[k] = all.length;
      keysOf(stacks[k], all);
    }
    start[n] = all.length;
    const keys = Int32Array.from(all);
    const order = Int32Array.from({ length: n }, (_, k) => k); // places in `stacks` until the end
    const spare = new Int32Array(n);
    const counts = new Int32Array(data.names.length * categories);
    const columns = { key: [], depth: [], from: [], ended: [], to: [] };
    const todo = [[-1, 0, n, 0]];
    while (todo.length) {
      const [key, from, to, level] = todo.pop();
      let ended = from;
      for (let k = from; k < to; k++) {
        const at = order[k];
        if (start[at + 1] - start[at] === level) { order[k] = order[ended]; order[ended++] = at; }
      }
      columns.key.push(key);
      columns.depth.push(level);
      columns.from.push(from);
      columns.ended.push(ended);
      columns.to.push(to);
      if (ended === to) continue;
      const met = [];
      for (let k = ended; k < to; k++) {
        const next = keys[start[order[k]] + level];
        if (counts[next]++ === 0) met.push(next);
      }
      if (met.length === 1) {
        counts[met[0]] = 0;
        todo.push([met[0], ended, to, level + 1]);
        continue;
      }
      met.sort((a, b) => a - b); // names are interned in order: by name, then by category
      const children = [];
      let place = ended;
      for (const next of met) {
        children.push([next, place, place + counts[next], level + 1]);
        const size = counts[next];
        counts[next] = place;
        place += size;
      }
      for (let k = ended; k < to; k++) spare[counts[keys[start[order[k]] + level]]++] = order[k];
      for (let k = ended; k < to; k++) order[k] = spare[k];
      for (const next of met) counts[next] = 0;
      for (let k = children.length - 1; k >= 0; k--) todo.push(children[k]);
    }
    for (let k = 0; k < n; k++) order[k] = stacks[order[k]];
    return finish(columns, order, whole);
  }

  function finish(columns, order, whole) {
    const count = columns.depth.length;
    const result = {
      count, order, whole, depth: Int32Array.from(columns.depth), from: Int32Array.from(columns.from),
      ended: Int32Array.from(columns.ended), to: Int32Array.from(columns.to), weight: new Float64Array(count),
      ...ioflameCore.family(columns.depth),
      name: Int32Array.from(columns.key, (key) => (key < 0 ? -1 : Math.floor(key / categories))),
      category: Int32Array.from(columns.key, (key) => (key < 0 ? -1 : key % categories)),
    };
    // Children before parents: a parent's sum is of its own stacks and its children's sums.
    for (let i = count - 1; i >= 0; i--) {
      for (let k = result.from[i]; k < result.ended[i]; k++) result.weight[i] += weights[order[k]];
      if (i) result.weight[result.parent[i]] += result.weight[i];
    }
    return result;
  }

  // Where threads are told apart by number, the first frame is the thread instead of its command.
  const threadName = (s, i, options) =>
    options.splitThreads && depth[i] === 1 && threadOf && threadOf(s) >= 0 ? threadOf(s) : name[i];
  const shown = (i, options) => !(options.mergeThreads && depth[i] === 1) && !(options.hideKernel && kernel[name[i]]);

  // The file's own tree, without any turning.
  function plain() {
    const { count, firstStack } = profile;
    const result = {
      count,
      order: everything,
      whole: profile.total,
      depth,
      parent,
      end,
      from: firstStack.subarray(0, count),
      ended: new Int32Array(count),
      to: new Int32Array(count),
      weight: Float64Array.from(own),
      name: Int32Array.from(name),
      category: Int32Array.from(category),
    };
    result.name[0] = result.category[0] = -1;
    for (let i = count - 1; i >= 0; i--) {
      result.ended[i] = profile.ended[i];
      result.to[i] = firstStack[end[i]];
      if (i) result.weight[parent[i]] += result.weight[i];
    }
    return result;
  }

  // options: { mergeThreads, splitThreads, hideKernel }
  function fromRoot(stacks, options) {
    if (stacks === everything && !options.mergeThreads && !options.splitThreads && !options.hideKernel) return plain();
    return tree(stacks, (s, all) => {
      for (const i of nodesOf(s)) if (shown(i, options)) all.push(threadName(s, i, options) * categories + category[i]);
    }, profile.total);
  }
  // Callers: every function at the bottom of a stack, with those that called it. Merged by name and object alone, so
  // that a function is one frame; its colour is that of its heaviest stack.
  function fromLeaf(stacks, options) {
    const result = tree(
      stacks,
      (s, all) => {
        for (let i = ends[s]; i > 0; i = parent[i])
          if (shown(i, options)) all.push(threadName(s, i, options) * categories);
      },
      profile.total,
    );
    return colourByHeaviest(result);
  }
  // The stacks through function `target` (a name's index), from its outermost frame: what it calls, and its callers.
  function around(stacks, target, options) {
    const place = (s) => nodesOf(s).find((i) => name[i] === target && shown(i, options));
    const through = stacks.filter((s) => place(s) !== undefined);
    const below = tree(
      through,
      (s, all) => {
        const top = depth[place(s)];
        for (const i of nodesOf(s))
          if (depth[i] >= top && shown(i, options)) all.push(threadName(s, i, options) * categories);
      },
      profile.total,
    );
    const above = tree(
      through,
      (s, all) => {
        for (let i = place(s); i > 0; i = parent[i])
          if (shown(i, options)) all.push(threadName(s, i, options) * categories);
      },
      profile.total,
    );
    return { below: colourByHeaviest(below), above: colourByHeaviest(above) };
  }
  function colourByHeaviest(result) {
    const heaviest = new Int32Array(result.count);
    for (let i = result.count - 1; i >= 0; i--) {
      let best = -1;
      for (let k = result.from[i]; k < result.ended[i]; k++)
        if (best < 0 || weights[result.order[k]] > weights[best]) best = result.order[k];
      for (let j = i + 1; j < result.end[i]; j = result.end[j])
        if (best < 0 || weights[heaviest[j]] > weights[best]) best = heaviest[j];
      heaviest[i] = best;
      if (i && best >= 0) result.category[i] = category[ends[best]];
    }
    return result;
  }

  // ---- search ------------------------------------------------------------------------------------------------
  // Stack by stack: 1 where a frame that is shown matches. A stack with several counts once.
  function matchingStacks(matches, options) {
    const hit = ioflameCore.matchingNodes(profile, (i) => matches[name[i]] && shown(i, options));
    const threads = options.splitThreads && threadOf;
    return Uint8Array.from(ends, (node, s) =>
      hit[node] || (threads && threadOf(s) >= 0 && matches[threadOf(s)]) ? 1 : 0,
    );
  }
  function matchedWeight(of, node, hits) {
    let sum = 0;
    for (let k = of.from[node]; k < of.to[node]; k++) if (hits[of.order[k]]) sum += weights[of.order[k]];
    return sum;
  }

  // ---- functions ---------------------------------------------------------------------------------------------
  // Self and total weight by name over `stacks`; a stack counts once for a function, however often it is on it.
  function functions(stacks, options) {
    const self = new Float64Array(data.names.length);
    const total = new Float64Array(data.names.length);
    const count = new Float64Array(data.names.length);
    const seen = new Int32Array(data.names.length).fill(-1);
    for (const s of stacks) {
      const weight = weights[s];
      let last = -1;
      for (let i = ends[s]; i > 0; i = parent[i]) {
        if (depth[i] === 1 || !shown(i, options)) continue;
        if (last < 0) last = name[i];
        if (seen[name[i]] !== s) {
          seen[name[i]] = s;
          total[name[i]] += weight;
          count[name[i]] += profile.samplesOf ? profile.samplesOf(s) : 0;
        }
      }
      if (last >= 0) self[last] += weight;
    }
    return { self, total, count };
  }

  return {
    kernel,
    known,
    shortObject,
    groupNames,
    groupOfName,
    everything,
    select,
    fromRoot,
    fromLeaf,
    around,
    matchingStacks,
    matchedWeight,
    functions,
  };
}

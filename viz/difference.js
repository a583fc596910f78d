"use strict";
// A tree against the same tree of another profile: node by node, by path. Nothing here draws.
//
// Returns what each node weighs there, and the weight of what is only there or only here.
function ioflameDifference(here, tree, there, twin, byCategory) {
  const keyOf = (profile, of, i) => {
    const text = profile.data.names[of.name[i]];
    return byCategory ? `${text}\0${profile.data.categories[of.category[i]][0]}` : text;
  };
  const weights = new Float64Array(tree.count);
  let gone = 0;
  let fresh = 0;
  weights[0] = twin.weight[0];
  const todo = [[0, 0]];
  while (todo.length) {
    const [node, same] = todo.pop();
    const children = new Map();
    for (let j = same + 1; j < twin.end[same]; j = twin.end[j]) children.set(keyOf(there, twin, j), j);
    for (let i = node + 1; i < tree.end[node]; i = tree.end[i]) {
      const key = keyOf(here, tree, i);
      const match = children.get(key);
      if (match === undefined) {
        fresh += tree.weight[i];
        continue;
      }
      children.delete(key);
      weights[i] = twin.weight[match];
      todo.push([i, match]);
    }
    for (const j of children.values()) gone += twin.weight[j];
  }
  return { weights, gone, fresh };
}

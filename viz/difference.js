"use strict";
// A tree against the same tree of another profile: node by node, by path. Nothing here draws. Objects differ between
// builds (a library, or linked in), so they decide only between two functions of one name.
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
    for (let j = same + 1; j < twin.end[same]; j = twin.end[j]) {
      const key = keyOf(there, twin, j);
      if (children.has(key)) children.get(key).push(j);
      else children.set(key, [j]);
    }
    for (let i = node + 1; i < tree.end[node]; i = tree.end[i]) {
      const found = children.get(keyOf(here, tree, i)) ?? [];
      if (!found.length) {
        fresh += tree.weight[i];
        continue;
      }
      const object = here.objectOf(tree.name[i]);
      const place = found.length > 1 ? found.findIndex((j) => there.objectOf(twin.name[j]) === object) : 0;
      const [match] = found.splice(Math.max(place, 0), 1);
      weights[i] = twin.weight[match];
      todo.push([i, match]);
    }
    for (const left of children.values()) for (const j of left) gone += twin.weight[j];
  }
  return { weights, gone, fresh };
}

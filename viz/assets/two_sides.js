"use strict";
// What is told of a frame that two sides have: costs, samples, the difference and whether it is one. data: as
// flame/difference.py packs it. Nothing is worked out here but sums.
function ioflameTwoSides(data) {
  const [before, after] = data.sides;
  const byShare = data.by === "share";
  function only(i) {
    const [a, b] = [0, 1].map((side) => data.samples[side][i] > 0 || data.us[side][i] > 0);
    return a === b ? "both" : a ? "vanished" : "new";
  }
  const deltaOf = (i) => data.us[1][i] - data.us[0][i];
  const sign = (value) => `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toFixed(3)}`;
  const cost = (value) => `${value.toFixed(3)} ${data.unit}`;
  const counted = (side, i) => (byShare ? "" : `, n ${ioflameCore.group(data.samples[side][i])}`);
  function toldOf(i) {
    const where = { both: "", vanished: `: not seen in ${after.name}`, new: `: not seen in ${before.name}` }[only(i)];
    if (data.different[i]) return `different${where}`;
    if (byShare) return "less than what has colour";
    return data.samples[0][i] + data.samples[1][i] < data.leastSamples
      ? `too few samples to tell (${data.leastSamples} are needed)` : "not significant: the interval includes zero";
  }
  function rowsOf(i) {
    const [delta, half] = [deltaOf(i), data.half[i]];
    const interval = byShare ? "" : ` [${sign(delta - half)}, ${sign(delta + half)}]`;
    return [
      ...(data.objects[data.object[i]] ? [["object", data.objects[data.object[i]]]] : []),
      [before.name, cost(data.us[0][i]) + counted(0, i)],
      [after.name, cost(data.us[1][i]) + counted(1, i)],
      ["difference", `${sign(delta)} ${data.unit}${interval}`],
      ["", toldOf(i)],
    ];
  }
  // In a line: both sides, and the difference.
  function lineOf(i) {
    const rows = rowsOf(i).slice(-4);
    return `${before.name} ${rows[0][1]}; ${after.name} ${rows[1][1]}; ${rows[2][1]}`;
  }
  // What ends at a node, on one side.
  function own(side, parent) {
    const sums = Float64Array.from(data.us[side]);
    for (let i = sums.length - 1; i > 0; i--) sums[parent[i]] -= data.us[side][i];
    return sums;
  }
  // The cost of the stacks that hold a match, on either side; hits: by node, 1 where it or one above it is a match
  function matched(hits, parent) {
    if (!hits.includes(1)) return "no frame matches";
    const [a, b] = [0, 1].map((side) => own(side, parent).reduce((sum, part, i) => sum + (hits[i] ? part : 0), 0));
    return `matched ${a.toFixed(3)} \u2192 ${cost(b)}`;
  }
  return { only, deltaOf, cost, rowsOf, lineOf, own, matched };
}

"use strict";
// The functions of some stacks as a table: by self or by total, the largest first.
// `open`: what a click on a name does; returns what fills it: stacks, and the options of the trees.
function ioflameFunctionTable(element, { profile, views, usPerQuery }, open) {
  const { by, make } = ioflameDom;
  const { group, perQuery } = ioflameCore;
  const { data, total } = profile;
  const heads = [...element.querySelectorAll("[data-sort]")];
  let sortBy = "self";
  let most = 30;
  let given = [[], {}];
  by(element, "[data-for=object]").hidden = !views.known;

  const percent = (value) => ((100 * value) / total).toFixed(2);
  const cost = (value) => perQuery(usPerQuery, value, total) || "-";
  function row(i, self, whole, count) {
    const attributes = { type: "button", class: "fn", title: "its callers and callees" };
    const button = make("button", attributes, data.names[i].slice(0, 300));
    button.addEventListener("click", () => open(i));
    const figures = [percent(self), cost(self), percent(whole), cost(whole), profile.samplesOf ? group(count) : "-"];
    const cells = figures.map((text) => make("td", {}, text));
    if (views.known) {
      const object = profile.objectOf(i);
      cells.push(make("td", { class: "object", title: object }, views.shortObject(object)));
    }
    return make("tr", {}, make("th", { scope: "row" }, button), ...cells);
  }
  function fill(...wanted) {
    if (wanted.length) given = wanted;
    const { self, total: totals, count } = views.functions(...given);
    const used = [...totals.keys()].filter((i) => totals[i] > 0);
    const column = sortBy === "self" ? self : totals;
    used.sort((a, b) => column[b] - column[a] || totals[b] - totals[a]);
    by(element, "tbody").replaceChildren(...used.slice(0, most).map((i) => row(i, self[i], totals[i], count[i])));
    by(element, ".more").hidden = used.length <= most;
    by(element, ".count").textContent = `${group(Math.min(most, used.length))} of ${group(used.length)}`;
    for (const head of heads) {
      head.closest("th").setAttribute("aria-sort", head.dataset.sort === sortBy ? "descending" : "none");
    }
  }
  for (const head of heads) head.addEventListener("click", () => { sortBy = head.dataset.sort; fill(); });
  by(element, ".more").addEventListener("click", () => { most = most < 300 ? 300 : 5000; fill(); });
  return fill;
}

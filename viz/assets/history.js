"use strict";
// Two versions of a history beside each other. The address keeps which.
(() => {
  const { by, make } = ioflameDom;
  const holder = by(document, "[data-history]");
  const data = JSON.parse(holder.dataset.history);
  const [base, version] = [...holder.querySelectorAll("[data-pair]")];
  const signed = (value, digits) => `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toFixed(digits)}`;
  const percent = (log) => `${signed(100 * (Math.exp(log) - 1), 1)} %`;
  function table(caption, heads, rows) {
    const row = (cells) => make("tr", {}, ...cells.map((cell, k) => make(k ? "td" : "th", { scope: k ? null : "row" }, cell)));
    const head = make("tr", {}, ...heads.map((words) => make("th", { scope: "col" }, words)));
    const body = make("table", { class: "numbers" }, make("thead", {}, head), make("tbody", {}, ...rows.map(row)));
    const scroll = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, body);
    return make("figure", {}, make("figcaption", {}, caption), scroll);
  }
  function figures(a, b) {
    const rows = [];
    for (const one of data.series) {
      const [x, y] = [one.labels.indexOf(a), one.labels.indexOf(b)];
      if (x < 0 || y < 0) continue;
      const change = one.mean[y] - one.mean[x];
      const half = one.t * Math.hypot(one.error[x], one.error[y]);
      const seen = x !== y && Math.abs(change) > half;
      const words = !seen ? "not significant" : !one.repeated ? "candidate" : change > 0 === one.worse ? "worse" : "better";
      const interval = `[${percent(change - half)}, ${percent(change + half)}]`;
      rows.push([`${one.test}, ${one.host}`, one.metric, percent(change), interval, words]);
    }
    return rows;
  }
  function categories(a, b) {
    const rows = [];
    for (const [where, versions] of Object.entries(data.categories)) {
      if (!versions[a] || !versions[b]) continue;
      const [before, after] = [versions[a], versions[b]].map((list) => new Map(list.map(([name, ...rest]) => [name, rest])));
      for (const name of new Set([...before.keys(), ...after.keys()])) {
        const [us, sd, n] = before.get(name) ?? [0, null, 0];
        const [us2, sd2, n2] = after.get(name) ?? [0, null, 0];
        const change = us2 - us;
        let interval = "-";
        let words = "one run";
        if (sd !== null && sd2 !== null) {
          const t = data.t[Math.min(Math.min(n, n2) - 1, data.t.length) - 1];
          const half = t * Math.sqrt(sd ** 2 / n + sd2 ** 2 / n2);
          interval = `[${signed(change - half, 2)}, ${signed(change + half, 2)}]`;
          words = Math.abs(change) > half ? "significant" : "not significant";
        }
        rows.push([`${where}: ${name}`, us.toFixed(2), us2.toFixed(2), signed(change, 2), interval, words]);
      }
    }
    return rows.sort((one, other) => Math.abs(other[2] - other[1]) - Math.abs(one[2] - one[1]));
  }
  function show() {
    const [a, b] = [base.value, version.value];
    const made = [table("Figures", ["test, host", "figure", "change", "95 %", ""], figures(a, b))];
    const costs = categories(a, b);
    // What is seen, and the largest of the rest.
    const shown = costs.filter((row, k) => k < 12 || row[5] === "significant").slice(0, 40);
    const caption = `CPU us per query: ${shown.length} of ${costs.length} categories, the largest changes`;
    if (costs.length) made.push(table(caption, ["category", a, b, "change", "95 %", ""], shown));
    by(holder, "[data-part=pair]").replaceChildren(...made);
  }
  function read() {
    const params = new URLSearchParams(location.hash.slice(1));
    const known = (name, otherwise) => (data.versions.includes(params.get(name)) ? params.get(name) : otherwise);
    base.value = known("base", data.versions[0]);
    version.value = known("version", data.versions[data.versions.length - 1]);
    show();
  }
  for (const select of [base, version])
    select.addEventListener("change", () => {
      location.hash = new URLSearchParams({ base: base.value, version: version.value });
      show();
    });
  window.addEventListener("hashchange", read);
  read();
  // The newest versions are what one comes for.
  for (const scroll of document.querySelectorAll("[aria-labelledby=table] .scroll")) scroll.scrollLeft = scroll.scrollWidth;
})();

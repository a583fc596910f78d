"use strict";
// Files and the clipboard: plots save as SVG, tables copy as TSV and Markdown.
function ioflameSave(name, text) {
  const link = ioflameTools.make("a", { href: URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function ioflameSaving() {
  const { by, make } = ioflameTools;
  const rowsOfTable = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => (cell.dataset.copy ?? cell.textContent).replace(/\s+/g, " ").trim()));
  const asTsv = (rows) => rows.map((row) => row.join("\t")).join("\n");
  const asMarkdown = ([head, ...rows]) => {
    const line = (row) => `| ${row.map((text) => text.replace(/\\/g, "\\\\").replace(/\|/g, "\\|")).join(" | ")} |`;
    return [line(head), `|${head.map((_, k) => (k ? " ---: |" : " --- |")).join("")}`, ...rows.map(line)].join("\n");
  };
  async function copy(text, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", {}, text);
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    const before = button.dataset.label ?? button.textContent;
    button.dataset.label = before;
    button.textContent = done ? "copied" : "could not copy";
    setTimeout(() => { button.textContent = before; }, 1200);
  }
  function plotSvg(svg) {
    const twin = svg.cloneNode(true);
    const style = getComputedStyle(document.documentElement);
    const rules = by(document, "style.plots").textContent.replace(/var\(--([\w-]+)\)/g, (_, key) => style.getPropertyValue(`--${key}`).trim());
    const sheet = document.createElementNS("http://www.w3.org/2000/svg", "style");
    sheet.textContent = rules;
    twin.prepend(sheet);
    twin.setAttribute("width", svg.viewBox.baseVal.width);
    twin.setAttribute("height", svg.viewBox.baseVal.height);
    return new XMLSerializer().serializeToString(twin);
  }
  function tableSvg(table) {
    const NS = "http://www.w3.org/2000/svg";
    const edge = table.getBoundingClientRect();
    const svg = document.createElementNS(NS, "svg");
    for (const [key, value] of [["width", edge.width], ["height", edge.height], ["viewBox", `0 0 ${edge.width} ${edge.height}`]]) svg.setAttribute(key, value);
    for (const cell of table.querySelectorAll("th, td")) {
      const at = cell.getBoundingClientRect();
      const style = getComputedStyle(cell);
      const add = (tag, attributes, text = "") => {
        const element = document.createElementNS(NS, tag);
        for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
        element.textContent = text;
        svg.append(element);
      };
      const fill = style.backgroundColor === "rgba(0, 0, 0, 0)" ? getComputedStyle(document.documentElement).getPropertyValue("--page").trim() : style.backgroundColor;
      add("rect", { x: at.left - edge.left, y: at.top - edge.top, width: at.width, height: at.height, fill });
      const left = style.textAlign === "left" || style.textAlign === "start";
      add("text", {
        x: left ? at.left - edge.left + 5 : at.right - edge.left - 5, y: (at.top + at.bottom) / 2 - edge.top + 4, "text-anchor": left ? "start" : "end",
        fill: style.color, "font-size": 12, "font-family": "sans-serif",
      }, cell.textContent.trim());
    }
    return new XMLSerializer().serializeToString(svg);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy-as], [data-save]");
    if (!button) return;
    const figure = button.closest("figure");
    if (button.dataset.save !== undefined) {
      const svg = by(figure, "svg.plot");
      ioflameSave(button.dataset.save, svg ? plotSvg(svg) : tableSvg(by(figure, "table")));
    } else {
      const rows = rowsOfTable(by(figure, "table"));
      copy(button.dataset.copyAs === "tsv" ? asTsv(rows) : asMarkdown(rows), button);
    }
  });
}

"use strict";
// Files and the clipboard: plots save as SVG, tables copy as TSV and Markdown.
function ioflameSave(name, text) {
  const link = ioflameDom.make("a", {
    href: URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })),
    download: name,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function ioflameSaving() {
  const { by, make } = ioflameDom;
  const rowsOfTable = (table) =>
    [...table.rows].map((row) =>
      [...row.cells].map((cell) => (cell.dataset.copy ?? cell.textContent).replace(/\s+/g, " ").trim()),
    );
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
  // The rules of the plots, with the colours of the theme that is shown.
  function sheet() {
    const style = getComputedStyle(document.documentElement);
    const rules = by(document, "style.plots").textContent;
    const made = document.createElementNS("http://www.w3.org/2000/svg", "style");
    made.textContent = rules.replace(/var\(--([\w-]+)\)/g, (_, key) => style.getPropertyValue(`--${key}`).trim());
    return made;
  }
  function plotSvg(svg) {
    const twin = svg.cloneNode(true);
    twin.prepend(sheet());
    ioflameCore.build(twin, { width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height });
    return new XMLSerializer().serializeToString(twin);
  }
  function tableSvg(table) {
    const NS = "http://www.w3.org/2000/svg";
    const edge = table.getBoundingClientRect();
    const drawn = (tag, ...content) => ioflameCore.build(document.createElementNS(NS, tag), ...content);
    const svg = drawn(
      "svg",
      { width: edge.width, height: edge.height, viewBox: `0 0 ${edge.width} ${edge.height}` },
      sheet(),
    );
    for (const cell of table.querySelectorAll("th, td")) {
      const at = cell.getBoundingClientRect();
      const style = getComputedStyle(cell);
      const fill =
        style.backgroundColor === "rgba(0, 0, 0, 0)"
          ? getComputedStyle(document.documentElement).getPropertyValue("--page").trim()
          : style.backgroundColor;
      svg.append(
        drawn("rect", { x: at.left - edge.left, y: at.top - edge.top, width: at.width, height: at.height, fill }),
      );
      const bar = by(cell, "svg");
      if (bar) {
        const box = bar.getBoundingClientRect();
        const size = { x: box.left - edge.left, y: box.top - edge.top, width: box.width, height: box.height };
        svg.append(ioflameCore.build(bar.cloneNode(true), size));
      }
      const left = style.textAlign === "left" || style.textAlign === "start";
      svg.append(
        drawn(
          "text",
          {
            x: left ? at.left - edge.left + 5 : at.right - edge.left - 5,
            y: (at.top + at.bottom) / 2 - edge.top + 4,
            "text-anchor": left ? "start" : "end",
            fill: style.color,
            "font-size": 12,
            "font-family": "sans-serif",
          },
          cell.textContent.trim(),
        ),
      );
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

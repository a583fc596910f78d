"use strict";
// A flame graph on a canvas: boxes, labels, the pointer and the keys. It knows trees and colours, and nothing of
// the page around it.
//
// A scene is { parts, up, hits, colourOf }: each part a tree of views.js with the node it is zoomed to and the way it
// grows (`callers` grows against the others); hits: names that match, or null.
function ioflameGraph(box, profile, wanted) {
  const ROW = 18;
  const LEAST = 0.5; // px: a narrower frame is not drawn; its weight stays in every total
  const { data } = profile;
  const canvas = box.querySelector("canvas");
  const spacer = box.querySelector(".spacer");
  const pen = canvas.getContext("2d");
  const label = ioflameCore.labels(pen);
  const { heaviest } = ioflameCore;

  let scene = null;
  let rows = []; // boxes by row from the top, each row from left to right
  let all = []; // every box, depth-first
  let leftOut = 0;
  let focus = null;
  let hover = null;
  let colours = null;
  let printing = false;
  let tallest = 0; // px

  const nameOf = (tree, i) => (tree.name[i] < 0 ? "all" : data.names[tree.name[i]]);

  // ---- layout ------------------------------------------------------------------------------------------------
  function layout(width) {
    all = [];
    leftOut = 0;
    let lowest = 0;
    let highest = 0;
    for (const part of scene.parts) {
      const { tree, zoom } = part;
      const laid = ioflameCore.layout(tree, zoom, width, LEAST);
      leftOut += part.callers ? 0 : laid.leftOut;
      // In a sandwich the function is row 0: its own tree hangs below, and its callers stand above without it.
      const skip = part.callers ? 2 : part.sandwich ? 1 : 0;
      for (const one of laid.boxes) {
        const depth = tree.depth[one.node];
        if (!one.above && depth < skip) continue;
        all.push(Object.assign(one, { part, row: part.callers ? 1 - depth : depth - skip }));
      }
    }
    for (const one of all) { lowest = Math.min(lowest, one.row); highest = Math.max(highest, one.row); }
    rows = Array.from({ length: highest - lowest + 1 }, () => []);
    for (const one of all) {
      one.row = scene.up ? highest - one.row : one.row - lowest;
      rows[one.row].push(one);
    }
    for (const row of rows) row.sort((a, b) => a.x - b.x);
    if (focus) focus = all.find((one) => one.part.tree === focus.part.tree && one.node === focus.node) ?? null;
    hover = null;
  }

  const labelOf = (tree, i, room) => label(nameOf(tree, i), tree.name[i] < 0 ? [] : data.forms[tree.name[i]], room);

  // ---- drawing -----------------------------------------------------------------------------------------------
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (key) => style.getPropertyValue(`--${key}`).trim();
    colours = { hues: Array.from({ length: 16 }, (_, k) => read(`h${k}`)) };
    for (const key of ["page", "ink", "quiet", "frame-ink", "other", "match", "match-ink", "focus", "line"])
      colours[key] = read(key);
  }
  const fillOf = (one) => {
    const hue = scene.colourOf(one.part.tree, one.node); // the number of a hue, or a colour
    return typeof hue === "string" ? hue : hue < 0 ? colours.other : colours.hues[hue % 16];
  };
  const isMatch = (one) =>
    scene.hits !== null && one.part.tree.name[one.node] >= 0 && scene.hits[one.part.tree.name[one.node]] === 1;

  function paint() {
    if (!scene) return;
    if (!colours) readColours();
    const width = box.clientWidth;
    const height = printing
      ? Math.min(rows.length * ROW, 12000)
      : Math.min(box.clientHeight, Math.max(rows.length * ROW, ROW));
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const scroll = printing ? 0 : box.scrollTop;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.page;
    pen.fillRect(0, 0, width, height);
    pen.font = ioflameCore.FONT;
    pen.textBaseline = "middle";
    const first = Math.max(0, Math.floor(scroll / ROW));
    const last = Math.min(rows.length - 1, Math.ceil((scroll + height) / ROW));
    for (let row = first; row <= last; row++) {
      const y = row * ROW - scroll;
      for (const one of rows[row]) {
        const match = isMatch(one);
        pen.globalAlpha = one.above || (scene.hits !== null && !match) ? 0.4 : 1;
        pen.fillStyle = match ? colours.match : fillOf(one);
        pen.fillRect(one.x, y, Math.max(one.width - (one.width > 2 ? 0.6 : 0), 0.4), ROW - 1);
        if (one.width > 20) {
          const text = labelOf(one.part.tree, one.node, one.width - 6);
          if (text) {
            const pale = pen.globalAlpha < 1;
            pen.globalAlpha = 1;
            pen.fillStyle = match ? colours["match-ink"] : pale ? colours.ink : colours["frame-ink"];
            pen.fillText(text, one.x + 3, y + ROW / 2);
          }
        }
      }
    }
    pen.globalAlpha = 1;
    for (const [one, colour, line] of [[hover, colours.ink, 1], [focus, colours.focus, 2.5]]) {
      if (!one || (one === focus && document.activeElement !== canvas)) continue;
      pen.strokeStyle = colour;
      pen.lineWidth = line;
      pen.strokeRect(
        one.x + line / 2,
        one.row * ROW - scroll + line / 2,
        Math.max(one.width - line, 1),
        ROW - 1 - line,
      );
    }
  }

  function show(next) {
    const fresh =
      !scene ||
      next.parts.some((part, k) => part.tree !== scene.parts[k]?.tree || part.zoom !== scene.parts[k]?.zoom) ||
      next.parts.length !== scene.parts.length ||
      next.up !== scene.up;
    scene = next;
    if (!fresh) return paint();
    relayout();
    // What the view is of is in sight: the root, the frame it is zoomed to, or the function of a sandwich.
    const root = all.find((one) => !one.above && !one.part.callers);
    box.scrollTop = root ? (root.row + 2) * ROW - box.clientHeight / 2 : 0;
    return paint();
  }
  function relayout() {
    layout(box.clientWidth);
    spacer.style.height = `${rows.length * ROW}px`;
    // As high as its frames, and never lower than it was: what stands below does not move while the reader zooms.
    tallest = Math.max(tallest, rows.length * ROW + 2);
    box.style.setProperty("--tallest", `${tallest}px`);
  }

  // ---- pointer -----------------------------------------------------------------------------------------------
  function at(event) {
    const edge = canvas.getBoundingClientRect();
    const row = rows[Math.floor((event.clientY - edge.top + box.scrollTop) / ROW)];
    if (!row) return null;
    const x = event.clientX - edge.left;
    let [low, high] = [0, row.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (row[middle].x <= x) low = middle;
      else high = middle - 1;
    }
    const one = row[low];
    return one && x >= one.x && x <= one.x + Math.max(one.width, 1) ? one : null;
  }
  canvas.addEventListener("mousemove", (event) => {
    const one = at(event);
    canvas.style.cursor = one ? "pointer" : "default";
    if (one !== hover) { hover = one; paint(); }
    wanted.hover(one, event.clientX, event.clientY);
  });
  canvas.addEventListener("mouseleave", () => { hover = null; paint(); wanted.hover(null); });
  canvas.addEventListener("click", (event) => {
    const one = at(event);
    if (!one) return;
    focus = one;
    if (event.altKey || event.shiftKey) wanted.sandwich(one);
    else wanted.zoom(one);
  });
  box.addEventListener("scroll", () => { hover = null; wanted.hover(null); paint(); });

  // ---- keys --------------------------------------------------------------------------------------------------
  function step(key) {
    if (!focus) return all.find((one) => !one.above) ?? null;
    const row = rows[focus.row];
    const place = row.indexOf(focus);
    if (key === "ArrowLeft") return row[place - 1] ?? focus;
    if (key === "ArrowRight") return row[place + 1] ?? focus;
    const next = rows[focus.row + (key === "ArrowDown" ? 1 : -1)] ?? [];
    const overlaps = next.filter((one) => one.x < focus.x + focus.width - 1e-6 && one.x + one.width > focus.x + 1e-6);
    return heaviest(overlaps) ?? focus;
  }
  function setFocus(one) {
    focus = one;
    if (one) {
      const top = one.row * ROW;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
      const edge = canvas.getBoundingClientRect();
      wanted.focus(one, edge.left + Math.max(0, one.x) + 10, edge.top + top - box.scrollTop + ROW);
    }
    paint();
  }
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) setFocus(step(event.key));
    else if (event.key === "Enter" || event.key === " ") { if (focus) wanted.zoom(focus); }
    else if (event.key === "s") { if (focus) wanted.sandwich(focus); }
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("focus", () => { if (!focus) focus = step(""); paint(); });
  canvas.addEventListener("blur", () => { wanted.hover(null); paint(); });

  // To the next or the previous drawn frame that matches; [which, of how many], or null.
  function jump(way) {
    const found = all.filter((one) => isMatch(one) && !one.above);
    if (!found.length) return null;
    const here = focus ? found.indexOf(focus) : -1;
    const next = here < 0 ? (way > 0 ? 0 : found.length - 1) : (here + way + found.length) % found.length;
    setFocus(found[next]);
    return [next + 1, found.length];
  }

  // ---- the same as an SVG ------------------------------------------------------------------------------------
  function toSvg(title, hoverOf) {
    readColours();
    const text = (raw) =>
      raw
        .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
        .replace(/&/g, "&amp;")
        .replace(/</g, "&lt;")
        .replace(/>/g, "&gt;")
        .replace(/"/g, "&quot;");
    const width = box.clientWidth;
    const height = rows.length * ROW + 30;
    const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
    const heading = `fill="${colours.ink}" font-family="sans-serif" font-size="13"`;
    const lines = [
      `<svg xmlns="http://www.w3.org/2000/svg" ${size}>`,
      `<title>${text(title)}</title><rect width="100%" height="100%" fill="${colours.page}"/>`,
      `<text x="4" y="18" ${heading}>${text(title)}</text>`,
    ];
    for (const one of all) {
      const y = one.row * ROW + 28;
      const shown = labelOf(one.part.tree, one.node, one.width - 6);
      const match = isMatch(one);
      const place = `x="${one.x.toFixed(2)}" y="${y}" width="${Math.max(one.width - 0.6, 0.2).toFixed(2)}"`;
      const fill = match ? colours.match : fillOf(one);
      const ink = match ? colours["match-ink"] : colours["frame-ink"];
      const font = `font-family="monospace" font-size="11" fill="${ink}"`;
      const words = shown && `<text x="${(one.x + 3).toFixed(2)}" y="${y + 13}" ${font}>${text(shown)}</text>`;
      const frame = `<rect ${place} height="${ROW - 1}" fill="${fill}"/>`;
      lines.push(`<g><title>${text(hoverOf(one))}</title>${frame}${words}</g>`);
    }
    return [...lines, "</svg>\n"].join("\n");
  }

  window.addEventListener("beforeprint", () => {
    printing = true;
    box.classList.add("printing");
    colours = null;
    relayout();
    paint();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    box.classList.remove("printing");
    colours = null;
    relayout();
    paint();
  });

  return {
    show, jump, nameOf, toSvg,
    get boxes() { return all; },
    get leftOut() { return leftOut; },
    get focused() { return focus; },
    resize() { if (scene) { relayout(); paint(); } },
    recolour() { colours = null; paint(); },
    enter() { canvas.focus(); if (!focus) setFocus(step("")); },
  };
}

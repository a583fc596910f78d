"use strict";
// What the scripts of the page share.
const ioflameDom = (() => {
  const by = (root, selector) => root.querySelector(selector);
  const make = (tag, ...content) => ioflameCore.build(document.createElement(tag), ...content);
  // Beside the pointer, and inside the window.
  function placeTip(tip, x, y) {
    tip.hidden = false;
    const size = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, document.documentElement.clientWidth - size.width - 6))}px`;
    tip.style.top = `${y + 18 + size.height > innerHeight ? Math.max(4, y - size.height - 10) : y + 18}px`;
  }
  return { by, make, placeTip };
})();

"use strict";
// What the scripts of the page share.
const ioflameTools = (() => {
  const by = (root, selector) => root.querySelector(selector);
  const percent = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(2)} %`;
  const group = (value) => value.toLocaleString("en-US");
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  return { by, percent, group, make };
})();

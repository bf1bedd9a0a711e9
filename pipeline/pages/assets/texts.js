// The page's texts in its language: text("There are {n} areas", { n: whole.format(3) }). English is its own key.
"use strict";
window.text = (() => {
  const found = JSON.parse(document.getElementById("texts").textContent);
  return (message, values = {}) => (found[message] ?? message)
    .replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
})();
// Numbers as the page's language writes them, with so many decimals at most, and at least.
window.numerals = (decimals, least = 0) => new Intl.NumberFormat(document.documentElement.lang,
  { minimumFractionDigits: least, maximumFractionDigits: decimals, numberingSystem: "latn" });

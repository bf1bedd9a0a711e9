() => {
  // Texts of a page whose contrast with what is behind them is below that of WCAG 2 AA.
  const channel = value => { value /= 255; return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const light = colour => { const [r, g, b] = colour.match(/[\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const back = one => { for (; one; one = one.parentElement) {
    const found = getComputedStyle(one).backgroundColor;
    if (/^rgb\(/.test(found)) return found; } return "rgb(255, 255, 255)"; };
  const poor = [];
  for (const one of document.querySelectorAll("p, li, th, td, b, span, small, button, label, a, h1, h2, h3, caption, dt, dd")) {
    if (!one.offsetParent || !one.textContent.trim() || one.disabled || one.closest(":disabled")) continue;
    if ([...one.children].length && !/\S/.test([...one.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join(""))) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(back(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(one.outerHTML.slice(0, 90));
  }
  return poor;
}

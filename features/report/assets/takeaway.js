// A view as a file: text, or the picture with its title, legend and source as SVG or PNG.
"use strict";
window.takeaway = (() => {
  const SVG = "http://www.w3.org/2000/svg", LINE = 20, EDGE = 12;

  function save(name, blob) {
    const url = URL.createObjectURL(blob);
    const link = document.createElement("a");
    Object.assign(link, { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  function made(tag, properties, ...children) {
    const one = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(properties)) one.setAttribute(name, value);
    one.append(...children);
    return one;
  }

  // Words on as many lines as their width needs.
  function wrapped(words, width, letter) {
    const lines = [""];
    for (const word of words.split(/\s+/)) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length * letter <= width || lines.at(-1) === "") lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  }

  // The drawn chart of a place, below its title and above its legend, as it is on the screen.
  function svgOf(place, title, legend, source) {
    const chart = place.querySelector("svg").cloneNode(true);
    const width = Number(chart.getAttribute("width")), height = Number(chart.getAttribute("height"));
    const style = getComputedStyle(document.body), card = getComputedStyle(place.closest(".card"));
    const lines = [], all = width + 2 * EDGE;
    let y = EDGE;
    const write = (words, size, x, properties = {}) => {
      for (const line of wrapped(words, width - x, size * 0.55)) {
        lines.push(made("text", { x: EDGE + x, y: y + size, "font-size": size, fill: style.color, ...properties }, line));
        y += LINE;
      }
    };
    write(title, 15, 0, { "font-weight": 600 });
    y += EDGE / 2;
    chart.setAttribute("x", EDGE);
    chart.setAttribute("y", y);
    y += height + EDGE;
    for (const { colour, words } of legend) {
      if (colour) lines.push(made("rect", { x: EDGE, y: y + 2, width: 20, height: 12, fill: colour, stroke: colour.startsWith("url") ? style.color : "none" }));
      write(words, 12, colour ? 28 : 0);
    }
    for (const [i, words] of source.entries()) write(words, 11, 0, i === 0 ? { "font-weight": 600 } : {});
    for (const one of chart.querySelectorAll("text")) one.setAttribute("fill", style.color);
    const root = made("svg", { xmlns: SVG, width: all, height: y + EDGE, viewBox: `0 0 ${all} ${y + EDGE}`, "font-family": "sans-serif" },
      made("rect", { width: all, height: y + EDGE, fill: card.backgroundColor }), ...lines, chart);
    return new XMLSerializer().serializeToString(root);
  }

  async function pngOf(svg) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => { canvas.toBlob(done, "image/png"); });
  }

  return { save, svgOf, pngOf };
})();

// The pictures of the page, drawn by Vega-Lite without evaluating text as code.
"use strict";
window.charts = (() => {
  const FONT = getComputedStyle(document.body).fontFamily;
  // Okabe and Ito's palette: told apart with every kind of colour vision.
  const QUERIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#5b4b8a"];
  const OTHER = "#9a9a9a";
  const RAMPS = {
    light: ["#e3eff0", "#b9dbdd", "#86c1c6", "#4ca0a7", "#1d7982", "#08505a"],
    dark: ["#1c3538", "#21535a", "#2a747c", "#45999f", "#79c0c4", "#bfe8e8"],
  };
  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
  const ramp = () => RAMPS[dark() ? "dark" : "light"];
  const accent = () => (dark() ? "#6cc5ca" : "#0a6a73");

  // On paper, the pictures of a dark page have light colours; they cannot be drawn again in time.
  const CHOSEN = { light: "#b3261e", dark: "#ffd166" }, BORDER = { light: "#ffffff", dark: "#14171a" };
  const twins = (look) => [...RAMPS[look], look === "dark" ? "#6cc5ca" : "#0a6a73", CHOSEN[look], BORDER[look]];
  function recoloured(from, to) {
    const rgb = (colour) => `rgb(${[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)).join(", ")})`;
    const found = new Map(twins(from).flatMap((colour, i) => [[colour, twins(to)[i]], [rgb(colour), twins(to)[i]]]));
    for (const one of document.querySelectorAll("svg.marks [fill], svg.marks [stroke]")) for (const key of ["fill", "stroke"]) {
      if (found.has(one.getAttribute(key))) one.setAttribute(key, found.get(one.getAttribute(key)));
    }
    for (const one of document.querySelectorAll(".swatch")) one.style.background = found.get(one.style.background) ?? one.style.background;
  }
  let onPaper = false;
  addEventListener("beforeprint", () => { if (dark() && !onPaper) { onPaper = true; recoloured("dark", "light"); } });
  addEventListener("afterprint", () => { if (onPaper) { onPaper = false; recoloured("light", "dark"); } });

  const config = {
    font: FONT,
    background: null,
    aria: false, // each picture has one label of its own, in the page's language
    mark: { aria: false },
    view: { stroke: null },
    axis: { labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, grid: false, domain: false, tickSize: 4 },
    axisX: { grid: true },
    legend: { labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, symbolType: "square" },
    header: { labelFontSize: 12, labelFontWeight: 600, title: null },
  };

  // Numbers on axes as Intl writes them: its signs, and from how many digits on thousands are set apart.
  const parts = Object.fromEntries(numerals(1).formatToParts(-1234567.8).map((one) => [one.type, one.value]));
  const formatLocale = { decimal: parts.decimal, thousands: parts.group, grouping: [3], currency: ["", ""] };
  const ungrouped = numerals(0).formatToParts(1234).length === 1;
  const count = { labelExpr: `format(datum.value, ${ungrouped ? "abs(datum.value) < 10000 ? '~f' : " : ""}',~f')` };

  async function draw(place, spec, tooltip) {
    const result = await vegaEmbed(place, { config, ...spec }, {
      actions: false, ast: true, formatLocale, logLevel: 1, renderer: "svg", defaultStyle: false, tooltip: tooltip || false,
      loader: { load: () => Promise.reject(new Error("this page loads nothing")) },
    });
    return result.view;
  }

  const USUAL_WIDTH = 640;
  // As wide as its place, so many points high for each of its rows.
  function size(place, rows, step) {
    const width = (typeof place === "string" ? document.querySelector(place) : place).clientWidth || USUAL_WIDTH;
    return { width, height: Math.max(1, rows) * step, autosize: { type: "fit-x", contains: "padding" } };
  }

  function budget(place, parts, levels, labels) {
    const total = new Map(), others = text("other queries");
    for (const part of parts) total.set(part.query, (total.get(part.query) || 0) + part.share);
    const queries = [...total.keys()].sort((a, b) => total.get(b) - total.get(a));
    const shown = queries.slice(0, queries.length > QUERIES.length ? QUERIES.length - 1 : QUERIES.length);
    const values = new Map();
    for (const part of parts) {
      const query = shown.includes(part.query) ? part.query : others;
      const key = part.level + "\n" + query;
      const before = values.get(key) || { level: labels.get(part.level), query, rank: queries.indexOf(part.query), share: 0 };
      values.set(key, { ...before, share: before.share + part.share });
    }
    const domain = [...shown, ...(shown.length < queries.length ? [others] : [])];
    const range = [...QUERIES.slice(0, shown.length), ...(shown.length < queries.length ? [OTHER] : [])];
    return draw(place, {
      ...size(place, levels.length, 30),
      data: { values: [...values.values()] },
      mark: { type: "bar", cornerRadius: 2, height: { band: 0.72 } },
      encoding: {
        y: { field: "level", type: "nominal", sort: levels.map((level) => labels.get(level)), title: null },
        x: { field: "share", type: "quantitative", stack: "zero", axis: { format: "%", title: text("share of the whole budget"), tickCount: 5 } },
        color: { field: "query", type: "nominal", scale: { domain, range },
                 legend: { title: text("query"), orient: "bottom", columns: 4, labelLimit: 240 } },
        order: { field: "rank" },
      },
    });
  }

  function margins(place, rows, sizes, levels, labels) {
    const values = rows.flatMap((row) => row.sizes.filter((one) => one[2] !== null).map(
      ([size, areas, low, median, high]) => ({ level: row.level, label: labels.get(row.level), size: sizes[size], order: size, areas, low, median, high })));
    const wide = values.some((value) => value.high > 40);
    const x = { type: "quantitative", scale: wide ? { type: "symlog", constant: 2 } : { type: "linear", zero: true } };
    return draw(place, {
      ...size(place, values.length, 19),
      data: { values },
      encoding: {
        y: { field: "key", type: "nominal", sort: { field: "rank" }, title: null, axis: { labelLimit: 280 } },
      },
      transform: [
        { calculate: "datum.label + ', ' + datum.size", as: "key" },
        { calculate: JSON.stringify(levels) + ".length ? indexof(" + JSON.stringify(levels) + ", datum.level) * 100 + datum.order : 0", as: "rank" },
      ],
      layer: [
        { mark: { type: "rule", strokeWidth: 6, strokeCap: "round", opacity: 0.3, color: accent() },
          encoding: { x: { field: "low", ...x, axis: { title: text("margin of error, as a count"), tickCount: 6, ...count } }, x2: { field: "high" } } },
        { mark: { type: "point", filled: true, size: 70, color: accent(), opacity: 1 },
          encoding: { x: { field: "median", ...x } } },
      ],
    });
  }

  function map(place, features, options) {
    let [west, east, south, north] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const feature of features) for (const polygon of feature.geometry.coordinates) for (const [x, y] of polygon[0]) {
      west = Math.min(west, x); east = Math.max(east, x); south = Math.min(south, y); north = Math.max(north, y);
    }
    const width = Math.max(240, document.getElementById("picture").clientWidth - 4);
    const height = Math.round(Math.min(560, Math.max(220, (width * (north - south)) / Math.max(1e-9, east - west))));
    return draw(place, {
      width, height, autosize: { type: "none" }, padding: 0,
      data: { values: features },
      projection: { type: "identity", reflectY: true },
      layer: [{
        mark: { type: "geoshape", strokeWidth: 0.5, aria: false, invalid: "show" },
        encoding: {
          color: { condition: { test: "datum.value === null", value: "transparent" }, field: "value", type: "quantitative",
                   scale: { type: "threshold", domain: options.breaks, range: colours(options.breaks.length + 1) },
                   legend: null },
          stroke: { condition: { test: "datum.chosen", value: CHOSEN[dark() ? "dark" : "light"] }, value: BORDER[dark() ? "dark" : "light"] },
          strokeWidth: { condition: { test: "datum.chosen", value: 2.5 }, value: 0.5 },
          tooltip: { field: "row", type: "quantitative" },
        } }, {
        transform: [{ filter: "datum.weak" }],
        mark: { type: "geoshape", fill: `url(#${HATCH})`, strokeWidth: 0, aria: false },
      }],
    }, options.tooltip).then((view) => { hatch(view.container().querySelector("svg")); return view; });
  }

  // Lines over what should not be used on its own: they are seen on any colour, on paper, and with any colour vision.
  const HATCH = "hatch", SVG = "http://www.w3.org/2000/svg";
  function hatch(svg) {
    const made = (tag, properties, ...children) => {
      const one = document.createElementNS(SVG, tag);
      for (const [name, value] of Object.entries(properties)) one.setAttribute(name, value);
      one.append(...children);
      return one;
    };
    const line = (stroke, width) => made("path", { d: "M-2 9 L9 -2 M-2 16 L16 -2 M5 16 L16 5", stroke, "stroke-width": width });
    const pattern = made("pattern", { id: HATCH, width: 14, height: 14, patternUnits: "userSpaceOnUse" }, line("#ffffff", 2.4), line("#3b3b3b", 1));
    svg.prepend(made("defs", {}, pattern));
  }

  function ranked(place, values, options) {
    return draw(place, {
      ...size(place, values.length, 18),
      data: { values },
      encoding: {
        y: { field: "label", type: "nominal", sort: null, title: null, axis: { labelLimit: 220 } },
        tooltip: { field: "row", type: "quantitative" },
      },
      layer: [
        { mark: { type: "rule", strokeWidth: 5, opacity: 0.3, color: accent(), strokeCap: "round" },
          encoding: { x: { field: "low", type: "quantitative", axis: { title: options.title, ...count, tickCount: 6 } }, x2: { field: "high" } } },
        { mark: { type: "point", size: 60, opacity: 1, strokeWidth: 2 }, encoding: {
          x: { field: "value", type: "quantitative" }, stroke: { value: accent() },
          fill: { condition: { test: "datum.weak", value: BORDER[dark() ? "dark" : "light"] }, value: accent() } } },
      ],
    }, options.tooltip);
  }

  // So many colours of the ramp, evenly from all of it.
  function colours(n) {
    const all = ramp();
    return Array.from({ length: n }, (_, i) => all[n === 1 ? 3 : Math.round((i * (all.length - 1)) / (n - 1))]);
  }

  // Where the colours of a map change: quantiles of its values, each once; `round`: to two digits.
  function breaks(values, round) {
    const two = (value) => (round ? Number(value.toPrecision(2)) : value);
    const sorted = [...values].sort((a, b) => a - b);
    const n = ramp().length;
    const found = Array.from({ length: n - 1 }, (_, i) => sorted[Math.floor(((i + 1) * sorted.length) / n)]).filter((value) => value !== undefined).map(two);
    return [...new Set(found)].filter((value) => value > sorted[0]);
  }

  return { budget, margins, map, ranked, breaks, colours };
})();

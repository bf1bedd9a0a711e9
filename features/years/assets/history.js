// Of a chosen area the numbers of all periods as a line with a band and as a table, and whether they rose or fell.
"use strict";
(async () => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const page = figures(content), { levelOf, numbersOf, count, interval, nameOf, titleOf, whole } = page;
  const $ = (id) => document.getElementById(id);
  const { periods, pairs } = content, T = periods.length, LISTED = 500;
  const usable = typeof DecompressionStream !== "undefined" && content.tables.length > 0;
  $("explorer").hidden = !usable;
  $("no-explorer").hidden = usable;
  if (!usable) return;
  let drawAgain = () => {}, resized = 0;
  const state = { level: 0, row: 0, table: 0, cell: 0 };
  const unread = () => { $("unread").textContent = text("A file beside this page could not be read; it belongs in the folder report/."); };

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("aria-") || name === "role" || name === "scope") made.setAttribute(name, value);
      else made[name] = value;
    }
    made.append(...children);
    return made;
  }
  function drawn(tag, attributes = {}, words = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = words;
    return made;
  }
  const signed = (value) => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + whole.format(Math.abs(value));
  const between = ([low, high]) => `${whole.format(low)}\u2013${whole.format(high)}`;
  const betweenChanges = ([low, high]) => text("{low} to {high}", { low: signed(low), high: signed(high) });

  // The numbers of an area, and its changes between the pairs of periods: what a table of the revision has of it.
  function seriesOf(numbers, row, cell) {
    const first = cell * (T + pairs.length);
    const values = periods.map((_, t) => count(numbers, row, first + t));
    const ends = periods.map((_, t) => interval(numbers, row, first + t));
    const changes = pairs.map(([from, to], i) => {
      const value = values[to] - values[from];
      const [low, high] = interval(numbers, row, first + T + i).map((end) => value + end);
      return { from, to, value, low, high, direction: low > 0 ? 1 : high < 0 ? -1 : 0 };
    });
    return { values, ends, changes };
  }
  const overall = ({ changes }) => changes.find(({ from, to }) => from === 0 && to === T - 1);
  const verdict = ({ direction }) => direction > 0 ? text("rose") : direction < 0 ? text("fell") : text("cannot tell");
  function sentence({ from, to, value, low, high, direction }) {
    const words = { first: periods[from], last: periods[to], n: whole.format(Math.abs(value)), change: signed(value), low: signed(low), high: signed(high) };
    if (direction > 0) return text("From {first} to {last} the number rose by {n} (90 % interval: {low} to {high}).", words);
    if (direction < 0) return text("From {first} to {last} the number fell by {n} (90 % interval: {low} to {high}).", words);
    return text("It cannot be told whether the number rose or fell from {first} to {last}: {change} (90 % interval: {low} to {high}).", words);
  }

  // Round numbers on the scale, from below the least to above the largest; 0 is on it where it is near.
  function scaleOf(least, most) {
    const low = least <= 0.4 * most ? 0 : least, room = Math.max(1, most - low);
    const rough = room / 4, power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough));
    const marks = [];
    for (let mark = Math.floor(low / step) * step; ; mark += step) { marks.push(mark); if (mark >= most) return marks; }
  }
  function draw({ values, ends }) {
    const width = Math.max(260, $("line").parentElement.clientWidth - 38), height = Math.round(Math.min(320, 0.62 * width)), top = 12, bottom = 30, right = 18;
    const marks = scaleOf(Math.min(...ends.map(([low]) => low)), Math.max(...ends.map(([, high]) => high)));
    const words = marks.map((mark) => whole.format(mark)), left = 14 + 7.4 * Math.max(...words.map((one) => one.length));
    const inset = T > 1 ? 10 : (width - left - right) / 2, step = T > 1 ? (width - left - right - 2 * inset) / (T - 1) : 0;
    const x = (t) => Math.round(10 * (left + inset + t * step)) / 10;
    const y = (value) => Math.round(10 * (top + (height - top - bottom) * (marks.at(-1) - value) / (marks.at(-1) - marks[0]))) / 10;
    const parts = marks.flatMap((mark, i) => [
      drawn("line", { class: "grid", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }),
      drawn("text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, words[i])]);
    const apart = Math.max(1, Math.ceil((8 * Math.max(...periods.map((one) => one.length)) + 6) / Math.max(1, step)));
    periods.forEach((period, t) => {
      if ((T - 1 - t) % apart === 0) parts.push(drawn("text", { x: x(t), y: height - 8, "text-anchor": t === T - 1 && T > 1 ? "end" : "middle", ...(t === T - 1 && T > 1 ? { dx: 12 } : {}) }, period));
    });
    if (T > 1) {
      const band = [...ends.map(([, high], t) => `${x(t)},${y(high)}`), ...ends.map(([low], t) => `${x(t)},${y(low)}`).reverse()];
      parts.push(drawn("polygon", { class: "band", points: band.join(" ") }));
      parts.push(drawn("polyline", { class: "values", points: values.map((value, t) => `${x(t)},${y(value)}`).join(" ") }));
    } else parts.push(drawn("rect", { class: "band", x: x(0) - 6, width: 12, y: y(ends[0][1]), height: Math.max(1, y(ends[0][0]) - y(ends[0][1])) }));
    values.forEach((value, t) => {
      const point = drawn("circle", { cx: x(t), cy: y(value), r: 3.5 });
      point.append(drawn("title", {}, `${periods[t]}: ${whole.format(value)} (${between(ends[t])})`));
      parts.push(point);
    });
    $("line").setAttribute("viewBox", `0 0 ${width} ${height}`);
    $("line").replaceChildren(...parts);
  }

  const cell = (value, ends) => element("td", {}, value, element("small", { className: "line", textContent: ends }));
  function rowOfPeriod({ values, ends, changes }, t) {
    const change = changes.find(({ from, to }) => from === t - 1 && to === t);
    return element("tr", {},
      element("th", { scope: "row", textContent: periods[t] }),
      cell(whole.format(values[t]), between(ends[t])),
      change ? cell(signed(change.value), betweenChanges([change.low, change.high])) : element("td"),
      element("td", { className: "text", textContent: change ? verdict(change) : "" }));
  }
  const link = (level, row, words) => element("button", { type: "button", className: "link", textContent: words, onclick: () => choose(level, row) });

  async function inside(level) {
    const below = content.levels[state.level + 1], of = below && content.tables[state.table].levels[below.name];
    $("inside-card").hidden = !of || T < 2;
    if (!of || T < 2) return;
    const children = await levelOf(state.level + 1), [first, end] = [children.starts[state.row], children.starts[state.row + 1]];
    const numbers = await numbersOf(state.table, state.level + 1), shown = Math.min(end, first + LISTED);
    await Promise.all([children.need(first, shown), numbers.need(first, shown)]);
    $("inside-caption").textContent = shown < end
      ? text("The first {n} of {all} areas within {area}", { n: whole.format(shown - first), all: whole.format(end - first), area: nameOf(level, state.row) })
      : text("Areas within {area}", { area: nameOf(level, state.row) });
    $("inside-body").replaceChildren(...Array.from({ length: shown - first }, (_, i) => {
      const found = seriesOf(numbers, first + i, state.cell), change = overall(found);
      return element("tr", {}, element("th", { scope: "row" }, link(children.number, first + i, nameOf(children, first + i))),
        cell(whole.format(found.values.at(-1)), between(found.ends.at(-1))), cell(signed(change.value), betweenChanges([change.low, change.high])),
        element("td", { className: "text", textContent: verdict(change) }));
    }));
  }

  async function above() {
    const path = [];
    for (let number = state.level, row = state.row; number > 0;) {
      row = (await levelOf(number)).parents[row];
      const level = await levelOf(--number);
      await level.need(row, row + 1);
      path.unshift(link(number, row, titleOf(level, row)), " \u203a ");
    }
    $("above").replaceChildren(...path);
  }

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, words]) => element("option", { value: String(value), textContent: words })));
    select.value = String(chosen);
  }
  async function show() {
    const level = await levelOf(state.level);
    const has = content.tables.flatMap((table, number) => table.levels[level.name] ? [[number, table.title]] : []);
    if (!has.some(([number]) => number === state.table)) [state.table, state.cell] = [has.length ? has[0][0] : -1, 0];
    fill($("table"), has, state.table);
    const table = content.tables[state.table], there = table !== undefined;
    $("cell").closest("label").hidden = !there || table.shown.length === 1;
    for (const card of document.querySelectorAll("#explorer .two")) card.hidden = !there;
    await level.need(state.row, state.row + 1);
    $("area-title").textContent = titleOf(level, state.row);
    await above();
    if (!there) {
      $("inside-card").hidden = true;
      $("verdict").textContent = text("There is no table of areas of level {level}.", { level: level.label });
    } else {
      fill($("cell"), table.shown.map((label, number) => [number, label]), state.cell);
      const numbers = await numbersOf(state.table, state.level);
      await numbers.need(state.row, state.row + 1);
      const found = seriesOf(numbers, state.row, state.cell), what = table.shown.length > 1 ? `${table.title}: ${table.shown[state.cell]}` : table.title;
      const words = { what, area: titleOf(level, state.row), first: periods[0], last: periods.at(-1) };
      $("line-title").textContent = text("{what}, {area}, {first} to {last}", words);
      $("changes-caption").textContent = text("{what}, {area}, in each period", words);
      $("verdict").textContent = T > 1 ? sentence(overall(found)) : "";
      drawAgain = () => draw(found);
      drawAgain();
      $("changes-body").replaceChildren(...periods.map((_, t) => rowOfPeriod(found, t)));
      await inside(level);
    }
    document.documentElement.dataset.ready = String(Number(document.documentElement.dataset.ready ?? 0) + 1);
  }
  const shown = () => show().catch((error) => { if (!(error instanceof decode.Unread)) throw error; unread(); });
  async function choose(level, row) {
    [state.level, state.row] = [level, row];
    await shown();
    $("area-title").focus();
  }

  $("table").addEventListener("change", () => { [state.table, state.cell] = [Number($("table").value), 0]; shown(); });
  $("cell").addEventListener("change", () => { state.cell = Number($("cell").value); shown(); });
  window.addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => drawAgain(), 150); });
  searchFor(content, page, { element, unread, taken: choose });
  await shown();
})();

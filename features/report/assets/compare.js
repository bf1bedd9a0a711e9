// Areas beside each other: numbers, shares, their differences from the first, and their sum, each with its 90 % interval.
"use strict";
window.comparison = (content, figures, state, { element, choose, show }) => {
  const { number, share, shares, ranks, medians, totals, compare, pathOf } = moments(content, figures);
  const { levelOf, titleOf, whole, fitting, fittingShare, TOTAL } = figures;
  const groupOf = (table) => state.cell === TOTAL ? text("total") : table.shown[state.cell];
  const MOST = 400;
  const $ = (id) => document.getElementById(id);
  const place = (area) => [area.level, area.row];
  const same = (one) => (other) => one.level === other.level && one.row === other.row;
  const has = (area) => state.compare.some(same(area));
  async function titled({ level: number, row }) {
    const level = await levelOf(number);
    await level.need(row, row + 1);
    return titleOf(level, row);
  }

  function toggle(...areas) {
    const [first] = areas;
    state.compare = has(first) && areas.length === 1 ? state.compare.filter((one) => !same(first)(one))
      : [...state.compare, ...areas.filter((one) => !has(one))].slice(0, MOST);
    return show();
  }
  // Areas that are put in; those that are there stay.
  function add(areas) {
    state.compare = [...state.compare, ...areas.filter((one) => !has(one))].slice(0, MOST);
    return show();
  }
  async function parentOf({ level, row }) {
    return level === 0 ? null : { level: level - 1, row: (await levelOf(level)).parents[row] };
  }

  // ---------------------------------------------------------------- in words
  const signed = (value, format) => {
    const rounded = format.rounded?.(value) ?? value;
    return (rounded > 0 ? "+" : rounded < 0 ? "\u2212" : "") + format.format(Math.abs(value));
  };
  const ends = (found, format, written = (value, form) => form.format(value)) => {
    if (found === null) return text("not known");
    if (found.some((end) => !Number.isFinite(end))) return text("no limit");
    return text("{low} to {high}", { low: written(found[0], format), high: written(found[1], format) });
  };
  const verdict = (found) => found.differs === null ? text("cannot tell: the margin of error is not known")
    : found.differs ? text("differs") : text("cannot tell");
  const kindOf = (found) => (found.differs ? "good" : "hint");

  // What is in the table: a row an area, the sum last; each cell has a value and its interval as numbers.
  async function rows() {
    const [table, cell] = [state.table, state.cell], several = content.tables[table].labels.length > 1 && cell !== TOTAL;
    const inPage = state.compare.filter((area) => content.tables[table].levels[content.levels[area.level].name] !== undefined);
    const found = await Promise.all(inPage.map(async (area, i) => ({
      area, title: await titled(area), number: await number(table, [place(area)], cell),
      share: several ? await share(table, [place(area)], cell) : null,
      compared: i === 0 ? null : await compare(table, [place(area)], [place(inPage[0])], cell) })));
    return { found, several, missing: state.compare.length - inPage.length };
  }
  // Areas can be added up where none is inside another.
  async function sum(found) {
    const paths = await Promise.all(found.map(({ area }) => pathOf(place(area))));
    const nested = paths.some((path, i) => paths.some((other, j) => i !== j && other.length <= path.length
      && other.every((row, level) => row === path[level])));
    if (found.length < 2 || nested) return null;
    const areas = found.map(({ area }) => place(area));
    return { number: await number(state.table, areas, state.cell), share: state.cell === TOTAL ? null : await share(state.table, areas, state.cell) };
  }

  function cells(one, several) {
    const inTd = (value, interval, kind = "") => element("td", {}, value, ...(interval ? [" ", element("small", { textContent: `(${interval})` })] : []), ...(kind ? [kind] : []));
    const mark = (found) => element("span", { className: `verdict ${kindOf(found)}`, textContent: verdict(found) });
    const numbers = [inTd(whole.format(one.number.value), one.number.exact ? text("exact") : ends(one.number.ends, whole))];
    if (several) {
      const fine = fittingShare(one.share?.ends ?? null);
      numbers.push(one.share ? inTd(`${fine.share.format(one.share.value)} %`, ends(one.share.ends, fine.ends)) : element("td", {}, "\u2013"));
    }
    const { difference, shares, ratio } = one.compared ?? {};
    numbers.push(difference ? inTd(signed(difference.value, whole), ends(difference.ends, whole, signed), mark(difference)) : element("td"));
    if (several) {
      const fine = fitting(shares?.ends ?? null);
      numbers.push(shares ? inTd(signed(shares.value, fine), ends(shares.ends, fine, signed), mark(shares)) : element("td"));
    }
    const fine = ratio && Number.isFinite(ratio.ends?.[1]) ? fitting(ratio.ends) : numerals(2);
    numbers.push(ratio ? inTd(fine.format(ratio.value), ends(ratio.ends, fine)) : element("td"));
    return numbers;
  }

  let shown = [];
  async function draw() {
    const { found, several, missing } = await rows();
    const table = content.tables[state.table];
    $("compare").hidden = state.compare.length === 0;
    const heads = [text("area"), text("number"), ...(several ? [text("share, in %")] : []), text("difference"),
      ...(several ? [text("difference of shares, in points")] : []), text("ratio"), ""];
    $("compare-head").replaceChildren(element("tr", {}, ...heads.map((head) => head ? element("th", { scope: "col", textContent: head })
      : element("td", {}))));
    const lines = found.map((one) => element("tr", {}, element("th", { scope: "row" }, element("button", {
      type: "button", className: "link", textContent: one.title, key: `compared-${one.area.level}-${one.area.row}`,
      onclick: () => choose(one.area.level, one.area.row) })), ...cells(one, several), element("td", {}, element("button", {
        type: "button", textContent: "\u00d7", title: text("Remove"), "aria-label": text("Remove {area}", { area: one.title }),
        key: `out-${one.area.level}-${one.area.row}`, onclick: () => toggle(one.area) }))));
    const all = await sum(found);
    $("compare-sum").textContent = all === null ? "" : text("These {n} areas together: {what}, {sum}.", { n: whole.format(found.length), what: groupOf(table),
      sum: all.number.exact ? text("{n} (exact)", { n: whole.format(all.number.value) }) : all.number.ends === null ? text("{n} (interval not known)", { n: whole.format(all.number.value) })
        : text("{n} (90 % interval: {low} to {high})", { n: whole.format(all.number.value), low: whole.format(all.number.ends[0]), high: whole.format(all.number.ends[1]) }) });
    $("said").textContent = $("compare-sum").textContent || $("said").textContent;
    if (all) lines.push(element("tr", { className: "sum-row" }, element("th", { scope: "row", textContent: text("all together") }), ...cells(all, several), element("td")));
    $("compare-body").replaceChildren(...lines);
    $("compare-caption").textContent = text("{what}, table {table}; 90 % intervals in brackets", { what: groupOf(table), table: table.title });
    const notes = [];
    if (several) for (const { title, compared: { totals } } of found.slice(1).filter(({ compared }) => compared.totals?.ends)) {
      const named = { what: content.universes[table.universe], area: title, other: found[0].title, difference: signed(totals.value, whole), interval: ends(totals.ends, whole, signed) };
      notes.push(totals.differs ? totals.value > 0 ? text("Total ({what}): {area} has more than {other}; the difference is {difference} ({interval}).", named)
        : text("Total ({what}): {area} has fewer than {other}; the difference is {difference} ({interval}).", named)
        : text("Total ({what}): whether {area} and {other} differ cannot be told; the difference is {difference} ({interval}).", named));
    }
    if (found.length > 1) notes.push(text("Differences and ratios are relative to the first area, {area}.", { area: found[0].title }));
    if (found.length > 1 && all === null) notes.push(text("One of the areas is inside another, so they are not added up."));
    if (found.length > 9 && all?.number.ends) notes.push(text("Small numbers lean upwards together. The interval of the sum is around the sum of the published numbers and does not allow for it; that of spinewise query, with --areas, does."));
    if (found.length >= MOST) notes.push(text("No more than {n} areas are taken.", { n: whole.format(MOST) }));
    if (missing) notes.push(text("Areas not shown, because the page does not have this table for their level: {n}.", { n: whole.format(missing) }));
    if (found.some(({ compared }) => compared && compared.difference.ends === null)) {
      notes.push(text("“Not known”: this page lacks the data to compute the interval, or the measurements do not determine it; spinewise query may know it."));
    }
    $("compare-notes").replaceChildren(...notes.map((note) => element("li", { textContent: note })));
    shown = all ? [...found, { title: text("all together"), ...all }] : found;
  }

  // The comparison as rows of a file; what is not known is empty.
  async function file() {
    const levels = await Promise.all(content.levels.map((_, number) => levelOf(number)));
    const columns = ["number", "share", "difference", "share_difference", "ratio"];
    const three = (found) => found ? [found.value, ...(found.ends ?? ["", ""])].map((one) => typeof one === "number" && !Number.isFinite(one) ? "" : one) : ["", "", ""];
    const lines = shown.map((one) => [one.area ? content.levels[one.area.level].name : "", one.area ? levels[one.area.level].codes[one.area.row] : "", one.title,
      ...[one.number, one.share, one.compared?.difference, one.compared?.shares, one.compared?.ratio].flatMap(three)]);
    const head = ["level", "geocode", "title", ...columns.flatMap((name) => [name, `${name}:low90`, `${name}:high90`])];
    return [head, ...lines];
  }

  return { draw, has, toggle, add, parentOf, titled, file, shares, ranks, medians, totals, compare, share };
};

// The numbers of the page: read when they are first needed, with their margins, classes and shares, and as text.
"use strict";
window.figures = (content) => {
  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const tenth = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
  const spoken = (name) => name.replaceAll("_", " ");

  const once = (read) => { const kept = new Map(); return (...key) => {
    const name = key.join("/");
    if (!kept.has(name)) kept.set(name, read(...key));
    return kept.get(name);
  }; };

  const levelOf = once(async (number) => {
    const stated = content.levels[number];
    if (stated.codes === null) return null;
    const [codes, children, names] = await Promise.all([
      decode.lines(stated.codes), decode.numbers(stated.children),
      stated.names === undefined ? [] : decode.lines(stated.names),
    ]);
    const parents = new Int32Array(stated.n).fill(-1);
    let at = 0;
    children.forEach((n, parent) => { parents.fill(parent, at, at + n); at += n; });
    if (stated.prefixed) {
      const above = await levelOf(number - 1);
      codes.forEach((code, i) => { codes[i] = above.codes[parents[i]] + code; });
    }
    return { number, name: stated.name, n: stated.n, codes, parents, names };
  });

  const numbersOf = once(async (table, level) => {
    const where = content.tables[table].levels[content.levels[level].name];
    const [counts, margins] = await Promise.all([
      decode.numbers(where.counts), where.margins === null ? null : decode.numbers(where.margins)]);
    return { n: content.levels[level].n, width: content.tables[table].labels.length, counts, margins };
  });

  const shapesOf = once((level) => decode.shapes(content.levels[level].map));

  const count = (numbers, row, column) => numbers.counts[column * numbers.n + row];
  // Tenths of a person; null where it is not known or not published.
  const stored = (numbers, row, column) => numbers.margins === null ? 1 : numbers.margins[column * numbers.n + row];
  function margin(numbers, row, column) {
    const found = stored(numbers, row, column);
    return found === 1 ? null : Math.max(0, found - 2);
  }
  const isExact = (numbers, row, column) => stored(numbers, row, column) === 0;
  // A number that is not exact counts as having a margin of one person at least; see reliability.py.
  const leastMargin = (numbers, row, column) => {
    const tenths = margin(numbers, row, column);
    return tenths === null || isExact(numbers, row, column) ? tenths : Math.max(10, tenths);
  };
  function classOf(numbers, row, column) {
    const [value, tenths] = [count(numbers, row, column), leastMargin(numbers, row, column)];
    if (tenths === null) return "sum";
    if (isExact(numbers, row, column) || tenths <= value) return "good";
    return 2 * tenths <= 10 * value ? "care" : "sum";
  }
  const kindOf = (...place) => content.classes.find((one) => one.key === classOf(...place));
  // The share of a number in its area, in %, with its 90 % interval; errors of a row's numbers are taken as independent.
  function share(numbers, row, column) {
    const value = count(numbers, row, column), all = rowTotal(numbers, row);
    if (!all) return null;
    let others = 0;
    for (let other = 0; other < numbers.width; other++) {
      const tenths = leastMargin(numbers, row, other);
      if (tenths === null) return { value: (100 * value) / all, low: null, high: null };
      if (other !== column) others += tenths * tenths;
    }
    const own = leastMargin(numbers, row, column);
    const error = (10 * Math.hypot((all - value) * own, value * Math.sqrt(others))) / (all * all);
    const middle = (100 * value) / all;
    return { value: middle, low: Math.max(0, middle - error), high: Math.min(100, middle + error) };
  }
  const rowTotal = (numbers, row) => {
    let sum = 0;
    for (let column = 0; column < numbers.width; column++) sum += count(numbers, row, column);
    return sum;
  };
  const tenthsText = (tenths) => "\u00b1" + (tenths >= 100 ? whole.format(Math.ceil(tenths / 10)) : tenth.format(tenths / 10));
  function marginText(numbers, row, column) {
    if (numbers.margins === null) return "";
    if (isExact(numbers, row, column)) return "exact";
    const tenths = margin(numbers, row, column);
    return tenths === null ? "margin not known" : tenthsText(tenths);
  }
  const shareText = (found) => `${tenth.format(found.value)} %` +
    (found.low === null ? "" : ` (${tenth.format(found.low)} to ${tenth.format(found.high)} %)`);
  const nameOf = (level, row) => level.names[row] || level.codes[row];
  const titleOf = (level, row) => level.names[row] ? `${level.names[row]} (${spoken(level.name)} ${level.codes[row]})`
    : `${spoken(level.name)} ${level.codes[row]}`;
  const quoted = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  // A view as CSV: the rows in their order, each count with its margin in persons, which is empty where not known.
  function csvOf(table, level, numbers, rows) {
    const named = level.names.length > 0;
    const head = ["geocode", ...(named ? ["name"] : [])];
    for (const label of table.labels) head.push(label, ...(numbers.margins === null ? [] : [label + ":moe90"]));
    const lines = rows.map((row) => {
      const cells = [level.codes[row], ...(named ? [level.names[row]] : [])];
      table.labels.forEach((_, column) => {
        cells.push(String(count(numbers, row, column)));
        if (numbers.margins !== null) {
          const error = margin(numbers, row, column);
          cells.push(error === null ? "" : String(error / 10));
        }
      });
      return cells.map(quoted).join(",");
    });
    return [head.map(quoted).join(","), ...lines].join("\n") + "\n";
  }

  return {
    levelOf, numbersOf, shapesOf, count, margin, classOf, kindOf, share,
    rowTotal, marginText, shareText, nameOf, titleOf, spoken, csvOf, whole, tenth,
  };
};

// The numbers of the page: read when they are first needed, with their intervals, classes and shares, and as text.
"use strict";
window.figures = (content) => {
  const whole = numerals(0), tenth = numerals(1), hundredth = numerals(2);
  const spoken = (name) => name.replaceAll("_", " ");
  // A name whose letters run from right to left, so that what stands beside it stays where it is.
  const apart = (name) => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(name) ? `\u2068${name}\u2069` : name;
  // As names are compared in a search: without case, accents and marks of direction.
  const folded = (text) => text.normalize("NFKD").replace(/[\p{M}\p{Cf}]/gu, "").toLowerCase();

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
    const keys = names.map(folded);
    return { number, name: stated.name, label: stated.label, n: stated.n, codes, parents, names, keys };
  });

  const numbersOf = once(async (table, level) => {
    const where = content.tables[table].levels[content.levels[level].name];
    const [counts, below, above] = await Promise.all([where.counts, where.below, where.above]
      .map((chunk) => chunk === null ? null : decode.numbers(chunk)));
    return { n: content.levels[level].n, width: content.tables[table].labels.length, counts, below, above };
  });

  const shapesOf = once((level) => decode.shapes(content.levels[level].map));

  const count = (numbers, row, column) => numbers.counts[column * numbers.n + row];
  const stored = (numbers, row, column) => numbers.below === null ? 1 : numbers.below[column * numbers.n + row];
  const isExact = (numbers, row, column) => stored(numbers, row, column) === 0;
  // The ends of the 90 % interval, persons; null where it is not known or not published.
  function interval(numbers, row, column) {
    const [value, found] = [count(numbers, row, column), stored(numbers, row, column)];
    if (found === 1) return null;
    return found === 0 ? [value, value] : [value - (found - 2), value + numbers.above[column * numbers.n + row]];
  }
  // The larger distance from a number to an end of its interval, persons.
  function margin(numbers, row, column) {
    const ends = interval(numbers, row, column), value = count(numbers, row, column);
    return ends === null ? null : Math.max(value - ends[0], ends[1] - value);
  }
  function classOf(numbers, row, column) {
    const [value, error] = [count(numbers, row, column), margin(numbers, row, column)];
    if (error === null) return "sum";
    if (isExact(numbers, row, column) || 10 * error <= value) return "good";
    return 2 * error <= value ? "care" : "sum";
  }
  const kindOf = (...place) => content.classes.find((one) => one.key === classOf(...place));
  // The share of a number in its area, in %, with its 90 % interval where moments.js knows it.
  function share(numbers, row, column) {
    const value = count(numbers, row, column), all = rowTotal(numbers, row);
    if (!all) return null;
    const [low, high] = numbers.shareOf?.(row, column) ?? [null, null];
    return { value: (100 * value) / all, low, high };
  }
  const rowTotal = (numbers, row) => {
    let sum = 0;
    for (let column = 0; column < numbers.width; column++) sum += count(numbers, row, column);
    return sum;
  };
  function intervalText(numbers, row, column) {
    if (numbers.below === null) return "";
    if (isExact(numbers, row, column)) return text("exact");
    const ends = interval(numbers, row, column);
    return ends === null ? text("(not known)") : `(${whole.format(ends[0])}\u2013${whole.format(ends[1])})`;
  }
  const rankText = (found) => found === null ? text("(not known)") : found.low === found.high ? whole.format(found.rank)
    : `${whole.format(found.rank)} (${whole.format(found.low)}\u2013${whole.format(found.high)})`;
  const shareText = (found) => `${tenth.format(found.value)} %` +
    (found.low === null ? "" : " " + text("({low} to {high} %)", { low: tenth.format(found.low), high: tenth.format(found.high) }));
  const nameOf = (level, row) => level.names[row] ? apart(level.names[row]) : level.codes[row];
  const titleOf = (level, row) => level.names[row] ? `${apart(level.names[row])} (${level.label} ${level.codes[row]})`
    : `${level.label} ${level.codes[row]}`;
  // What a spreadsheet would take for a formula begins with an apostrophe.
  const cellOf = (name) => /^[=+\-@]/.test(name) ? `'${name}` : name;
  const quoted = (text) => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  // A view as CSV: the rows in their order, each count with its interval in persons, which is empty where not known.
  function csvOf(table, level, numbers, rows) {
    const named = level.names.length > 0;
    const head = ["geocode", ...(named ? ["name"] : [])];
    for (const label of table.labels) head.push(label, ...(numbers.below === null ? [] : [":moe90", ":low90", ":high90"].map((end) => label + end)));
    const lines = rows.map((row) => {
      const cells = [level.codes[row], ...(named ? [cellOf(level.names[row])] : [])];
      table.labels.forEach((_, column) => {
        cells.push(String(count(numbers, row, column)));
        if (numbers.below !== null) {
          const ends = interval(numbers, row, column);
          cells.push(...(ends === null ? ["", "", ""] : [margin(numbers, row, column), ...ends].map(String)));
        }
      });
      return cells.map(quoted).join(",");
    });
    return [head.map(quoted).join(","), ...lines].join("\n") + "\n";
  }

  return {
    levelOf, numbersOf, shapesOf, count, interval, margin, classOf, kindOf, share,
    rowTotal, intervalText, rankText, shareText, nameOf, titleOf, spoken, folded, csvOf, whole, tenth, hundredth, isExact, quoted,
  };
};

// The numbers of the page: read when they are first needed, with their intervals, classes and shares, and as text.
"use strict";
window.figures = (content) => {
  const whole = numerals(0), MOST_DECIMALS = 4;
  const fixed = Array.from({ length: MOST_DECIMALS + 1 }, (_, decimals) => numerals(decimals, decimals));
  // A number and the ends of its interval with as many decimals as the interval is worth: two digits of its width, and
  // as many as keep apart from 0 what does not hold 0. What is rounded to 0 has no sign.
  function fitting(ends, most = MOST_DECIMALS) {
    const width = ends === null || ends[0] === null ? NaN : ends[1] - ends[0];
    let decimals = width > 0 && Number.isFinite(width) ? Math.min(most, Math.max(0, 1 - Math.floor(Math.log10(width)))) : 1;
    const least = width > 0 && ends[0] * ends[1] > 0 ? Math.min(...ends.map(Math.abs)) : Infinity;
    while (decimals < MOST_DECIMALS && Number(least.toFixed(decimals)) === 0) decimals++;
    return { format: (value) => fixed[decimals].format(Number(value.toFixed(decimals)) || 0), rounded: (value) => Number(value.toFixed(decimals)) || 0 };
  }
  // A share as people print it, 27.3 %, and its interval with one digit more; both with fewer where the interval is wide.
  const fittingShare = (ends) => ({ share: fitting(ends, 1), ends: fitting(ends, 2) });
  const spoken = (name) => name.replaceAll("_", " ");
  // A name whose letters run from right to left, so that what stands beside it stays where it is.
  const apart = (name) => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(name) ? `\u2068${name}\u2069` : name;
  // As names are compared in a search: without case, accents and marks of direction.
  const folded = (text) => text.normalize("NFKD").replace(/[\p{M}\p{Cf}]/gu, "").toLowerCase();

  const once = (read) => { const kept = new Map(); return (...key) => {
    const name = key.join("/");
    if (!kept.has(name)) {
      kept.set(name, read(...key));
      kept.get(name).catch(() => kept.delete(name));
    }
    return kept.get(name);
  }; };

  // Large levels and tables are in pieces of so many areas, which are read before they are looked at:
  // await level.need(first, end).
  function needing(n, rows, read) {
    const piece = once(read);
    return (first = 0, end = n) => {
      const places = [];
      for (let place = Math.floor(first / rows); place * rows < end; place++) places.push(piece(place));
      return Promise.all(places);
    };
  }

  // A level: areas whose parent is p are those from starts[p] to starts[p + 1].
  const levelOf = once(async (number) => {
    const stated = content.levels[number], { n, rows, prefixed } = stated, named = stated.names !== undefined;
    const above = number ? await levelOf(number - 1) : null, children = await decode.numbers(stated.children);
    const parents = new Int32Array(n).fill(-1), starts = new Int32Array(children.length + 1);
    children.forEach((size, parent) => {
      starts[parent + 1] = starts[parent] + size;
      parents.fill(parent, starts[parent], starts[parent + 1]);
    });
    const [codes, names, keys] = [n, named ? n : 0, named ? n : 0].map((size) => new Array(size));
    const need = needing(n, rows, async (piece) => {
      const first = piece * rows;
      const [found, called] = await Promise.all([decode.lines(stated.codes + piece), named ? decode.lines(stated.names + piece) : []]);
      if (prefixed) await above.need(parents[first], parents[first + found.length - 1] + 1);
      found.forEach((code, i) => { codes[first + i] = prefixed ? above.codes[parents[first + i]] + code : code; });
      called.forEach((name, i) => { [names[first + i], keys[first + i]] = [name, folded(name)]; });
    });
    if (rows >= n) await need();
    return { number, name: stated.name, label: stated.label, n, cut: rows < n, prefixed, codes, parents, starts, names, keys, need };
  });

  const numbersOf = once(async (table, level) => {
    const { n, name } = content.levels[level], { rows, ends, numbers } = content.tables[table].levels[name];
    const pieces = [], width = content.tables[table].labels.length;
    const need = needing(n, rows, async (piece) => { pieces[piece] = await decode.numbers(numbers + piece); });
    if (rows >= n) await need();
    return { n, width, rows, ends, pieces, need };
  });

  // Where areas of a level can be whose code begins with what is wanted: from, to. Only what is above is read for it.
  async function placesOf(number, wanted) {
    const level = await levelOf(number);
    if (!level.cut || !level.prefixed) return [[0, level.n]];
    const above = await levelOf(number - 1), found = [];
    for (const [first, end] of await placesOf(number - 1, wanted)) {
      await above.need(first, end);
      for (let row = first; row < end; row++) {
        const code = above.codes[row].toLowerCase();
        if (wanted.startsWith(code) || code.startsWith(wanted)) found.push([level.starts[row], level.starts[row + 1]]);
      }
    }
    return found;
  }
  // The place of an area in its level, by its code; -1 if there is none.
  async function rowOf(number, code) {
    const level = await levelOf(number);
    for (const [first, end] of await placesOf(number, code.toLowerCase())) {
      await level.need(first, end);
      const at = level.codes.indexOf(code, first);
      if (at >= 0 && at < end) return at;
    }
    return -1;
  }

  const shapesOf = once((level) => decode.shapes(content.levels[level].map));
  // The area of each outline, square kilometres, on a sphere of the earth's surface; null where a level has no map.
  const EARTH = 6371.0072, RADIANS = Math.PI / 180;
  const areasOf = once(async (level) => {
    const { map } = content.levels[level];
    if (map === null) return null;
    const ring = (points) => {
      let sum = 0;
      for (let i = 1; i < points.length; i++) {
        const [[x, y], [u, v]] = [points[i - 1], points[i]];
        sum += ((u - x) / map.flattening) * RADIANS * (Math.sin(y * RADIANS) + Math.sin(v * RADIANS));
      }
      return Math.abs(sum) * EARTH * EARTH / 2;
    };
    const polygon = ([outer, ...holes]) => holes.reduce((rest, hole) => rest - ring(hole), ring(outer));
    return new Map((await shapesOf(level)).map((one) => [one.row, one.geometry.coordinates.reduce((sum, found) => sum + polygon(found), 0)]));
  });

  // Of a number: 0 its count, 1 how far its interval reaches below it, 2 and above it, as explorer.py has them.
  function stored(numbers, row, column, part) {
    const place = Math.floor(row / numbers.rows), first = place * numbers.rows;
    const n = Math.min(numbers.rows, numbers.n - first);
    return numbers.pieces[place][(part * numbers.width + column) * n + row - first];
  }
  // In place of a column: the sum of the row, which has an interval of its own (`totalOf`, that of moments.js).
  const TOTAL = -1;
  const count = (numbers, row, column) => column === TOTAL ? rowTotal(numbers, row) : stored(numbers, row, column, 0);
  const below = (numbers, row, column) => numbers.ends ? stored(numbers, row, column, 1) : 1;
  const isExact = (numbers, row, column) => column === TOTAL ? numbers.totalOf(row).exact : below(numbers, row, column) === 0;
  // The ends of the 90 % interval, persons; null where it is not known or not published.
  function interval(numbers, row, column) {
    if (column === TOTAL) return numbers.totalOf(row).ends;
    const [value, found] = [count(numbers, row, column), below(numbers, row, column)];
    if (found === 1) return null;
    return found === 0 ? [value, value] : [value - (found - 2), value + stored(numbers, row, column, 2)];
  }
  // The larger distance from a number to an end of its interval, persons.
  function margin(numbers, row, column) {
    const ends = interval(numbers, row, column), value = count(numbers, row, column);
    return ends === null ? null : Math.max(value - ends[0], ends[1] - value);
  }
  function classOf(numbers, row, column) {
    const [value, error] = [count(numbers, row, column), margin(numbers, row, column)];
    if (error === null) return "unreliable";
    if (isExact(numbers, row, column) || 10 * error <= value) return "good";
    return 2 * error <= value ? "care" : "unreliable";
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
    if (!numbers.ends) return "";
    if (isExact(numbers, row, column)) return text("exact");
    const ends = interval(numbers, row, column);
    return ends === null ? text("(not known)") : `(${whole.format(ends[0])}\u2013${whole.format(ends[1])})`;
  }
  const rankText = (found) => found === null ? text("(not known)") : found.low === found.high ? whole.format(found.rank)
    : `${whole.format(found.rank)} (${whole.format(found.low)}\u2013${whole.format(found.high)})`;
  const medianText = ({ shown }, { median, low, high }) => low === high ? text("Median: {value}", { value: shown[median] })
    : text("Median: {value} (90 % interval: {low} to {high})", { value: shown[median], low: shown[low], high: shown[high] });
  const shareText = (found) => {
    const { share, ends } = fittingShare([found.low, found.high]);
    return `${share.format(found.value)} %` + (found.low === null ? "" : " " + text("({low} to {high} %)", { low: ends.format(found.low), high: ends.format(found.high) }));
  };
  const nameOf = (level, row) => level.names[row] ? apart(level.names[row]) : level.codes[row];
  const titleOf = (level, row) => level.names[row] ? `${apart(level.names[row])} (${level.label} ${level.codes[row]})`
    : `${level.label} ${level.codes[row]}`;
  // The answers of a table that are added up to a total of the area: several that leave out nobody and count nobody twice.
  const isTotalled = (table) => table.labels.length > 1 && !table.note;
  // The columns of a table's file, those that the page shows: total and counts, each with its interval in persons, which
  // is empty where not known.
  const filedOf = (table) => [...(isTotalled(table) ? [TOTAL] : []), ...table.labels.keys()];
  const columnsOf = (table, ends) => filedOf(table).map((column) => column === TOTAL ? "total" : table.labels[column])
    .flatMap((label) => [label, ...(ends ? [":moe90", ":low90", ":high90"].map((end) => label + end) : [])]);
  function cellsOf(table, numbers, row, intervals) {
    const cells = [];
    for (const column of filedOf(table)) {
      cells.push(count(numbers, row, column));
      if (intervals) {
        const ends = interval(numbers, row, column);
        cells.push(...(ends === null ? ["", "", ""] : [margin(numbers, row, column), ...ends]));
      }
    }
    return cells;
  }
  // A view: heads, and the rows in their order.
  function rowsOf(table, level, numbers, rows) {
    const named = level.names.length > 0;
    const head = ["geocode", ...(named ? ["name"] : []), ...columnsOf(table, numbers.ends)];
    return [head, ...rows.map((row) => [level.codes[row], ...(named ? [level.names[row]] : []), ...cellsOf(table, numbers, row, numbers.ends)])];
  }
  // A whole table: all areas of all of these levels.
  function wholeTable(table, parts) {
    const named = parts.some(({ level }) => level.names.length > 0), ends = parts.some(({ numbers }) => numbers.ends);
    const head = ["level", "geocode", ...(named ? ["name"] : []), ...columnsOf(table, ends)], rows = [head];
    for (const { level, numbers } of parts) for (let row = 0; row < level.n; row++) {
      rows.push([level.name, level.codes[row], ...(named ? [level.names[row] ?? ""] : []), ...cellsOf(table, numbers, row, ends)]);
    }
    return rows;
  }

  return {
    levelOf, numbersOf, placesOf, rowOf, shapesOf, count, interval, margin, classOf, kindOf, share,
    rowTotal, intervalText, rankText, medianText, shareText, nameOf, titleOf, spoken, folded, rowsOf, wholeTable, whole, fitting, fittingShare, areasOf, isExact, isTotalled, TOTAL,
  };
};

// Sums, shares, differences and ratios of areas with 90 % intervals, by the same formulas as the Python reader
// (pipeline/reading/derived.py and shares.py); covariances are put together from the factors of moments.py.
"use strict";
window.moments = (content, { levelOf, numbersOf, count, interval, isExact, TOTAL }) => {
  const QUANTILE = 1.6448536269514722, CERTAIN = 1, UNKNOWN = 2, MOST_RANKED = 1000000;
  // Different values, as whole numbers of each power of ten, and the place of each number among them.
  async function floats(stated) {
    if (stated === null) return null;
    const [steps, places] = await Promise.all([stated.steps, stated.places].map(decode.numbers));
    const values = new Float64Array(steps.length);
    let at = 0;
    for (const [power, first, n] of stated.scales) {
      for (let digits = first, end = at + n; at < end; at++) {
        digits += steps[at];
        values[at] = power === null ? NaN : Number(`${digits}e${power}`);
      }
    }
    return Float64Array.from(places, (place) => values[place]);
  }

  const kept = new Map();
  function factorsOf(table, level) {
    const stated = content.tables[table].levels[content.levels[level].name]?.moments;
    if (!stated || stated.nested === null || stated.known === null || stated.classes === null) return null;
    const key = `${table}/${level}`;
    if (!kept.has(key)) kept.set(key, (async () => {
      const [classes, known] = await Promise.all([stated.classes, stated.known].map(decode.numbers));
      const [nested, crossed, shared] = await Promise.all([stated.nested, stated.crossed, stated.shared].map(floats));
      const [blocks, rows, a] = stated.shape.slice(1), k = stated.places.length;
      return { ...stated, level, classes, known, nested, crossed, shared, blocks, rows, a, k };
    })());
    return kept.get(key);
  }

  // Of an area and what is above it, the row at each level.
  async function pathOf([level, row]) {
    const path = [row];
    for (let number = level; number > 0; number--) path.unshift((await levelOf(number)).parents[path[0]]);
    return path;
  }

  // What a row of the query has in common with the same row, and with the sum of all rows, of another area.
  function products(one, a, other, b, depth) {
    const { blocks, rows } = one, same = new Float64Array(blocks * rows), whole = new Float64Array(rows);
    if (depth === other.level) {
      const at = one.classes[a] * (one.level + 1) + depth;
      for (let i = 0; i < blocks * rows; i++) same[i] = one.nested[at * blocks * rows + i];
      for (let r = 0; r < rows; r++) whole[r] = rows > 1 ? one.crossed[at * rows + r] : same[r];
    } else if (depth >= 0) {
      const size = blocks * rows * one.a;
      const [left, right] = [one.classes[a] * one.level + depth, other.classes[b] * other.level + depth].map((at) => at * size);
      const dot = (i, j) => {
        let sum = 0;
        for (let n = 0; n < one.a; n++) sum += one.shared[left + i * one.a + n] * other.shared[right + j * one.a + n];
        return -sum;
      };
      for (let i = 0; i < blocks * rows; i++) same[i] = dot(i, i);
      for (let r = 0; r < rows; r++) whole[r] = (dot(r, rows - 1) + dot(rows - 1, r)) / 2;
    }
    return { same, whole };
  }

  // Covariances of two areas: of each number, of each with the other area's whole (mean of both ways), of both wholes.
  function ofPair(one, a, other, b, depth) {
    const { same, whole } = products(one, a, other, b, depth);
    const { k, rows, blocks, factors, sizes } = one, places = sizes.length;
    const xx = new Float64Array(k), xt = new Float64Array(k);
    one.places.forEach((place, j) => {
      const [row, at] = [Math.floor(place / places), place % places];
      for (let block = 0; block < blocks; block++) xx[j] += factors[block][at] * same[block * rows + row];
      xt[j] = whole[row] * sizes[at];
    });
    return { xx, xt, tt: same[rows - 1] * one.whole };
  }
  // "Exact" and "not known" are facts of their own: no sum of rounded products says so. What is exact varies with nothing.
  function told(sums, k, stateOf) {
    const state = Array.from({ length: k + 1 }, (_, j) => stateOf(j));
    const variance = (value, j) => state[j] === UNKNOWN ? NaN : state[j] === CERTAIN ? 0 : Math.max(value, 0);
    const tt = variance(sums.tt, k), xx = sums.xx.map(variance);
    const both = (value, j) => Number.isNaN(xx[j] + tt) ? NaN : xx[j] === 0 || tt === 0 ? 0 : value;
    return { xx, xt: sums.xt.map(both), tt };
  }

  // Variances of a weighted sum of areas, a list of [[level, row], weight]: of each number, of their whole, and their
  // covariance; null where the page has not what it takes.
  async function momentsOf(table, weighted) {
    const k = content.tables[table].labels.length;
    const sums = { xx: new Float64Array(k), xt: new Float64Array(k), tt: 0 };
    const merged = new Map();
    for (const [area, weight] of weighted) merged.set(area.join("/"), { area, weight: (merged.get(area.join("/"))?.weight ?? 0) + weight });
    const parts = await Promise.all([...merged.values()].filter(({ weight }) => weight !== 0).map(async (part) => (
      { ...part, path: await pathOf(part.area), factors: await factorsOf(table, part.area[0]) })));
    if (parts.some((one) => one.factors === null)) return null;
    for (const one of parts) for (const other of parts) {
      const [lower, upper] = one.area[0] >= other.area[0] ? [one, other] : [other, one];
      let depth = -1;
      while (depth + 1 < upper.path.length && lower.path[depth + 1] === upper.path[depth + 1]) depth++;
      if (depth >= 0 && depth < upper.area[0] && (lower.factors.shared === null || upper.factors.shared === null)) return null;
      const found = ofPair(lower.factors, lower.area[1], upper.factors, upper.area[1], depth), weight = one.weight * other.weight;
      for (let j = 0; j < k; j++) { sums.xx[j] += weight * found.xx[j]; sums.xt[j] += weight * found.xt[j]; }
      sums.tt += weight * found.tt;
    }
    return told(sums, k, (j) => {
      const states = parts.map(({ area, factors }) => factors.known[factors.classes[area[1]] * (k + 1) + j]);
      return states.includes(UNKNOWN) ? UNKNOWN : states.every((state) => state === CERTAIN) ? CERTAIN : 0;
    });
  }
  const each = async (areas, weight) => (await whole(areas)).map((area) => [area, weight]);

  // Fieller (1954), as pipeline/reading/shares.py.
  function ratioInterval(x, y, left, right, both) {
    const square = QUANTILE ** 2, a = y * y - square * right, b = x * y - square * both, c = x * x - square * left;
    if (Number.isNaN(a + b + c)) return null;
    if (a <= 0) return [-Infinity, Infinity];
    const root = Math.sqrt(Math.max(b * b - a * c, 0));
    return [(b - root) / a, (b + root) / a];
  }

  // An area that is all of what is in one above it is that one.
  async function whole(areas) {
    let now = areas;
    while (now.length > 1 || areas.length > 1) {
      const [number, row] = now[0];
      if (number === 0 || now.some(([level]) => level !== number)) return now;
      const { parents, starts } = await levelOf(number);
      if (starts[parents[row] + 1] - starts[parents[row]] !== now.length || now.some(([, other]) => parents[other] !== parents[row])) return now;
      now = [[number - 1, parents[row]]];
    }
    return now;
  }

  async function counts(table, areas) {
    const k = content.tables[table].labels.length;
    const values = new Float64Array(k);
    for (const [level, row] of areas) {
      const numbers = await numbersOf(table, level);
      await numbers.need(row, row + 1);
      for (let j = 0; j < k; j++) values[j] += count(numbers, row, j);
    }
    return { values, total: values.reduce((sum, value) => sum + value, 0) };
  }

  // Of a number, or of the whole of an area.
  const varianceOf = ({ xx, tt }, j) => j === TOTAL ? tt : xx[j];
  const valueOf = ({ values, total }, j) => j === TOTAL ? total : values[j];

  // A number of areas together: its value, and its interval, which is that of the table where it stands in one.
  async function number(table, areas, j) {
    const value = valueOf(await counts(table, areas), j);
    const joined = await whole(areas);
    const stated = content.tables[table].levels;
    if (joined.length === 1 && stated[content.levels[joined[0][0]].name] !== undefined) {
      const numbers = await numbersOf(table, joined[0][0]);
      await numbers.need(joined[0][1], joined[0][1] + 1);
      if (j === TOTAL) return (await totals(table, joined[0][0], joined[0][1], joined[0][1] + 1))(joined[0][1]);
      const ends = !numbers.ends ? null : interval(numbers, joined[0][1], j);
      return { value, ends, exact: isExact(numbers, joined[0][1], j) };
    }
    const found = await momentsOf(table, await each(areas, 1)), variance = found === null ? NaN : varianceOf(found, j);
    if (Number.isNaN(variance)) return { value, ends: null, exact: false };
    const exact = variance < 1e-9, reach = exact ? 0 : Math.max(Math.round(QUANTILE * Math.sqrt(variance)), 1);
    return { value, ends: [Math.max(value - reach, 0), value + reach], exact };
  }

  const percent = (ends) => ends && ends.map((end) => Math.min(100, Math.max(0, 100 * end)));
  // For the areas of a level: the variances of an area's numbers, as `told` has them; areas of a class share theirs.
  function alike(factors, level) {
    const kept = new Map();
    return (row) => {
      const of = factors.classes[row];
      if (!kept.has(of)) kept.set(of, told(ofPair(factors, row, factors, row, level), factors.k, (j) => factors.known[of * (factors.k + 1) + j]));
      return kept.get(of);
    };
  }
  // For the areas of a level: the interval of a number's share of its area, in %; null where it is not known.
  async function shares(table, level) {
    const [factors, numbers] = await Promise.all([factorsOf(table, level), numbersOf(table, level)]);
    if (factors === null) return () => null;
    const found = alike(factors, level);
    return (row, column) => {
      const { xx, xt, tt } = found(row);
      let total = 0;
      for (let j = 0; j < factors.k; j++) total += count(numbers, row, j);
      return percent(ratioInterval(count(numbers, row, column), total, xx[column], tt, xt[column]));
    };
  }
  // For the areas of a level: the sum of an area's numbers and its interval, which is that of the table of totals where
  // there is one; null where it is not known.
  async function totals(table, level, from, to) {
    const { universe, labels } = content.tables[table], name = content.levels[level].name;
    const [factors, numbers] = await Promise.all([factorsOf(table, level), numbersOf(table, level)]);
    const other = labels.length === 1 ? table : content.tables.findIndex((one) => one.universe === universe && one.labels.length === 1 && one.levels[name] !== undefined);
    const all = other < 0 ? null : await numbersOf(other, level);
    await Promise.all([numbers.need(from, to), all?.need(from, to)]);
    const found = factors === null ? null : alike(factors, level);
    return (row) => {
      let value = 0;
      for (let j = 0; j < labels.length; j++) value += count(numbers, row, j);
      if (all?.ends && count(all, row, 0) === value) return { value, ends: interval(all, row, 0), exact: isExact(all, row, 0), numbers: all };
      const variance = found === null || !numbers.ends ? NaN : found(row).tt;
      if (Number.isNaN(variance)) return { value, ends: null, exact: false };
      const exact = variance < 1e-9, reach = exact ? 0 : Math.max(Math.round(QUANTILE * Math.sqrt(variance)), 1);
      return { value, ends: [Math.max(value - reach, 0), value + reach], exact };
    };
  }
  // For the areas of a level: the rank of a number, 1 for the largest, and the ranks that it may have, those of all areas
  // at once with 90 % (pipeline/reading/ranks.py); null where it is not known, or too much would have to be read for it.
  async function ranks(table, level) {
    const [factors, numbers] = await Promise.all([factorsOf(table, level), numbersOf(table, level)]);
    if (factors === null || numbers.n * numbers.width > MOST_RANKED) return () => null;
    await numbers.need();
    const found = alike(factors, level);
    const reach = (row, column) => { const variance = varianceOf(found(row), column); return Number.isNaN(variance) ? Infinity : factors.atOnce * Math.sqrt(variance); };
    return (row, column) => {
      const own = count(numbers, row, column), wide = reach(row, column);
      if (wide === Infinity) return null;
      let [rank, low, high] = [1, 1, numbers.n];
      for (let other = 0; other < numbers.n; other++) {
        const value = count(numbers, other, column), side = reach(other, column);
        if (value > own) rank += 1;
        if (value - side > own + wide) low += 1;
        if (value + side < own - wide) high -= 1;
      }
      return { rank, low, high };
    };
  }
  // For the areas of a level: the places of the value with the median and of the ends of its 90 % interval, in the order
  // of the table's numbers (pipeline/reading/medians.py); null where nobody is, and where the page shows none.
  async function medians(table, level) {
    const [factors, numbers] = await Promise.all([factorsOf(table, level), numbersOf(table, level)]);
    const variances = await floats(factors?.halves ?? null);
    return (row) => {
      if (variances === null) return null;
      const { k } = factors, first = factors.classes[row] * k, tested = [], reach = [];
      let total = 0;
      for (let j = 0; j < k; j++) tested.push(total += count(numbers, row, j));
      for (let j = 0; j < k; j++) [tested[j], reach[j]] = [tested[j] - total / 2, QUANTILE * Math.sqrt(variances[first + j])];
      const known = !reach.some(Number.isNaN), at = (test, other) => { const found = tested.findIndex(test); return known && found >= 0 ? found : other; };
      return total === 0 ? null : { median: tested.findIndex((one) => one >= 0), low: at((one, j) => one >= -reach[j], 0), high: at((one, j) => one >= reach[j], k - 1) };
    };
  }
  // The share of a number in all of its areas, in %.
  async function share(table, areas, j) {
    const { values, total } = await counts(table, areas);
    if (!total) return null;
    const found = await momentsOf(table, await each(areas, 1));
    const ends = found && ratioInterval(values[j], total, found.xx[j], found.tt, found.xt[j]);
    return { value: (100 * values[j]) / total, ends: percent(ends) };
  }

  // One number of two areas: the difference, that of the shares in points, and the ratio; "differs" where the interval
  // of the difference does not hold 0.
  async function compare(table, first, second, j) {
    const sides = [first, second];
    const [one, other] = await Promise.all(sides.map((areas) => counts(table, areas)));
    const [plus, minus] = await Promise.all([1, -1].map((sign) => each(second, sign)));
    const mineOnly = await each(first, 1);
    const [left, right, sum, gone] = await Promise.all([mineOnly, plus, [...mineOnly, ...plus], [...mineOnly, ...minus]]
      .map((weighted) => momentsOf(table, weighted)));
    const said = (value, ends) => ({ value, ends, differs: ends === null ? null : ends[0] > 0 || ends[1] < 0 });
    const [x, y] = [valueOf(one, j), valueOf(other, j)];
    if (left === null || right === null || sum === null) return { difference: said(x - y, null), shares: null, ratio: null };
    const reach = Math.round(QUANTILE * Math.sqrt(varianceOf(gone, j)));
    // (x + y)^2 - x^2 - y^2 = 2 x y
    const common = (key) => {
      const [a, b, all] = [left, right, sum].map((found) => (key === "tt" ? found.tt : key === "xx" ? varianceOf(found, j) : found[key][j]));
      return a === 0 || b === 0 ? 0 : (all - a - b) / 2;
    };
    const both = { xx: common("xx"), xt: j === TOTAL ? 0 : common("xt"), tt: common("tt") };
    const around = (value, far) => said(value, Number.isNaN(far) ? null : [value - far, value + far]);
    const difference = around(x - y, reach), totals = around(one.total - other.total, Math.round(QUANTILE * Math.sqrt(gone.tt)));
    const ratio = y > 0 ? { value: x / y, ends: ratioInterval(x, y, varianceOf(left, j), varianceOf(right, j), both.xx) } : null;
    const [mine, theirs] = j === TOTAL ? [null, null] : await Promise.all(sides.map((areas) => share(table, areas, j)));
    if (mine === null || theirs === null) return { difference, totals, shares: null, ratio };
    const gap = mine.value - theirs.value;
    if (mine.ends === null || theirs.ends === null) return { difference, totals, shares: said(gap, null), ratio };
    // Donner and Zou (2012): the intervals of both shares, and how their errors go together.
    const pooled = (x + y) / (one.total + other.total);
    const error = (xx, xt, tt) => xx - 2 * pooled * xt + pooled * pooled * tt;
    const product = Math.sqrt(Math.max(error(left.xx[j], left.xt[j], left.tt) * error(right.xx[j], right.xt[j], right.tt), 0));
    const r = product > 0 ? Math.min(1, Math.max(-1, error(both.xx, both.xt, both.tt) / product)) : 0;
    const half = (a, b) => Math.sqrt(Math.max(a * a + b * b - 2 * r * a * b, 0));
    // Numbers are whole: half a person more at either end, as where differences of numbers are rounded.
    const step = 25 / one.total + 25 / other.total;
    const low = gap - half(mine.value - mine.ends[0], theirs.ends[1] - theirs.value) - step;
    const high = gap + half(mine.ends[1] - mine.value, theirs.value - theirs.ends[0]) + step;
    return { difference, totals, shares: said(gap, [low, high]), ratio };
  }

  return { number, share, shares, ranks, medians, totals, compare, pathOf };
};

// What is shown: at which levels there is a table, and which value of an area.
"use strict";
window.levelsShown = (content) => {
  const shownLevels = (table) => content.levels.map((level, number) => number)
    .filter((number) => content.tables[table].levels[content.levels[number].name] !== undefined);

  // A level that the page holds itself, so that it opens at once and without what is beside it.
  function startLevel(table) {
    const held = (number) => {
      const { codes, children, map, name } = content.levels[number], { numbers, moments } = content.tables[table].levels[name];
      const { classes, known, nested, crossed, shared } = moments ?? {};
      return [codes, children, map?.shapes, numbers, classes, known, nested, crossed, shared]
        .every((chunk) => (chunk ?? null) === null || decode.inPage(chunk));
    };
    const all = shownLevels(table), here = all.filter(held), levels = here.length ? here : all;
    const mapped = levels.filter((number) => content.levels[number].map !== null);
    if (mapped.length) return mapped[mapped.length - 1];
    return levels.find((number) => content.levels[number].n > 4) ?? levels[levels.length - 1];
  }
  // Tables in the order in which they are offered: of what is counted first all of it.
  const universes = [...new Set(content.tables.map((one) => one.universe))];
  const rank = (one) => [universes.indexOf(one.universe), one.labels.length > 1 ? 1 : 0];
  const ordered = content.tables.map((one, number) => [...rank(one), number])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]).map((one) => one[2]);
  return { shownLevels, startLevel, ordered };
};

// A value, its 90 % interval, and what it is ordered by; null where there is nothing to show.
window.shownBy = (state, { count, interval, margin, share, classOf }) => {
  function shownOf(numbers, row) {
    if (state.measure === "margin") {
      const error = margin(numbers, row, state.cell);
      return error === null ? null : { value: error, low: error, high: error, rank: error };
    }
    if (state.measure === "share") {
      const found = share(numbers, row, state.cell);
      if (found === null || !numbers.ends) return found && { ...found, low: found.value, high: found.value, rank: found.value };
      // A share that may be anything is not among the largest: the low end of its interval counts.
      return found.low === null ? null : { ...found, rank: found.low };
    }
    if (state.measure === "density") {
      const size = numbers.areaOf?.get(row), found = size > 0 ? counted(numbers, row) : null;
      return found && { value: found.value / size, low: found.low / size, high: found.high / size, rank: found.rank / size };
    }
    return counted(numbers, row);
  }
  function counted(numbers, row) {
    const value = count(numbers, row, state.cell);
    if (!numbers.ends) return { value, low: value, high: value, rank: value };
    const ends = interval(numbers, row, state.cell);
    return ends === null ? null : { value, low: ends[0], high: ends[1], rank: value };
  }
  const weakShare = (found) => found === null || found.high - found.low > found.value;
  function isWeak(numbers, row) {
    if (!numbers.ends) return false;
    if (state.measure === "share") return weakShare(shownOf(numbers, row));
    return classOf(numbers, row, state.cell) === "unreliable";
  }
  return { shownOf, isWeak };
};

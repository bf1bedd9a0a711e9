// Search for an area, pick a table, see counts with intervals on a map and in a table, take the view along as CSV.
"use strict";
(async () => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const numbersOfPage = figures(content);
  const {
    levelOf, numbersOf, shapesOf, count, kindOf, share,
    rowTotal, intervalText, rankText, medianText, shareText, nameOf, titleOf, spoken, whole, tenth, csvOf,
  } = numbersOfPage;
  const $ = (id) => document.getElementById(id);
  const ROWS = 25, RANKED = 30, MOST_AREAS = 300000, MOST_NUMBERS = 4000000;
  const SYMBOLS = { good: "\u25cf", care: "\u25d0", sum: "\u25cb" };
  const { shownLevels, startLevel } = levelsShown(content);
  const tableTitle = (table) => table.title + (table.universe ? ` (${spoken(table.universe)})` : "");

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name === "key") made.dataset.key = value;
      else if (name.startsWith("aria-") || name === "role" || name === "scope") made.setAttribute(name, value);
      else made[name] = value;
    }
    made.append(...children);
    return made;
  }

  // ---------------------------------------------------------------- what is shown
  const firstTable = content.tables.findIndex((_, number) => shownLevels(number).length > 0);
  const usable = firstTable >= 0 && typeof DecompressionStream !== "undefined";
  $("explorer").hidden = !usable;
  $("no-explorer").hidden = usable;
  const state = { table: firstTable, level: 0, cell: 0, measure: "count", inside: null, area: null, page: 0, sort: "code", compare: [] };
  const { shownOf, isWeak } = shownBy(state, numbersOfPage);

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, words]) => element("option", { value: String(value), textContent: words })));
    select.value = String(chosen);
  }

  function controls() {
    const table = content.tables[state.table];
    fill($("table"), content.tables.map((one, number) => [number, tableTitle(one)]).filter(([number]) => shownLevels(number).length), state.table);
    fill($("level"), shownLevels(state.table).map((number) => [number, `${content.levels[number].label} (${whole.format(content.levels[number].n)})`]), state.level);
    fill($("cell"), table.shown.map((label, number) => [number, label]), state.cell);
    const measures = [["count", text("Number")]];
    if (table.labels.length > 1) measures.push(["share", text("Share of the area, in %")]);
    $("table-note").textContent = table.note ?? "";
    if (!table.note) measures.push(["margin", text("Margin of error")]);
    if (!measures.some(([value]) => value === state.measure)) state.measure = "count";
    fill($("measure"), measures, state.measure);
    $("sort").value = state.sort;
    $("cell").closest("label").hidden = table.labels.length === 1;
  }

  async function ancestor(level, row, number) {
    let [at, here] = [row, level];
    while (here.number > number) {
      at = here.parents[at];
      here = await levelOf(here.number - 1);
    }
    return at;
  }
  // The areas that are shown: from, to; and whether they are too many to be all read, drawn and put in order.
  async function placeOf(level, numbers) {
    let [first, end] = state.inside === null ? [0, level.n] : [state.inside.row, state.inside.row + 1];
    for (let number = state.inside?.level + 1; number <= level.number; number++) {
      const { starts } = await levelOf(number);
      [first, end] = [starts[first], starts[end]];
    }
    const many = end - first > MOST_AREAS || (end - first) * numbers.width > MOST_NUMBERS;
    state.page = Math.max(0, Math.min(state.page, Math.ceil((end - first) / ROWS) - 1));
    const [from, to] = many ? [first + state.page * ROWS, Math.min(end, first + (state.page + 1) * ROWS)] : [first, end];
    await Promise.all([level.need(from, to), numbers.need(from, to)]);
    return { n: end - first, many, rows: Array.from({ length: to - from }, (_, i) => from + i) };
  }

  // What has the focus keeps it when it is drawn again; else what stands for it has it.
  function focused() {
    const held = document.activeElement, home = held?.closest("[data-home]")?.dataset.home;
    return () => {
      if (!held || held === document.body || (held.isConnected && !held.disabled && held.checkVisibility())) return;
      const again = held.dataset.key ? `[data-key="${CSS.escape(held.dataset.key)}"]` : null;
      [again, home, "#counts-region"].map((place) => place && document.querySelector(place))
        .find((place) => place?.checkVisibility())?.focus({ preventScroll: true });
    };
  }

  // What cannot be read beside the page is said, and what was shown before is shown again.
  const unread = () => { $("unread").textContent = text("This part of the report is in files of the folder “report” beside this page, and they cannot be read. Keep the page and the folder together, and try again."); };
  let drawing = 0, before = null;
  async function show() {
    const mine = ++drawing;
    try {
      if (!await drawn(mine)) return;
      before = structuredClone(state);
      $("unread").textContent = "";
    } catch (error) {
      if (!(error instanceof decode.Unread)) throw error;
      if (mine !== drawing) return;
      Object.assign(state, before ?? start);
      await drawn(++drawing).catch((again) => { if (!(again instanceof decode.Unread)) throw again; });
      unread();
    }
    document.documentElement.dataset.ready = String(mine);
  }

  async function drawn(mine) {
    const focus = focused();
    if (!shownLevels(state.table).includes(state.level)) state.level = startLevel(state.table);
    if (state.inside && state.inside.level >= state.level) state.inside = null;
    state.cell = Math.min(state.cell, content.tables[state.table].labels.length - 1);
    controls();
    const [level, numbers, shareOf] = await Promise.all([levelOf(state.level), numbersOf(state.table, state.level), compared.shares(state.table, state.level)]);
    numbers.shareOf = shareOf;
    const place = await placeOf(level, numbers);
    if (mine !== drawing) return false;
    await Promise.all([picture(level, numbers, place), counts(level, numbers, place), card(), compared.draw()]);
    focus();
    await links();
    return true;
  }

  // ---------------------------------------------------------------- the picture: a map, or ranked dots
  const tip = $("tip");
  function tooltip(level, numbers) {
    return (_, event, item, said) => {
      // What the chart library says is text; the row itself is in the item's datum.
      const row = said === undefined || said === null || said === "" ? undefined : item?.datum?.row;
      if (!Number.isInteger(row)) { tip.hidden = true; return; }
      const kind = kindOf(numbers, row, state.cell);
      const label = content.tables[state.table].shown[state.cell];
      const part = numbers.width > 1 ? share(numbers, row, state.cell) : null;
      tip.replaceChildren(
        element("strong", { textContent: titleOf(level, row) }),
        element("span", { textContent: `${label}: ${whole.format(count(numbers, row, state.cell))} ${intervalText(numbers, row, state.cell)}`.trim() }),
        ...(part ? [element("span", { textContent: text("{share} of {all}", { share: shareText(part), all: whole.format(rowTotal(numbers, row)) }) })] : []),
        ...(!numbers.ends ? [] : [element("span", { className: kind.key, textContent: `${SYMBOLS[kind.key]} ${kind.label}` })]));
      tip.hidden = false;
      const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.left = Math.max(8, left) + "px";
      tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
    };
  }

  async function picture(level, numbers, { many, rows }) {
    const table = content.tables[state.table];
    const what = `${table.shown[state.cell]}, ${$("measure").selectedOptions[0].textContent.toLowerCase()}`;
    const stated = content.levels[state.level];
    const weak = (row) => $("fade").checked && isWeak(numbers, row);
    let view;
    for (const type of ["svg", "png"]) $(`as-${type}`).disabled = many;
    if (many) {
      $("picture").replaceChildren();
      $("picture-title").textContent = text("{what}, by {level}", { what, level: level.label });
      $("legend").replaceChildren(element("li", { textContent: text("There are too many areas to draw or to sort. Choose an area, and then those inside it.") }));
      return;
    }
    if (stated.map !== null) {
      const there = new Set(rows);
      const features = (await shapesOf(state.level)).filter((one) => there.has(one.row)).map((one) => ({
        ...one, value: shownOf(numbers, one.row)?.value ?? null, weak: weak(one.row),
        chosen: state.area !== null && state.area.level === state.level && state.area.row === one.row }));
      const breaks = charts.breaks(features.map((one) => one.value).filter((value) => value !== null));
      view = await charts.map("#picture", features.sort((a, b) => a.chosen - b.chosen), { breaks, tooltip: tooltip(level, numbers) });
      legend(breaks, features);
      $("picture-title").textContent = text("{what}, by {level}", { what, level: level.label });
    } else {
      const shown = rows.map((row) => ({ row, ...shownOf(numbers, row) })).filter((one) => one.rank !== undefined);
      const best = shown.sort((a, b) => b.rank - a.rank || a.row - b.row).slice(0, RANKED);
      const values = best.map((one) => ({ ...one, label: nameOf(level, one.row), weak: weak(one.row) }));
      view = await charts.ranked("#picture", values, { title: what, tooltip: tooltip(level, numbers) });
      const withInterval = state.measure !== "margin" && numbers.ends;
      const order = state.measure === "share" && withInterval ? " " + text("Sorted by the lower end of the interval.") : "";
      const none = shown.length ? "" : text("The measurements do not determine these numbers.");
      const note = withInterval ? text("Dot: the number. Bar: its 90 % interval.") : text("Dot: the number.");
      $("legend").replaceChildren(element("li", { textContent: none || note + order }));
      $("picture-title").textContent = shown.length > best.length
        ? text("{what}, by {level} (the {n} largest of {all})",
          { what, level: level.label, n: whole.format(best.length), all: whole.format(shown.length) })
        : text("{what}, by {level}", { what, level: level.label });
    }
    $("picture").setAttribute("aria-label", text("{title}. The same numbers are in the table below.", { title: $("picture-title").textContent }));
    $("fade").closest("label").hidden = !numbers.ends;
    view.addEventListener("click", (_, item) => {
      const row = item && item.datum && item.datum.row;
      if (row !== undefined) choose(state.level, row);
    });
  }

  // Each class by the least and the largest value in it, so that no value stands in two.
  function legend(breaks, features) {
    const colours = charts.colours(breaks.length + 1);
    const classes = colours.map(() => []);
    const known = features.filter((one) => one.value !== null);
    for (const one of known) classes[breaks.filter((least) => one.value >= least).length].push(one.value);
    const written = (value) => state.measure === "count" ? whole.format(value) : tenth.format(value);
    const line = (colour, words) => {
      const swatch = element("span", { className: "swatch" });
      swatch.style.background = colour;
      return element("li", {}, swatch, words);
    };
    const lines = classes.map((values, i) => {
      if (!values.length) return null;
      const [low, high] = [written(Math.min(...values)), written(Math.max(...values))];
      return line(colours[i], low === high ? low : text("{low} to {high}", { low, high }));
    }).filter((one) => one !== null);
    if (known.length < features.length) lines.push(line("transparent", text("interval not known")));
    $("legend").replaceChildren(...lines);
  }

  // ---------------------------------------------------------------- the table
  function number(numbers, row, column) {
    const cell = element("td", {}, whole.format(count(numbers, row, column)));
    if (numbers.ends) {
      const kind = kindOf(numbers, row, column);
      cell.append(" ",
        element("span", { className: kind.key, textContent: SYMBOLS[kind.key], title: kind.label, role: "img", "aria-label": kind.label }),
        " ", element("small", { className: "line", textContent: intervalText(numbers, row, column) }));
    }
    return cell;
  }

  let sortedRows = [];
  async function counts(level, numbers, { n, many, rows }) {
    const table = content.tables[state.table];
    sortedRows = [...rows];
    if (state.sort !== "code" && !many) {
      const sign = state.sort === "most" ? -1 : 1;
      // What is not known comes last either way.
      const rank = (row) => shownOf(numbers, row)?.rank ?? sign * Infinity;
      const ranks = new Map(rows.map((row) => [row, rank(row)]));
      sortedRows.sort((a, b) => (ranks.get(a) === ranks.get(b) ? a - b : sign * (ranks.get(a) < ranks.get(b) ? -1 : 1)));
    }
    const pages = Math.max(1, Math.ceil(n / ROWS));
    const part = many ? rows : sortedRows.slice(state.page * ROWS, (state.page + 1) * ROWS);
    $("sort").disabled = $("download").disabled = many;
    $("counts-head").replaceChildren(element("tr", {}, element("th", { scope: "col", textContent: level.label }),
      ...table.shown.map((label) => element("th", { scope: "col", textContent: label }))));
    $("counts-body").replaceChildren(...part.map((row) => {
      const chosen = state.area !== null && state.area.level === state.level && state.area.row === row;
      const button = element("button", { type: "button", className: "link", key: `row-${row}`, textContent: nameOf(level, row), onclick: () => choose(state.level, row) });
      return element("tr", { className: chosen ? "chosen" : "" }, element("th", { scope: "row" }, button),
        ...table.labels.map((_, column) => number(numbers, row, column)));
    }));
    const said = { table: tableTitle(table), n: whole.format(n), level: level.label };
    $("counts-caption").textContent = state.inside === null
      ? text("Table {table}, level {level}, areas: {n}", said)
      : text("Table {table}, level {level}, areas in {area}: {n}",
        { ...said, area: titleOf(await levelOf(state.inside.level), state.inside.row) });
    $("page").textContent = text("page {n} of {all}", { n: whole.format(state.page + 1), all: whole.format(pages) });
    $("previous").disabled = state.page === 0;
    $("next").disabled = state.page >= pages - 1;
    $("everywhere").hidden = state.inside === null;
  }

  async function download() {
    const table = content.tables[state.table];
    const [level, numbers] = await Promise.all([levelOf(state.level), numbersOf(state.table, state.level)]);
    takeaway.save(`${fileName(table)}-${level.name}.csv`, new Blob([csvOf(table, level, numbers, sortedRows)], { type: "text/csv" }));
  }
  const fileName = (table) => `${content.release}-${table.universe ? table.universe + "-" : ""}${table.name}`;
  const pictureSvg = () => takeaway.svgOf($("picture"), $("picture-title").textContent,
    [...$("legend").children].map((line) => ({ colour: line.querySelector(".swatch")?.style.background, words: line.textContent })), document.title);
  async function downloadPicture(type) {
    const svg = pictureSvg(), name = `${fileName(content.tables[state.table])}-${content.levels[state.level].name}.${type}`;
    takeaway.save(name, type === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await takeaway.pngOf(svg));
  }

  // ---------------------------------------------------------------- one area
  async function card() {
    const place = $("area");
    if (state.area === null) {
      place.replaceChildren(element("p", { className: "hint", textContent: text("Search for an area, or choose one on the map or in the table, to read its numbers here.") }));
      return;
    }
    const level = await levelOf(state.area.level);
    await level.need(state.area.row, state.area.row + 1);
    const path = [];
    for (let number = 0; number < state.area.level; number++) {
      const above = await levelOf(number);
      const row = await ancestor(level, state.area.row, number);
      await above.need(row, row + 1);
      path.push(element("button", { type: "button", className: "link", textContent: above.names[row] ? nameOf(above, row) : titleOf(above, row), key: `path-${number}`, onclick: () => choose(number, row) }), " \u203a ");
    }
    const table = content.tables[state.table];
    const parts = [element("p", { className: "path" }, ...path), element("h3", { id: "area-title", tabIndex: -1, textContent: titleOf(level, state.area.row) })];
    if (shownLevels(state.table).includes(state.area.level)) {
      const [numbers, rankOf, medianOf] = await Promise.all([numbersOf, compared.ranks, compared.medians].map((of) => of(state.table, state.area.level)));
      await numbers.need(state.area.row, state.area.row + 1);
      const ranks = level.n > 1 ? table.labels.map((_, column) => rankOf(state.area.row, column)) : [], ranked = ranks.some((found) => found !== null);
      const rows = table.shown.map((label, column) => {
        const place = [numbers, state.area.row, column];
        const kind = kindOf(...place);
        return element("tr", {}, element("th", { scope: "row", textContent: label }),
          element("td", { textContent: whole.format(count(...place)) }),
          element("td", {}, intervalText(...place), ...(ranked ? [" ", element("small", { className: "line", textContent: text("rank {rank}", { rank: rankText(ranks[column]) }) })] : [])),
          element("td", { className: kind.key, textContent: !numbers.ends ? "" : `${SYMBOLS[kind.key]} ${kind.label}` }));
      });
      parts.push(element("div", { className: "scroll", tabIndex: 0 }, element("table", {},
        element("caption", { textContent: text("Table {table}", { table: tableTitle(table) }) }),
        element("thead", {}, element("tr", {}, element("td"), ...[text("number"), ranked ? text("90 % interval, and rank of {n}", { n: whole.format(level.n) }) : text("90 % interval"), text("can I use it?")].map((head) => element("th", { scope: "col", textContent: head })))),
        element("tbody", {}, ...rows))), ...(ranked ? [element("p", { className: "hint", textContent: text("Rank 1 is the largest {level}; in brackets, the ranks that it may have (90 % confidence for all areas at once).", { level: level.label }) })] : []), ...[medianOf(state.area.row)].filter((found) => found !== null).map((found) => element("p", { className: "median", textContent: medianText(table, found) })));
    } else {
      parts.push(element("p", { textContent: text("This table is not in the page for this level; see “Files”.") }));
    }
    const below = shownLevels(state.table).filter((number) => number > state.area.level);
    const here = { ...state.area }, parent = await compared.parentOf(here), there = shownLevels(state.table).includes(here.level);
    const offers = there ? [element("button", { type: "button", key: "compare", "aria-pressed": String(compared.has(here)),
      textContent: compared.has(here) ? text("Remove from the comparison") : text("Compare"), onclick: () => compared.toggle(here) })] : [];
    if (there && parent && shownLevels(state.table).includes(parent.level) && !(compared.has(here) && compared.has(parent))) {
      offers.push(element("button", { type: "button", key: "compare-parent", textContent: text("Compare with {area}", { area: await compared.titled(parent) }),
        onclick: () => compared.toggle(parent, here) }));
    }
    if (there) offers.push(element("button", { type: "button", key: "area-csv", textContent: text("CSV"), onclick: async () => {
      takeaway.save(`${fileName(table)}-${level.codes[here.row]}.csv`, new Blob([csvOf(table, level, await numbersOf(state.table, here.level), [here.row])], { type: "text/csv" }));
    } }));
    parts.push(element("p", { className: "actions" }, ...offers, ...below.slice(0, 3).map((number) => element("button", {
      type: "button", key: `below-${number}`, textContent: text("Show each {level} in it", { level: content.levels[number].label }),
      onclick: () => { Object.assign(state, { inside: { ...state.area }, level: number, page: 0 }); show(); } }))));
    place.replaceChildren(...parts);
  }

  async function choose(level, row) {
    state.area = { level, row };
    await show();
    const [title, first] = [$("area").querySelector("h3"), $("area").querySelector("tbody")?.rows[0].cells ?? []];
    $("said").textContent = [title, ...first].map((one) => one.textContent).join(" ");
    // On a narrow screen the card is not beside what was chosen from.
    if (matchMedia("(max-width: 56rem)").matches) $("area").scrollIntoView({ block: "nearest" });
  }

  // ---------------------------------------------------------------- the address of the view, and parts in other pages
  async function links() {
    await address.keep();
    const part = $("embed-part").value;
    $("link").value = address.address(await address.written(""));
    $("embed-whole").href = $("link").value;
    $("embed-code").value = address.frame(await address.written(part));
  }

  // ---------------------------------------------------------------- controls
  searchFor(content, numbersOfPage, { element, unread, taken: async (number, row) => {
    const { n, name } = content.levels[number], stated = content.tables[state.table].levels[name];
    // Of what is in pieces, the area is shown among those beside it.
    const inside = stated?.rows < n ? await compared.parentOf({ level: number, row }) : null;
    if (stated && n > 1) Object.assign(state, { level: number, inside, page: 0 });
    choose(number, row);
  } });
  $("table").addEventListener("change", () => { state.table = Number($("table").value); state.cell = 0; state.page = 0; show(); });
  $("level").addEventListener("change", () => { state.level = Number($("level").value); state.page = 0; show(); });
  $("cell").addEventListener("change", () => { state.cell = Number($("cell").value); show(); });
  $("measure").addEventListener("change", () => { state.measure = $("measure").value; show(); });
  $("sort").addEventListener("change", () => { state.sort = $("sort").value; state.page = 0; show(); });
  $("fade").addEventListener("change", show);
  $("previous").addEventListener("click", () => { state.page -= 1; show(); });
  $("next").addEventListener("click", () => { state.page += 1; show(); });
  $("everywhere").addEventListener("click", () => { state.inside = null; state.page = 0; show(); });
  $("download").addEventListener("click", download);
  for (const type of ["svg", "png"]) $(`as-${type}`).addEventListener("click", () => downloadPicture(type));
  $("compare-csv").addEventListener("click", async () => {
    takeaway.save(`${fileName(content.tables[state.table])}-comparison.csv`, new Blob([await compared.csv()], { type: "text/csv" }));
  });
  $("compare-none").addEventListener("click", () => { state.compare = []; show(); });
  $("embed-part").addEventListener("change", links);
  for (const id of ["link", "embed-code"]) $(id).addEventListener("focus", () => $(id).select());
  addEventListener("hashchange", async () => { if (usable && !address.isKept() && await address.read(location.hash.slice(1))) await show(); });
  $("picture").addEventListener("pointerleave", () => { tip.hidden = true; });

  // ---------------------------------------------------------------- the other pictures
  const names = content.levels.map((level) => level.name);
  const levelLabels = new Map(content.levels.map((level) => [level.name, level.label]));
  function still() {
    for (const place of document.querySelectorAll("[data-budget]")) {
      charts.budget(place, content.budget.filter((part) => part.universe === place.dataset.budget), names, levelLabels);
    }
    if (content.margins.length) {
      const chosen = content.margins.filter((row) => `${row.universe}/${row.table}` === $("margins-table").value);
      charts.margins("#margins-picture", chosen, content.sizes, names, levelLabels);
    }
  }
  if (content.margins.length) {
    const keys = [...new Set(content.margins.map((row) => `${row.universe}/${row.table}`))];
    fill($("margins-table"), keys.map((key) => [key, tableTitle(content.tables.find((one) => `${one.universe}/${one.name}` === key))]), keys[0]);
    $("margins-table").addEventListener("change", still);
  }

  async function all() {
    still();
    if (usable) await show();
  }
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
  let resized;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(all, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  if (usable) state.level = startLevel(firstTable);
  const start = structuredClone(state);
  const compared = comparison(content, numbersOfPage, state, { element, choose, show });
  const address = view(content, state, numbersOfPage);
  if (usable) await address.read(location.hash.slice(1));
  await all();
})();

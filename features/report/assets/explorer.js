// Search for an area, pick a table, see counts with intervals on a map and in a table, take the view along as CSV.
"use strict";
(async () => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const numbersOfPage = figures(content);
  const {
    levelOf, numbersOf, shapesOf, areasOf, count, kindOf, share,
    rowTotal, intervalText, rankText, medianText, shareText, nameOf, titleOf, spoken, whole, fittingShare, margin, rowsOf, wholeTable, isTotalled, TOTAL,
  } = numbersOfPage;
  const $ = (id) => document.getElementById(id);
  const ROWS = 25, RANKED = 30, MOST_AREAS = 300000, MOST_NUMBERS = 4000000;
  const SYMBOLS = { good: "\u25cf", care: "\u25d0", unreliable: "\u25cb" };
  const { shownLevels, startLevel, ordered } = levelsShown(content);
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
  const firstTable = ordered.find((number) => shownLevels(number).length > 0) ?? -1;
  const usable = firstTable >= 0 && typeof DecompressionStream !== "undefined";
  $("explorer").hidden = $("my-area").hidden = !usable;
  $("no-explorer").hidden = usable;
  const state = { table: firstTable, level: 0, cell: 0, measure: "count", chosen: null, inside: null, area: null, page: 0, sort: "code", by: null, compare: [] };
  const { shownOf, isWeak } = shownBy(state, numbersOfPage);

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, words]) => element("option", { value: String(value), textContent: words })));
    select.value = String(chosen);
  }

  function controls() {
    const table = content.tables[state.table];
    fill($("table"), ordered.map((number) => [number, tableTitle(content.tables[number])]).filter(([number]) => shownLevels(number).length), state.table);
    fill($("level"), shownLevels(state.table).map((number) => [number, `${content.levels[number].label} (${whole.format(content.levels[number].n)})`]), state.level);
    fill($("cell"), [...(isTotalled(table) ? [[TOTAL, text("total")]] : []), ...table.shown.map((label, number) => [number, label])], state.cell);
    // A map of numbers shows where areas are large: it begins with what does not grow with them.
    const mapped = content.levels[state.level].map !== null;
    const share = table.labels.length > 1 && state.cell !== TOTAL ? [["share", text("Share of the area, in %")]] : [];
    const density = mapped ? [["density", text("Number per km²")]] : [], number = [["count", text("Number")]];
    const measures = mapped ? [...share, ...density, ...number] : [...number, ...share];
    $("table-note").textContent = table.note ?? "";
    if (!table.note) measures.push(["margin", text("Margin of error")]);
    state.measure = (measures.find(([value]) => value === state.chosen) ?? measures[0])[0];
    fill($("measure"), measures, state.measure);
    $("sort").value = state.by === null ? state.sort : "code";
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

  // The label of the group that is shown.
  const groupOf = (table) => state.cell === TOTAL ? text("total") : table.shown[state.cell];

  async function drawn(mine) {
    const focus = focused();
    if (!shownLevels(state.table).includes(state.level)) state.level = startLevel(state.table);
    if (state.inside && state.inside.level >= state.level) state.inside = null;
    state.cell = Math.max(isTotalled(content.tables[state.table]) ? TOTAL : 0, Math.min(state.cell, content.tables[state.table].labels.length - 1));
    controls();
    if (state.by !== null && state.by >= content.tables[state.table].labels.length) state.by = null;
    const [level, numbers, shareOf, areaOf] = await Promise.all([levelOf(state.level), numbersOf(state.table, state.level), compared.shares(state.table, state.level), areasOf(state.level)]);
    Object.assign(numbers, { shareOf, areaOf });
    const place = await placeOf(level, numbers), { rows } = place;
    numbers.totalOf = await compared.totals(state.table, state.level, ...(rows.length ? [rows[0], rows.at(-1) + 1] : [0, 0]));
    if (mine !== drawing) return false;
    await Promise.all([picture(level, numbers, place), counts(level, numbers, place), card(), answer(), compared.draw()]);
    fit();
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
      const label = groupOf(content.tables[state.table]);
      const part = numbers.width > 1 && state.cell !== TOTAL ? share(numbers, row, state.cell) : null;
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

  // What the picture shows, in words.
  function titleOfPicture(level) {
    const table = content.tables[state.table], counted = content.universes[table.universe];
    const what = table.labels.length > 1 && state.cell !== TOTAL ? `${counted}: ${table.shown[state.cell]}` : counted;
    const named = { what: begun(what), level: level.label };
    const said = state.measure === "count" ? text("{what}, by {level}", named) : state.measure === "share" ? text("{what}, in % of the area, by {level}", named)
      : state.measure === "density" ? text("{what} per km², by {level}", named) : text("{what}, margin of error, by {level}", named);
    return content.year ? `${said}, ${content.year}` : said;
  }
  async function picture(level, numbers, { many, rows }) {
    const table = content.tables[state.table], titled = titleOfPicture(level);
    const what = `${groupOf(table)}, ${$("measure").selectedOptions[0].textContent.toLowerCase()}`;
    const stated = content.levels[state.level];
    const weak = (row) => $("fade").checked && isWeak(numbers, row);
    let view;
    for (const type of ["svg", "png"]) $(`as-${type}`).disabled = many;
    if (many || stated.map === null) onMap(null);
    if (many) {
      $("picture").replaceChildren();
      $("picture-title").textContent = titled;
      $("legend").replaceChildren(element("li", { textContent: text("There are too many areas to draw or to sort. Choose an area, and then those inside it.") }));
      return;
    }
    if (stated.map !== null) {
      const there = new Set(rows);
      const features = (await shapesOf(state.level)).filter((one) => there.has(one.row)).map((one) => ({
        ...one, value: shownOf(numbers, one.row)?.value ?? null, weak: weak(one.row),
        chosen: (state.area !== null && state.area.level === state.level && state.area.row === one.row) || compared.has({ level: state.level, row: one.row }) }));
      const breaks = charts.breaks(features.map((one) => one.value).filter((value) => value !== null), state.measure !== "count");
      view = await charts.map("#picture", features.sort((a, b) => a.chosen - b.chosen), { breaks, tooltip: tooltip(level, numbers) });
      onMap(view.container().querySelector("svg"), `${state.level}/${state.inside?.level}/${state.inside?.row}`, (row) => nameOf(level, row));
      legend(breaks, features);
      $("picture-title").textContent = titled;
    } else {
      const shown = rows.map((row) => ({ row, ...shownOf(numbers, row) })).filter((one) => one.rank !== undefined);
      const best = shown.sort((a, b) => b.rank - a.rank || a.row - b.row).slice(0, RANKED);
      const values = best.map((one) => ({ ...one, label: nameOf(level, one.row), weak: weak(one.row) }));
      view = await charts.ranked("#picture", values, { title: what, tooltip: tooltip(level, numbers) });
      const withInterval = state.measure !== "margin" && numbers.ends;
      const order = state.measure === "share" && withInterval ? " " + text("Sorted by the lower end of the interval.") : "";
      const none = shown.length ? "" : text("The measurements do not determine these numbers.");
      const note = withInterval ? text("Dot: the number. Bar: its 90 % interval.") : text("Dot: the number.");
      const hollow = values.some((one) => one.weak) ? " " + text("A hollow dot should not be used on its own.") : "";
      $("legend").replaceChildren(element("li", { textContent: none || note + order + hollow }));
      $("picture-title").textContent = shown.length > best.length
        ? text("{title} (the {n} largest of {all})", { title: titled, n: whole.format(best.length), all: whole.format(shown.length) })
        : titled;
    }
    $("picture").setAttribute("aria-label", text("{title}. The same numbers are in the table below.", { title: $("picture-title").textContent }));
    $("fade").closest("label").hidden = !numbers.ends;
    view.addEventListener("click", (_, item) => {
      const row = item && item.datum && item.datum.row;
      if (row !== undefined) pressed(state.level, row);
    });
  }

  // Each class by the least and the largest value in it, so that no value stands in two.
  const digits = numerals(9);
  function legend(breaks, features) {
    const colours = charts.colours(breaks.length + 1);
    const classes = colours.map(() => []);
    const known = features.filter((one) => one.value !== null);
    for (const one of known) classes[breaks.filter((least) => one.value >= least).length].push(one.value);
    const written = (value) => whole.format(value), ends = (value) => digits.format(value);
    const line = (colour, words) => {
      const swatch = element("span", { className: "swatch" });
      swatch.style.background = colour;
      return element("li", {}, swatch, words);
    };
    const lines = classes.map((values, i) => {
      if (!values.length) return null;
      // Shares and densities change their colour at round numbers.
      if (state.measure !== "count" && breaks.length) {
        return line(colours[i], i === 0 ? text("less than {high}", { high: ends(breaks[0]) }) : i === breaks.length ? text("{low} or more", { low: ends(breaks[i - 1]) })
          : text("{low} to less than {high}", { low: ends(breaks[i - 1]), high: ends(breaks[i]) }));
      }
      const [low, high] = [written(Math.min(...values)), written(Math.max(...values))];
      return line(colours[i], low === high ? low : text("{low} to {high}", { low, high }));
    }).filter((one) => one !== null);
    if (known.length < features.length) lines.push(line("transparent", text("interval not known")));
    if (features.some((one) => one.weak)) {
      const swatch = element("span", { className: "swatch" });
      swatch.classList.add("hatched");
      lines.push(element("li", {}, swatch, text("hatched: should not be used on its own")));
    }
    if (state.measure === "density") lines.push(element("li", { textContent: text("Square kilometres are those of the outlines of this map.") }));
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

  // The sum of a row, which is a number of its own with its own interval.
  function totalCell({ value, ends, exact }) {
    const interval = exact ? text("exact") : ends === null ? text("(not known)") : `(${whole.format(ends[0])}\u2013${whole.format(ends[1])})`;
    return element("td", { className: "total" }, whole.format(value), " ", element("small", { className: "line", textContent: interval }));
  }
  // A head orders the table by its column: largest first, then smallest first; that of the areas by their codes.
  function headOf(label, column, many) {
    const here = column === null ? state.sort === "code" : state.by === column && state.sort !== "code";
    const order = !here ? "none" : column === null || state.sort === "least" ? "ascending" : "descending";
    const sorted = () => {
      const by = { by: column, sort: column === null ? "code" : here && state.sort === "most" ? "least" : "most" };
      Object.assign(state, by, { page: 0 });
      show();
    };
    const button = element("button", { type: "button", className: "head", key: `head-${column}`, onclick: sorted, textContent: label, title: text("Order by this column") });
    return element("th", { scope: "col", "aria-sort": order }, many ? label : button);
  }

  // A table that is wider than its place ends there with a whole column, and a line above it says how many more there are;
  // its caption is not cut.
  function fit() {
    for (const place of document.querySelectorAll("main .scroll:has(> table)")) {
      const caption = place.querySelector("caption");
      place.style.maxWidth = "";
      caption?.style.removeProperty("max-width");
      const left = place.getBoundingClientRect().left - place.scrollLeft;
      const edges = [...(place.querySelector("tr")?.cells ?? [])].map((cell) => cell.getBoundingClientRect().right - left);
      const whole = edges.filter((edge) => edge <= place.clientWidth + 1), wide = place.scrollWidth > place.clientWidth + 1;
      if (place.previousElementSibling?.classList.contains("more")) place.previousElementSibling.remove();
      if (!wide) continue;
      // One column and what stays beside it fit nowhere: then it is cut as it comes.
      if (whole.length > 1) place.style.maxWidth = `${Math.ceil(whole.at(-1))}px`;
      if (caption) caption.style.maxWidth = `${place.clientWidth}px`;
      place.before(element("p", { className: "more", textContent: text("More columns to the right: {n}. Scroll the table sideways. \u2192", { n: edges.length - whole.length }) }));
    }
  }

  let sortedRows = [];
  async function counts(level, numbers, { n, many, rows }) {
    const table = content.tables[state.table];
    sortedRows = [...rows];
    const totalled = isTotalled(table);
    if (state.sort !== "code" && !many) {
      const sign = state.sort === "most" ? -1 : 1;
      // What is not known comes last either way.
      const rank = state.by === null ? (row) => shownOf(numbers, row)?.rank ?? sign * Infinity
        : (row) => (state.by < 0 ? rowTotal(numbers, row) : count(numbers, row, state.by));
      const ranks = new Map(rows.map((row) => [row, rank(row)]));
      sortedRows.sort((a, b) => (ranks.get(a) === ranks.get(b) ? a - b : sign * (ranks.get(a) < ranks.get(b) ? -1 : 1)));
    }
    const pages = Math.max(1, Math.ceil(n / ROWS));
    const part = many ? rows : sortedRows.slice(state.page * ROWS, (state.page + 1) * ROWS);
    $("sort").disabled = $("download").disabled = many;
    $("all-csv").disabled = $("all-xlsx").disabled = tooLarge();
    const heads = [[level.label, null], ...(totalled ? [[text("total"), -1]] : []), ...table.shown.map((label, column) => [label, column])];
    $("counts-head").replaceChildren(element("tr", {}, ...heads.map(([label, column]) => headOf(label, column, many))));
    $("counts-body").replaceChildren(...part.map((row) => {
      const chosen = state.area !== null && state.area.level === state.level && state.area.row === row;
      const button = element("button", { type: "button", className: "link", key: `row-${row}`, textContent: nameOf(level, row), onclick: () => pressed(state.level, row) });
      return element("tr", { className: chosen ? "chosen" : "" }, element("th", { scope: "row" }, button),
        ...(totalled ? [totalCell(numbers.totalOf(row))] : []), ...table.labels.map((_, column) => number(numbers, row, column)));
    }));
    const said = { table: tableTitle(table), n: whole.format(n), level: level.label };
    $("counts-caption").textContent = state.inside === null
      ? text("Table {table}, level {level}, areas: {n}", said)
      : text("Table {table}, level {level}, areas in {area}: {n}",
        { ...said, area: titleOf(await levelOf(state.inside.level), state.inside.row) });
    $("page").textContent = text("page {n} of {all}", { n: whole.format(state.page + 1), all: whole.format(pages) });
    $("printed-page").textContent = `(${$("page").textContent})`;
    $("printed-page").hidden = pages === 1;
    $("previous").disabled = state.page === 0;
    $("next").disabled = state.page >= pages - 1;
    $("everywhere").hidden = state.inside === null;
  }

  async function download() {
    const table = content.tables[state.table];
    const [level, numbers] = await Promise.all([levelOf(state.level), numbersOf(state.table, state.level)]);
    const title = text("Table {table}, by {level}", { table: tableTitle(table), level: level.label });
    saveCsv(`${fileName(table)}-${level.name}.csv`, title, rowsOf(table, level, numbers, sortedRows), [numbers, sortedRows]);
  }
  // What a file says of itself: what it shows, of which status, by whom, as of when, from where, and how sure it is.
  function notesOf(title, [numbers, rows] = [null, []]) {
    const margins = numbers?.ends ? rows.flatMap((row) => content.tables[state.table].labels.map((_, column) => margin(numbers, row, column))).filter((one) => one !== null) : [];
    const middle = margins.sort((a, b) => a - b)[Math.floor((margins.length - 1) / 2)];
    const sure = numbers && !numbers.ends ? [] : [text("90 % intervals contain the true count in 90 % of cases.")
      + (middle === undefined ? "" : " " + text("Half of the margins of error of these numbers are at most {margin}.", { margin: whole.format(middle) }))];
    const found = location.protocol === "file:" ? [] : [text("From: {address}", { address: location.href })];
    return [title + (content.year ? `, ${content.year}` : ""), ...content.source, ...sure, ...found];
  }
  const saveCsv = (name, title, rows, shown) => takeaway.save(name, new Blob([spreadsheet.csv(notesOf(title, shown), rows)], { type: "text/csv" }));
  // The whole table: every area of every level at which it is in the page.
  const tooLarge = () => shownLevels(state.table).reduce((sum, number) => sum + content.levels[number].n, 0) * content.tables[state.table].labels.length > MOST_NUMBERS;
  async function downloadAll(type) {
    const table = content.tables[state.table];
    try {
      const parts = await Promise.all(shownLevels(state.table).map(async (number) => {
        const [level, numbers] = await Promise.all([levelOf(number), numbersOf(state.table, number)]);
        [, , numbers.totalOf] = await Promise.all([level.need(), numbers.need(), compared.totals(state.table, number, 0, level.n)]);
        return { level, numbers };
      }));
      const title = text("Table {table}, all levels", { table: tableTitle(table) }), rows = wholeTable(table, parts), name = `${fileName(table)}.${type}`;
      if (type === "csv") saveCsv(name, title, rows);
      else takeaway.save(name, await spreadsheet.workbook([[text("numbers"), rows], [text("notes"), notesOf(title).map((words) => [words])]]));
    } catch (error) {
      if (!(error instanceof decode.Unread)) throw error;
      unread();
    }
  }
  const fileName = (table) => `${content.release}-${table.universe ? table.universe + "-" : ""}${table.name}`;
  // Margins are of counts: a picture of shares or densities does not say them.
  async function downloadPicture(type) {
    const numbers = await numbersOf(state.table, state.level), title = $("picture-title").textContent;
    const legend = [...$("legend").children].map((line) => {
      const swatch = line.querySelector(".swatch");
      return { colour: swatch?.classList.contains("hatched") ? "url(#hatch)" : swatch?.style.background, words: line.textContent };
    });
    const svg = takeaway.svgOf($("picture"), title, legend, notesOf("", state.measure === "count" || state.measure === "margin" ? [numbers, sortedRows] : [numbers, []]).slice(1)), name = `${fileName(content.tables[state.table])}-${content.levels[state.level].name}.${type}`;
    takeaway.save(name, type === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await takeaway.pngOf(svg));
  }

  // ---------------------------------------------------------------- one area
  async function card() {
    const place = $("area");
    if (state.area === null) {
      place.replaceChildren(element("p", { className: "hint", textContent: text("Search for an area, or choose one in the picture or in the table, to read its numbers here.") }));
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
      parts.push(...(await sentences({ ...state.area })).map((words) => element("p", { className: "sentence", textContent: words })));
    }
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
      const numbers = await numbersOf(state.table, here.level), title = text("Table {table}, {area}", { table: tableTitle(table), area: titleOf(level, here.row) });
      numbers.totalOf = await compared.totals(state.table, here.level, here.row, here.row + 1);
      saveCsv(`${fileName(table)}-${level.codes[here.row]}.csv`, title, rowsOf(table, level, numbers, [here.row]), [numbers, [here.row]]);
    } }));
    parts.push(element("p", { className: "actions" }, ...offers, ...below.slice(0, 3).map((number) => element("button", {
      type: "button", key: `below-${number}`, textContent: text("Show each {level} in it", { level: content.levels[number].label }),
      onclick: () => { Object.assign(state, { inside: { ...state.area }, level: number, page: 0 }); show(); } }))));
    place.replaceChildren(...parts);
  }

  // How many there are in the area: a sentence, and a bar up to the upper end of the interval, hatched from its lower end.
  async function answer() {
    const place = $("answer"), table = content.tables[state.table], { level: number, row } = state.area ?? {};
    place.hidden = state.area === null || (table.note ?? "") !== "" || !shownLevels(state.table).includes(number);
    if (place.hidden) return;
    const [level, numbers, totalOf] = await Promise.all([levelOf(number), numbersOf(state.table, number), compared.totals(state.table, number, row, row + 1)]);
    await level.need(row, row + 1);
    numbers.totalOf = totalOf;
    const total = totalOf(row), kind = kindOf(numbers, row, isTotalled(table) ? TOTAL : 0), parts = [];
    const [low, high] = total.ends ?? [0, 0];
    if (low >= 0 && high > 0) {
      const bar = element("span", { className: `bar ${kind.key}`, "aria-hidden": "true" }, element("i"), element("i", { className: "hatched" }));
      bar.firstChild.style.width = `${(100 * low) / high}%`;
      bar.lastChild.style.width = `${(100 * (high - low)) / high}%`;
      parts.push(bar);
    }
    if (numbers.ends) parts.push(element("span", { className: kind.key, textContent: `${SYMBOLS[kind.key]} ${kind.label}` }));
    place.replaceChildren(element("p", {}, element("strong", { textContent: totalSaid(level, row, numbers.ends ? saidOf(total) : whole.format(total.value)) })),
      element("p", { className: "actions" }, ...parts, element("a", { href: "#area", textContent: text("More about this area") })));
  }

  function begun(what) { return what[0].toUpperCase() + what.slice(1); }
  function totalSaid(level, row, n) {
    const what = content.universes[content.tables[state.table].universe];
    return text("{what} in {area}: {n}.", { area: nameOf(level, row), what: begun(what), n });
  }
  const saidOf = ({ value, ends, exact }) => exact ? text("{n} (exact)", { n: whole.format(value) }) : ends === null ? text("{n} (interval not known)", { n: whole.format(value) })
    : text("{n} (90 % interval: {low} to {high})", { n: whole.format(value), low: whole.format(ends[0]), high: whole.format(ends[1]) });
  const ordinalForm = new Intl.PluralRules(document.documentElement.lang, { type: "ordinal" });
  function ordinal(number) {
    const n = whole.format(number);
    return { one: text("{n}st", { n }), two: text("{n}nd", { n }), few: text("{n}rd", { n }) }[ordinalForm.select(number)] ?? text("{n}th", { n });
  }
  // An area in three sentences: how many, what part and how it is beside the area that it is in, and its place among others.
  async function sentences(area) {
    const { level: number, row } = area, level = await levelOf(number), table = content.tables[state.table];
    const several = table.labels.length > 1 && state.cell !== TOTAL, label = groupOf(table), what = content.universes[table.universe];
    const place = [[number, row]], said = [];
    const numbers = await numbersOf(state.table, number);
    if (!numbers.ends) return said;
    const total = (await compared.totals(state.table, number, row, row + 1))(row);
    said.push(totalSaid(level, row, saidOf(total)));
    const parent = await compared.parentOf(area), above = parent !== null && shownLevels(state.table).includes(parent.level);
    const beside = above ? await compared.compare(state.table, place, [[parent.level, parent.row]], state.cell) : null;
    const upper = parent === null ? "" : nameOf(await levelOf(parent.level), parent.row);
    const percent = (found) => {
      const ends = found.ends ?? null, form = fittingShare(ends), share = form.share.format(found.value);
      return ends === null ? text("{share} % (interval not known)", { share })
        : text("{share} % (90 % interval: {low} to {high} %)", { share, low: form.ends.format(ends[0]), high: form.ends.format(ends[1]) });
    };
    const own = several ? await compared.share(state.table, place, state.cell) : null;
    if (own !== null) {
      const theirs = above ? await compared.share(state.table, [[parent.level, parent.row]], state.cell) : null;
      const differs = beside?.shares?.differs ?? null;
      said.push(text("Of these, {label}: {share}.", { label, share: percent(own) }) + (theirs === null ? "" : " " + (differs === true
        ? own.value > theirs.value ? text("That is more than in {area}: {share}.", { area: upper, share: percent(theirs) })
          : text("That is less than in {area}: {share}.", { area: upper, share: percent(theirs) })
        : text("Whether that differs from {area} cannot be told: {share}.", { area: upper, share: percent(theirs) }))));
    } else if (beside?.ratio && !several) {
      const { value, ends } = beside.ratio, hundred = ends && ends.every(Number.isFinite) ? ends.map((end) => 100 * Math.min(1, Math.max(0, end))) : null;
      said.push(text("That is {share} of {area}.", { area: upper, share: percent({ value: 100 * value, ends: hundred }) }));
    }
    const rank = level.n > 1 ? (await compared.ranks(state.table, number))(row, state.cell) : null;
    if (rank !== null) {
      const values = { label: begun(what) + (several ? `, ${label}` : ""), rank: ordinal(rank.rank), n: whole.format(level.n), level: level.label, low: whole.format(rank.low), high: whole.format(rank.high) };
      said.push(rank.low === rank.high ? text("{label}: {rank} of {n} areas at level {level}.", values)
        : text("{label}: {rank} of {n} areas at level {level} (true rank: {low} to {high}).", values));
    }
    return said;
  }

  // One area is looked at; while several are chosen, each is put in or taken out.
  const several = () => $("several").getAttribute("aria-pressed") === "true";
  const pressed = (level, row) => (several() ? compared.toggle({ level, row }) : choose(level, row));
  $("several").addEventListener("click", () => {
    $("several").setAttribute("aria-pressed", String(!several()));
    $("several-hint").hidden = !several();
    $("picture").classList.toggle("drawing", several());
  });

  // From the search, whose answer is below it; from anywhere else, the card with all numbers comes into view.
  async function choose(level, row, answered = false) {
    state.area = { level, row };
    await show();
    const [title, first] = [$("area").querySelector("h3"), $("area").querySelector("tbody")?.rows[0].cells ?? []];
    $("said").textContent = [title, ...first].map((one) => one.textContent).join(" ");
    // On a narrow screen the card is not beside what was chosen from.
    if (!answered && matchMedia("(max-width: 56rem)").matches) $("area").scrollIntoView({ block: "nearest" });
  }

  // ---------------------------------------------------------------- the address of the view, and parts in other pages
  async function links() {
    await address.keep();
    const part = $("embed-part").value;
    $("link").value = address.address(await address.written(""));
    $("embed-whole").href = $("link").value;
    $("citation").value = content.citation + (onDisk ? "" : ` ${$("link").value}`);
    $("embed-code").value = address.frame(await address.written(part));
  }

  // A page that was opened from a disk has no address for others.
  const onDisk = location.protocol === "file:";
  for (const one of document.querySelectorAll(".online")) one.hidden = onDisk;
  $("on-disk").hidden = !onDisk;
  for (const one of document.querySelectorAll("[href='#takeaway']")) one.addEventListener("click", () => { $("takeaway").open = true; });
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", async () => {
    const place = $(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(place.value);
    } catch {
      place.select();
      if (!document.execCommand("copy")) return;
      button.focus();
    }
    $("said").textContent = text("Copied");
    const words = button.textContent;
    if (words !== text("Copied")) setTimeout(() => { button.textContent = words; }, 1500);
    button.textContent = text("Copied");
  });

  // ---------------------------------------------------------------- controls
  searchFor(content, numbersOfPage, { element, unread, taken: async (number, row) => {
    const { n, name } = content.levels[number], stated = content.tables[state.table].levels[name];
    // Of what is in pieces, the area is shown among those beside it.
    const inside = stated?.rows < n ? await compared.parentOf({ level: number, row }) : null;
    if (stated && n > 1) Object.assign(state, { level: number, inside, page: 0 });
    choose(number, row, true);
  } });
  $("table").addEventListener("change", () => { Object.assign(state, { table: Number($("table").value), cell: 0, page: 0 }, state.by === null ? {} : { by: null, sort: "code" }); show(); });
  $("level").addEventListener("change", () => { state.level = Number($("level").value); state.page = 0; show(); });
  $("cell").addEventListener("change", () => { state.cell = Number($("cell").value); show(); });
  $("measure").addEventListener("change", () => { state.chosen = $("measure").value; show(); });
  $("sort").addEventListener("change", () => { Object.assign(state, { sort: $("sort").value, by: null, page: 0 }); show(); });
  $("fade").addEventListener("change", show);
  $("previous").addEventListener("click", () => { state.page -= 1; show(); });
  $("next").addEventListener("click", () => { state.page += 1; show(); });
  $("everywhere").addEventListener("click", () => { state.inside = null; state.page = 0; show(); });
  $("download").addEventListener("click", download);
  for (const type of ["csv", "xlsx"]) $(`all-${type}`).addEventListener("click", () => downloadAll(type));
  for (const type of ["svg", "png"]) $(`as-${type}`).addEventListener("click", () => downloadPicture(type));
  $("compare-csv").addEventListener("click", async () => {
    saveCsv(`${fileName(content.tables[state.table])}-comparison.csv`, $("compare-caption").textContent, await compared.file());
  });
  $("compare-none").addEventListener("click", () => { state.compare = []; show(); });
  $("embed-part").addEventListener("change", links);
  for (const id of ["link", "embed-code", "citation"]) $(id).addEventListener("focus", () => $(id).select());
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
    fit();
  }
  // Drawn in a fold that is closed, a picture has no width to fit.
  for (const fold of document.querySelectorAll("details")) if (fold.querySelector("[data-budget]")) fold.addEventListener("toggle", still);
  for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", fit);
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
  let resized;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(all, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  if (usable) state.level = startLevel(firstTable);
  const start = structuredClone(state);
  const onMap = mapView(state, { several, taken: (rows) => rows.length && compared.add(rows.map((row) => ({ level: state.level, row }))) });
  const compared = comparison(content, numbersOfPage, state, { element, choose, show });
  const address = view(content, state, numbersOfPage);
  if (usable) await address.read(location.hash.slice(1));
  await all();
})();

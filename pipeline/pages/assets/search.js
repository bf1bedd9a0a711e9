// Search for an area by its name or code: a list that opens while one types.
"use strict";
window.searchFor = (content, { levelOf, placesOf, titleOf, folded, whole }, { element, taken, unread }) => {
  const FOUND = 12;
  const $ = (id) => document.getElementById(id);
  const search = $("search"), list = $("found");
  const hint = (words) => element("li", { className: "hint", role: "option", "aria-disabled": "true", textContent: words });
  const cut = content.levels.filter((level) => level.rows < level.n).map((level) => level.label);
  let found = [], active = -1, searching = 0;
  // What is compared where nothing is as it was typed: letters and digits, without the word for the kind of area.
  const kinds = new Set(content.levels.flatMap((level) => [level.name, level.label]).flatMap((words) => folded(words).split(/[^\p{L}\p{N}]+/u)));
  const wordsOf = (words) => words.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const bare = (words, isKind = (word) => kinds.has(word)) => { const all = wordsOf(words), kept = all.filter((one) => !isKind(one)); return (kept.length ? kept : all).join(""); };
  // Letters that are put in, left out, changed, or swapped with the next (Damerau and Levenshtein); more than `most` count as more.
  function distance(one, other, most) {
    if (Math.abs(one.length - other.length) > most) return most + 1;
    let before = [], row = Array.from({ length: other.length + 1 }, (_, i) => i);
    for (let i = 1; i <= one.length; i++) {
      const next = [i];
      for (let j = 1; j <= other.length; j++) {
        const same = one[i - 1] === other[j - 1] ? 0 : 1;
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + same);
        if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1);
      }
      if (Math.min(...next) > most) return most + 1;
      [before, row] = [row, next];
    }
    return row.at(-1);
  }
  // Names that are like what was typed, the most alike first.
  async function alike(wanted) {
    const isKind = (word) => [...kinds].some((one) => distance(word, one, one.length < 5 ? 0 : 1) < (one.length < 5 ? 1 : 2));
    const typed = bare(wanted, isKind), most = typed.length < 4 ? 0 : typed.length < 8 ? 1 : 2, mine = [];
    for (let number = 0; number < content.levels.length; number++) {
      const level = await levelOf(number);
      if (level.cut) continue;
      const meant = wordsOf(folded(`${level.name} ${level.label}`)).some((one) => wordsOf(wanted).includes(one)) ? 0 : 0.25;
      for (let row = 0; row < level.n; row++) {
        const name = level.keys[row] ? bare(level.keys[row]) : "", code = level.codes[row].toLowerCase();
        const far = code.startsWith(typed) || name.startsWith(typed) ? 0 : !name ? most + 1
          : Math.min(distance(typed, name, most), distance(typed, name.slice(0, typed.length), most) + 0.5);
        if (far <= most) mine.push({ number, row, far: far + meant, text: titleOf(level, row) });
      }
    }
    return mine.sort((a, b) => a.far - b.far || a.number - b.number || a.row - b.row).slice(0, FOUND);
  }
  // Areas whose code or name is what is typed, begins with it, or has it within; upper levels first. Of a level that is
  // in pieces only those are looked at that begin with it, where the codes above say where they are.
  async function matching(wanted) {
    const mine = [];
    const tests = [(one) => one === wanted, (one) => one.startsWith(wanted), (one) => one.includes(wanted)];
    for (const test of tests) {
      for (let number = 0; number < content.levels.length && mine.length < FOUND; number++) {
        const level = await levelOf(number);
        if (level.cut && (!level.prefixed || test === tests[2])) continue;
        for (const [first, end] of await placesOf(number, wanted)) {
          if (mine.length >= FOUND) break;
          await level.need(first, end);
          for (let row = first; row < end && mine.length < FOUND; row++) {
            if (!test(level.codes[row].toLowerCase()) && !test(level.keys[row] || "")) continue;
            if (!mine.some((one) => one.number === number && one.row === row)) mine.push({ number, row, text: titleOf(level, row) });
          }
        }
      }
    }
    return mine;
  }
  async function find() {
    const turn = ++searching;
    const wanted = folded(search.value.trim());
    let mine = [];
    try {
      mine = wanted ? await matching(wanted) : [];
      if (wanted && !mine.length) mine = await alike(wanted);
    } catch (error) {
      if (!(error instanceof decode.Unread)) throw error;
      unread();
    }
    if (turn !== searching) return;
    found = mine;
    active = -1;
    list.replaceChildren(...found.map((one, i) => element("li", { id: `found-${i}`, role: "option", "aria-selected": "false", textContent: one.text, onmousedown: (event) => { event.preventDefault(); take(i); } })));
    const open = wanted !== "";
    if (open && !found.length) list.replaceChildren(hint(text("No such area in this page.")));
    if (open && found.length < FOUND) list.append(...cut.map((label) => hint(text("To find areas of level {level}, type the beginning of their code.", { level: label }))));
    list.hidden = !open;
    search.setAttribute("aria-expanded", String(open));
    $("found-count").textContent = open ? text("Areas found: {n}", { n: whole.format(found.length) }) : "";
  }
  function close() {
    list.hidden = true;
    search.setAttribute("aria-expanded", "false");
    search.removeAttribute("aria-activedescendant");
  }
  function take(i) {
    const one = found[i];
    if (!one) return;
    search.value = one.text;
    close();
    taken(one.number, one.row);
  }
  search.addEventListener("input", find);
  search.addEventListener("focus", () => { if (search.value) search.select(); });
  search.addEventListener("blur", close);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter") { event.preventDefault(); take(Math.max(0, active)); }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    if (!found.length) return;
    active = (active + (event.key === "ArrowDown" ? 1 : found.length - 1) + (active < 0 && event.key === "ArrowUp" ? 1 : 0)) % found.length;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    list.children[active].scrollIntoView({ block: "nearest" });
    search.setAttribute("aria-activedescendant", `found-${active}`);
  });
};

// Search for an area by its name or code: a list that opens while one types.
"use strict";
window.searchFor = (content, { levelOf, placesOf, titleOf, folded, whole }, { element, taken, unread }) => {
  const FOUND = 12;
  const $ = (id) => document.getElementById(id);
  const search = $("search"), list = $("found");
  const hint = (words) => element("li", { className: "hint", role: "option", "aria-disabled": "true", textContent: words });
  const cut = content.levels.filter((level) => level.rows < level.n).map((level) => level.label);
  let found = [], active = -1, searching = 0;
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

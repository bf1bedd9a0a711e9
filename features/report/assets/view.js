// What is shown, as the fragment of the page's address: a view can be linked, kept, embedded, and gone back to.
"use strict";
window.view = (content, state, { levelOf, rowOf }) => {
  const EMBEDDED = ["chart", "table", "area", "compare"];
  const SORTS = ["code", "most", "least"], MEASURES = ["count", "share", "density", "margin"];
  const TOTAL = -1, start = { ...state };
  const keyOf = (table) => (table.universe ? `${table.universe}/${table.name}` : table.name);
  const safe = (words) => encodeURIComponent(words).replaceAll("%2F", "/").replaceAll("%3A", ":");

  async function codeOf({ level: number, row }) {
    const level = await levelOf(number);
    await level.need(row, row + 1);
    return `${safe(level.name)}:${safe(level.codes[row])}`;
  }
  async function areaOf(code) {
    const [name, ...rest] = code.split(":").map(decodeURIComponent);
    const number = content.levels.findIndex((level) => level.name === name);
    const row = number < 0 ? -1 : await rowOf(number, rest.join(":"));
    return row < 0 ? null : { level: number, row };
  }

  // Everything that is not as it was when the page opened.
  async function written(embedded) {
    const table = content.tables[state.table];
    const parts = [["embed", embedded], ["table", safe(keyOf(table))], ["level", safe(content.levels[state.level].name)]];
    if (state.cell) parts.push(["cell", state.cell === TOTAL ? "*" : safe(table.labels[state.cell])]);
    if (state.chosen) parts.push(["show", state.chosen]);
    if (state.sort !== start.sort) parts.push(["order", state.sort]);
    if (state.by !== null) parts.push(["by", state.by < 0 ? "*" : safe(table.labels[state.by])]);
    if (state.page) parts.push(["page", state.page + 1]);
    for (const key of ["inside", "area"]) if (state[key]) parts.push([key, await codeOf(state[key])]);
    if (state.compare.length) parts.push(["compare", (await Promise.all(state.compare.map(codeOf))).join(",")]);
    return parts.filter(([, value]) => value).map((pair) => pair.join("=")).join("&");
  }

  // Takes over what a fragment says; what it does not say, or says of nothing that is there, is as when the page opened.
  async function read(fragment) {
    if (fragment && !fragment.includes("=")) return false;
    const found = new Map(fragment.split("&").filter(Boolean).map((part) => [part.split("=")[0], part.split("=").slice(1).join("=")]));
    const plain = (key) => { try { return decodeURIComponent(found.get(key) ?? ""); } catch { return ""; } };
    const among = (list, wanted, usual) => { const at = list.indexOf(wanted); return at < 0 ? usual : at; };
    const one = async (key) => { try { return found.has(key) ? await areaOf(found.get(key)) : null; } catch { return null; } };
    state.table = among(content.tables.map(keyOf), plain("table"), start.table);
    state.level = among(content.levels.map((level) => level.name), plain("level"), start.level);
    state.cell = plain("cell") === "*" ? TOTAL : among(content.tables[state.table].labels, plain("cell"), 0);
    state.chosen = MEASURES.includes(plain("show")) ? plain("show") : null;
    state.sort = SORTS.includes(plain("order")) ? plain("order") : start.sort;
    state.by = plain("by") === "*" ? -1 : among(content.tables[state.table].labels, plain("by"), null);
    state.page = Math.max(1, Number.parseInt(plain("page"), 10) || 1) - 1;
    [state.inside, state.area] = [await one("inside"), await one("area")];
    const listed = (found.get("compare") ?? "").split(",").filter(Boolean);
    state.compare = (await Promise.all(listed.map((code) => areaOf(code).catch(() => null)))).filter(Boolean);
    const part = plain("embed");
    if (EMBEDDED.includes(part)) document.documentElement.dataset.embed = part;
    else delete document.documentElement.dataset.embed;
    return true;
  }

  // The address of the view; a new entry of the history where it is another than before.
  let last = null;
  async function keep() {
    const now = await written(document.documentElement.dataset.embed ?? "");
    if (last !== null && now !== last) location.hash = now;
    last = now;
    return now;
  }
  const address = (fragment) => location.href.split("#")[0] + "#" + fragment;
  // HTML that shows a part in another page.
  const quoted = (words) => words.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  const frame = (fragment) => `<iframe src="${quoted(address(fragment))}" title="${quoted(document.title)}" width="100%" height="520" loading="lazy"></iframe>`;
  const isKept = () => location.hash.slice(1) === last;

  return { read, keep, written, address, frame, isKept };
};

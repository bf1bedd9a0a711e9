// Tables as files: CSV with its notes in the last column, and an Excel workbook (ECMA-376), which is XML in a zip archive.
"use strict";
window.spreadsheet = (() => {
  const SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
  const OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
  const PACKAGE = "http://schemas.openxmlformats.org/package/2006/";
  const TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml.";
  const MOST_ROWS = 1048576;

  // What a spreadsheet would take for a formula begins with an apostrophe; numbers are as they are.
  const cellOf = (value) => typeof value === "string" && /^[=+\-@]/.test(value) ? `'${value}` : String(value ?? "");
  const QUOTE = "\u0022";
  const quoted = (words) => /[\u0022,\r\n]/.test(words) ? QUOTE + words.replaceAll(QUOTE, QUOTE + QUOTE) + QUOTE : words;
  const line = (cells) => cells.map((one) => quoted(cellOf(one))).join(",") + "\n";
  // The heads come first, so that every program reads the file as it is; the notes stand once, beside the first row of
  // numbers, and go where the file goes. What is not known is empty.
  function csv(notes, [head, ...rows]) {
    const words = notes.map((one) => one.replace(/\s+/g, " ")).join(" | ");
    return line([...head, "notes"]) + rows.map((cells, i) => line([...cells, i === 0 ? words : ""])).join("");
  }

  // ---------------------------------------------------------------- XML
  const escaped = (words) => String(words).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]/g, "")
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll(QUOTE, "&quot;");
  const node = (tag, properties = {}, ...children) =>
    `<${tag}${Object.entries(properties).map(([name, value]) => ` ${name}=${QUOTE}${escaped(value)}${QUOTE}`).join("")}>${children.join("")}</${tag}>`;
  const DECLARATION = ["<?xml", `version=${QUOTE}1.0${QUOTE}`, `encoding=${QUOTE}UTF-8${QUOTE}?>`].join(" ");
  const cell = (value) => typeof value === "number" ? node("c", {}, node("v", {}, value))
    : value === null || value === "" ? "<c/>" : node("c", { t: "inlineStr" }, node("is", {}, node("t", { "xml:space": "preserve" }, escaped(value))));
  function sheet(rows, frozen) {
    const view = frozen ? [node("sheetViews", {}, node("sheetView", { workbookViewId: 0 },
      node("pane", { ySplit: 1, topLeftCell: "A2", activePane: "bottomLeft", state: "frozen" })))] : [];
    return node("worksheet", { xmlns: SHEETS }, ...view, node("sheetData", {}, rows.map((row) => node("row", {}, row.map(cell).join(""))).join("")));
  }

  // ---------------------------------------------------------------- zip
  const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
    let value = n;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
    return value >>> 0;
  });
  function crcOf(bytes) {
    let value = 0xffffffff;
    for (const byte of bytes) value = CRC[(value ^ byte) & 255] ^ (value >>> 8);
    return (value ^ 0xffffffff) >>> 0;
  }
  // Little-endian: a list of [bytes, number].
  function packed(fields) {
    const view = new DataView(new ArrayBuffer(fields.reduce((sum, [size]) => sum + size, 0)));
    let at = 0;
    for (const [size, value] of fields) {
      if (size === 2) view.setUint16(at, value, true); else view.setUint32(at, value, true);
      at += size;
    }
    return new Uint8Array(view.buffer);
  }
  async function zip(files) {
    const parts = [], directory = [];
    let at = 0;
    for (const [path, words] of files) {
      const name = new TextEncoder().encode(path), bytes = new TextEncoder().encode(words);
      const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw"));
      const data = new Uint8Array(await new Response(stream).arrayBuffer());
      // As ZIP 2.0 has it, UTF-8 names, deflated, 1980-01-01: the same table gives the same file.
      const common = [[2, 20], [2, 0x800], [2, 8], [2, 0], [2, 33], [4, crcOf(bytes)], [4, data.length], [4, bytes.length], [2, name.length], [2, 0]];
      const head = packed([[4, 0x04034b50], ...common]);
      directory.push(packed([[4, 0x02014b50], [2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]]), name);
      parts.push(head, name, data);
      at += head.length + name.length + data.length;
    }
    const size = directory.reduce((sum, one) => sum + one.length, 0);
    const end = packed([[4, 0x06054b50], [2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, at], [2, 0]]);
    return new Blob([...parts, ...directory, end], { type: `${TYPES}sheet` });
  }

  // A workbook of sheets: [[name, rows], ...]; the first row of the first is frozen.
  function workbook(sheets) {
    const relation = (id, kind, target) => node("Relationship", { Id: `rId${id}`, Type: `${OFFICE}/${kind}`, Target: target });
    const relations = (...all) => node("Relationships", { xmlns: `${PACKAGE}relationships` }, ...all);
    const override = (part, type) => node("Override", { PartName: part, ContentType: `${TYPES}${type}+xml` });
    const usual = (extension, type) => node("Default", { Extension: extension, ContentType: type });
    const files = [
      ["[Content_Types].xml", node("Types", { xmlns: `${PACKAGE}content-types` }, usual("rels", "application/vnd.openxmlformats-package.relationships+xml"),
        usual("xml", "application/xml"), override("/xl/workbook.xml", "sheet.main"), ...sheets.map((_, i) => override(`/xl/worksheets/sheet${i + 1}.xml`, "worksheet")))],
      ["_rels/.rels", relations(relation(1, "officeDocument", "xl/workbook.xml"))],
      ["xl/workbook.xml", node("workbook", { xmlns: SHEETS, "xmlns:r": OFFICE }, node("sheets", {},
        ...sheets.map(([name], i) => node("sheet", { name, sheetId: i + 1, "r:id": `rId${i + 1}` }))))],
      ["xl/_rels/workbook.xml.rels", relations(...sheets.map((_, i) => relation(i + 1, "worksheet", `worksheets/sheet${i + 1}.xml`)))],
      ...sheets.map(([, rows], i) => [`xl/worksheets/sheet${i + 1}.xml`, sheet(rows, i === 0)]),
    ];
    return zip(files.map(([path, words]) => [path, `${DECLARATION}\n${words}`]));
  }

  return { csv, workbook, MOST_ROWS };
})();

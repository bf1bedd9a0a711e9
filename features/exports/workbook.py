"""The tables of a release as XLSX workbooks: one for each table, with a sheet for each level, flags, words and notes.

Geocodes stay text. openpyxl writes the workbook with the headings of its sheets. The rows below them are put in as
text, column by column: openpyxl makes an object of every cell, which takes ten times as long.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.exports.chosen import by_table
from features.exports.plain_files import titles_of
from features.exports.rows import FileRows, required
from features.exports.words import about_rows, facts, label_rows
from pipeline.errors import InputError
from pipeline.metadata.contents import SUFFIX_WORDS, DataFile
from pipeline.metadata.facts import NOT_STATED
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.texts.message import all_marked, marked
from pipeline.model.texts.sentences import sentence
from pipeline.published import PublishedRelease
from pipeline.release.reliability import CLASSES, classes_in
from pipeline.release.tables import INTERVAL_SUFFIXES
from pipeline.storage.plain_tables import without_nan

#: Of a sheet, by the format.
MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
_NOT_IN_TITLES = re.compile(r"[\[\]:*?/\\]")
_LONGEST_TITLE = 31
_MOMENT = (1980, 1, 1, 0, 0, 0)
#: Cells made at a time, and how much their text is compressed: more would take longer than all else.
_AT_ONCE, _COMPRESSION = 1 << 20, 2
#: What text in XML cannot have as it is -> how it is written; control characters are left out.
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;", "[\\x00-\\x08\\x0B\\x0C\\x0E-\\x1F]": ""}
_MODIFIED = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*")


@dataclass(frozen=True, eq=False)
class Sheet:
    """The rows of one level.

    Attributes:
        title: of the sheet, as far as the format allows.
        columns: heading and `(n,)` text or numbers, null where a cell is empty; geocodes first, kept as text.
        named: whether the second column has the areas' names.
    """

    title: str
    columns: Sequence[tuple[str, pa.Array]]
    named: bool


#: A list of texts: the title of its sheet, a heading for each column, and rows.
TextSheet = tuple[str, Sequence[str], Sequence[Sequence[str]]]


def write_workbook(target: Path, title: str, sheets: Sequence[Sheet], lists: Sequence[TextSheet] = ()) -> None:
    """Write a workbook, whose bytes depend on its content alone.

    Args:
        target: the file.
        title: of the document, also on every printed page.
        sheets: one for each level.
        lists: further sheets; those without rows are left out.
    """
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    book.properties.title = title
    titles: set[str] = set()
    for one in sheets:
        sheet = book.create_sheet(_title(one.title, titles))
        sheet.freeze_panes = "C2" if one.named else "B2"
        sheet.print_title_rows = "1:1"
        sheet.oddHeader.center.text = title.replace("&", "&&")
        sheet.append([_text(sheet, head) for head, _ in one.columns])
    for name, heads, rows in lists:
        if rows:
            sheet = book.create_sheet(_title(name, titles))
            for line in (heads, *rows):
                sheet.append([_text(sheet, text) for text in line])
    target.parent.mkdir(parents=True, exist_ok=True)
    loose = target.with_suffix(".loose")
    book.save(loose)
    _settle(loose, target, [[values for _, values in one.columns] for one in sheets])
    loose.unlink()


def _text(sheet: Any, value: str) -> Any:
    """A cell of text: what begins with "=" is not a formula."""
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, value=value)
    cell.data_type = "s"
    return cell


def _title(level: str, used: set[str]) -> str:
    """A sheet's title: the level's name as far as the format allows, and different from those `used`."""
    base = _NOT_IN_TITLES.sub("_", level)[:_LONGEST_TITLE] or "level"
    title, number = base, 1
    while title.casefold() in used:
        number += 1
        title = f"{base[: _LONGEST_TITLE - 4]} {number}"
    used.add(title.casefold())
    return title


def _settle(loose: Path, target: Path, sheets: Sequence[Sequence[pa.Array]]) -> None:
    """The same archive with the rows of the first sheets, and without the time at which it was written."""
    filled = {f"xl/worksheets/sheet{number}.xml": columns for number, columns in enumerate(sheets, start=1)}
    with (
        zipfile.ZipFile(loose) as source,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION) as archive,
    ):
        for name in sorted(source.namelist(), key=lambda name: (name != "[Content_Types].xml", name)):
            content = source.read(name)
            if name == "docProps/core.xml":
                content = _MODIFIED.sub(rb"\g<1>1980-01-01T00:00:00Z", content)
            if name in filled:
                head, end, tail = content.partition(b"</sheetData>")
                content = b"".join((head, *_rows(filled[name]), end, tail))
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), content, zipfile.ZIP_DEFLATED, _COMPRESSION)


def _rows(columns: Sequence[pa.Array]) -> Iterator[pa.Buffer]:
    """The rows below the headings as XML."""
    from openpyxl.utils import get_column_letter

    step = max(1, _AT_ONCE // len(columns))
    for start in range(0, len(columns[0]), step):
        parts = [values.slice(start, step) for values in columns]
        numbers = pc.cast(pa.array(np.arange(len(parts[0])) + start + 2), pa.string())
        pieces = ['<row r="', numbers, '">']
        for place, part in enumerate(parts, start=1):
            before, after = '"><v>', "</v></c>"
            if pa.types.is_string(part.type):
                before, after = '" t="inlineStr"><is><t xml:space="preserve">', "</t></is></c>"
            cell = (f'<c r="{get_column_letter(place)}', numbers, before, _as_xml(part), after)
            pieces.append(pc.binary_join_element_wise(*cell, ""))  # null where the cell is empty
        rows = pc.binary_join_element_wise(*pieces, "</row>", "", null_handling="skip")
        yield from (row.as_buffer() for row in rows)


def _as_xml(values: pa.Array) -> pa.Array:
    """Numbers as text, and text as XML has it; flags are few that differ."""
    coded = values.dictionary_encode()
    texts = pc.cast(coded.dictionary, pa.string())
    if pa.types.is_string(values.type):
        for character, entity in _ESCAPED.items():
            texts = pc.replace_substring_regex(texts, character, entity)
    return texts.take(coded.indices)


#: Class of a number -> its flag in the cells.
FLAGS = {"good": marked("good"), "care": marked("care"), "unreliable": marked("unreliable")}
#: Kinds of labels, and what a release says of itself.
KEYS = all_marked(
    "records",
    "level",
    "attribute",
    "value",
    "table",
    "status",
    "epsilon",
    "source",
    "title",
    "publisher",
    "reference_date",
    "period",
    "publication_date",
    "version",
    "next_release",
    "contact",
    "licence",
    "citation",
    "software_url",
    "note",
    "definition of {term}",
)
#: Heads of the two lists.
LABEL_WORDS = all_marked("universe", "kind", "name", "label")
ABOUT_WORDS = all_marked("key", "text")
#: Suffix of the columns with the class of a number: what it can be used for.
USE_SUFFIX = ":use"


def write_workbooks(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write `TABLE.xlsx` for each table, and household_sizes/ and household_tables/ likewise.

    Sheets have the labels of their levels; titles, headings, notes and flags are in the language of the report.

    Raises:
        InputError: openpyxl is not installed, or a sheet would have more rows or columns than a spreadsheet opens.
    """
    required("xlsx", "openpyxl", "openpyxl")
    rows, texts = FileRows(release), texts_in(release.spec.report.language)
    files = [file if file.wide is None else file.wide() for file in files]
    by_level = {level.name: len(level) for level in release.spine.levels}
    for file in files:  # before anything is written
        columns = rows.described(file).columns
        flags = sum(column.name.endswith(INTERVAL_SUFFIXES[0]) for column in columns if file.kind == "table")
        n_rows, n_columns = by_level[file.level], len(columns) + flags
        if n_rows + 1 > MOST_ROWS or n_columns > MOST_COLUMNS:
            raise InputError(
                f"--format xlsx: table {file.table!r} at level {file.level!r} has {n_rows:,} rows and {n_columns:,} "
                f"columns; a sheet has at most {MOST_ROWS - 1:,} and {MOST_COLUMNS:,}: use --format csv, or leave it "
                "out with --table or --level"
            )
    for workbook, own in by_table(files).items():
        sheets = [_sheet(file, release.spec.labels().level(file.level), rows, texts) for file in own]
        title = f"{release.spec.about.title or release.spec.name}: {own[0].heading}"
        write_workbook(folder / f"{workbook}.xlsx", title, sheets, _lists(title, own[0], release, texts))


def _sheet(file: DataFile, title: str, rows: FileRows, texts: Texts) -> Sheet:
    """A file's rows, of tables with the class of each number after its interval."""
    table, titles = without_nan(pa.concat_tables(rows.parts(file))), titles_of(file)
    keys, named = np.array([texts(FLAGS[one.key]) for one in CLASSES]), rows.names(file.level) is not None
    columns: list[tuple[str, pa.Array]] = []
    for name in table.column_names[1 + named :]:
        columns.append((_head(name, titles), table[name].combine_chunks()))
        if file.kind == "table" and name.endswith(INTERVAL_SUFFIXES[-1]):
            label = name.removesuffix(INTERVAL_SUFFIXES[-1])
            numbers = (table[label + end].to_numpy() for end in ("", INTERVAL_SUFFIXES[0]))
            columns.append((_head(label + USE_SUFFIX, titles), pa.array(keys[classes_in(*numbers)])))
    name = texts("name") if texts("name") not in dict(columns) else texts("area name")
    places = [(head, table[n].combine_chunks()) for n, head in enumerate((texts("geocode"), name)[: 1 + named])]
    return Sheet(title, places + columns, named)


def _head(column: str, titles: dict[str, str]) -> str:
    """The heading of a column: the label of its answer, with what the column holds of it."""
    ends = (*INTERVAL_SUFFIXES, USE_SUFFIX)
    answer = next((column.removesuffix(end) for end in ends if column.endswith(end)), column)
    return titles[answer] + column[len(answer) :]


def _lists(title: str, file: DataFile, release: PublishedRelease, texts: Texts) -> list[TextSheet]:
    """What everything is called, and what the table and the release say of themselves."""
    labels = [(universe, _said(texts, kind), name, label) for universe, kind, name, label in label_rows(release)]
    first = len(facts(release))
    stated = [(_said(texts, key), _value(texts, key, text)) for key, text in about_rows(release)]
    about = [*stated[:first], *_about(title, file, texts), *stated[first:]]
    return [
        (texts("labels"), [texts(head) for head in LABEL_WORDS], labels),
        (texts("about"), [texts(head) for head in ABOUT_WORDS], about),
    ]


def _about(title: str, file: DataFile, texts: Texts) -> list[tuple[str, str]]:
    """What stands above the publisher's own words: the table's title, and what its columns are."""
    rows = [(texts("table"), title), *([(texts("note"), file.note)] if file.note else [])]
    if any(column.name.endswith(INTERVAL_SUFFIXES) for column in file.columns):
        rows += [(texts("columns {name}", name=suffix), texts(words)) for suffix, words in SUFFIX_WORDS.items()]
        if file.kind == "table":
            rows += [
                (
                    texts("columns {name}", name=f"{USE_SUFFIX}: {texts(FLAGS[one.key])}"),
                    f"{texts(one.label)}: {texts(one.rule)}. {texts(one.advice)}",
                )
                for one in CLASSES
            ]
    return rows


def _value(texts: Texts, key: str, text: str) -> str:
    """What stands beside a key: words of ours in the language, those of the publisher as they are."""
    return texts(NOT_STATED) if text == NOT_STATED else sentence(texts, text) if key == "status" else text


def _said(texts: Texts, key: str) -> str:
    """A kind of label, or a key of what the release says of itself."""
    return sentence(texts, key, KEYS)

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
from numpy.typing import NDArray

from features.exports.chosen import by_table
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
from pipeline.release.tables import INTERVAL_SUFFIXES, ReleasedTable, read_table

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
        geocodes: `(n,)`, kept as text.
        keys: headings of geocodes and names.
        names: of the areas, None where they have none.
        columns: after the geocode and the name: heading and values `(n,)`; NaN is an empty cell.
    """

    title: str
    keys: tuple[str, str]
    geocodes: NDArray[np.str_]
    names: Sequence[str] | None
    columns: Sequence[tuple[str, NDArray[np.generic]]]

    def cells(self) -> list[tuple[str, pa.Array]]:
        """All columns with their headings: text or numbers, null where a cell is empty."""
        places = [self.geocodes.tolist()] if self.names is None else [self.geocodes.tolist(), list(self.names)]
        texts = [(head, pa.array(column, pa.string())) for head, column in zip(self.keys, places, strict=False)]
        return texts + [(head, pa.array(column, from_pandas=True)) for head, column in self.columns]


@dataclass(frozen=True)
class TextSheet:
    """A list of texts: a heading for each column, and rows."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


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
    cells = [one.cells() for one in sheets]
    for one, columns in zip(sheets, cells, strict=True):
        sheet = book.create_sheet(_title(one.title, titles))
        sheet.freeze_panes = "B2" if one.names is None else "C2"
        sheet.print_title_rows = "1:1"
        sheet.oddHeader.center.text = title.replace("&", "&&")
        sheet.append([_text(sheet, head) for head, _ in columns])
    for listed in lists:
        if listed.rows:
            sheet = book.create_sheet(_title(listed.title, titles))
            for line in (listed.heads, *listed.rows):
                sheet.append([_text(sheet, text) for text in line])
    target.parent.mkdir(parents=True, exist_ok=True)
    loose = target.with_suffix(".loose")
    book.save(loose)
    _settle(loose, target, [[values for _, values in columns] for columns in cells])
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
        sheets = [_sheet(file, release, by_level[file.level], rows, texts) for file in own]
        title = f"{release.spec.about.title or release.spec.name}: {own[0].heading}"
        write_workbook(folder / f"{workbook}.xlsx", title, sheets, _lists(title, own[0], release, texts))


def _sheet(file: DataFile, release: PublishedRelease, n_areas: int, rows: FileRows, texts: Texts) -> Sheet:
    titles = {column.name: column.title for column in file.columns}
    source = release.unchanged(file.source)
    if file.read is not None:
        numbers = file.read(source, n_areas)
        geocodes, columns = numbers.geocodes, iter(numbers.columns())
    else:
        table = read_table(source, n_areas)
        geocodes, columns = table.geocodes, _with_flags(table, texts)
    headed = tuple((_head(name, titles), values) for name, values in columns)
    heads = [head for head, _ in headed]
    name = texts("name") if texts("name") not in heads else texts("area name")
    return Sheet(
        release.spec.labels().level(file.level), (texts("geocode"), name), geocodes, rows.names(file.level), headed
    )


def _with_flags(table: ReleasedTable, texts: Texts) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """The columns of a table, with the class of each number after its interval."""
    keys = np.array([texts(FLAGS[one.key]) for one in CLASSES])
    classes = None if table.margins is None else keys[classes_in(table.counts, table.margins)]
    for name, values in table.columns():
        yield name, values
        if classes is not None and name.endswith(INTERVAL_SUFFIXES[-1]):
            label = name.removesuffix(INTERVAL_SUFFIXES[-1])
            yield label + USE_SUFFIX, classes[:, table.labels.index(label)]


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
        TextSheet(texts("labels"), [texts(head) for head in LABEL_WORDS], labels),
        TextSheet(texts("about"), [texts(head) for head in ABOUT_WORDS], about),
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

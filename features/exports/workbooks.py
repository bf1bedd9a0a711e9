"""The tables of a release as workbooks: one for each table, with a sheet for each level, flags, words and notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.exports.chosen import by_table
from features.exports.facts import about_rows, facts
from features.exports.rows import Rows
from features.exports.words import label_rows
from features.exports.workbook import Sheet, TextSheet, check_fits, require_openpyxl, write_workbook
from pipeline.metadata.contents import SUFFIX_WORDS, DataFile
from pipeline.metadata.facts import NOT_STATED
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.texts.message import marked
from pipeline.model.texts.sentences import sentence
from pipeline.published import PublishedRelease
from pipeline.release.reliability import CLASSES, classes_in
from pipeline.release.tables import INTERVAL_SUFFIXES, ReleasedTable, read_table

#: Class of a number -> its flag in the cells.
FLAGS = {"good": marked("good"), "care": marked("care"), "unreliable": marked("unreliable")}
#: Kinds of labels, and what a release says of itself.
KEYS = (
    marked("records"),
    marked("level"),
    marked("attribute"),
    marked("value"),
    marked("table"),
    marked("status"),
    marked("epsilon"),
    marked("source"),
    marked("title"),
    marked("publisher"),
    marked("reference_date"),
    marked("period"),
    marked("publication_date"),
    marked("version"),
    marked("next_release"),
    marked("contact"),
    marked("licence"),
    marked("citation"),
    marked("software_url"),
    marked("note"),
    marked("definition of {term}"),
)
#: Heads of the two lists.
LABEL_WORDS = (marked("universe"), marked("kind"), marked("name"), marked("label"))
ABOUT_WORDS = (marked("key"), marked("text"))
#: Suffix of the columns with the class of a number: what it can be used for.
USE_SUFFIX = ":use"


def write_workbooks(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write `TABLE.xlsx` for each table, and household_sizes/ and household_tables/ likewise.

    Sheets have the labels of their levels; titles, headings, notes and flags are in the language of the report.

    Raises:
        InputError: openpyxl is not installed, or a sheet would have more rows or columns than a spreadsheet opens.
    """
    require_openpyxl()
    rows, texts = Rows(release), texts_in(release.spec.report.language)
    files = [file if file.wide is None else file.wide() for file in files]
    by_level = {level.name: len(level) for level in release.spine.levels}
    for file in files:  # before anything is written
        columns = rows.described(file).columns
        flags = sum(column.name.endswith(INTERVAL_SUFFIXES[0]) for column in columns if file.kind == "table")
        check_fits(file.table, file.level, by_level[file.level], len(columns) + flags)
    for workbook, own in by_table(files).items():
        sheets = [_sheet(file, release, by_level[file.level], rows, texts) for file in own]
        title = f"{release.spec.about.title or release.spec.name}: {own[0].heading}"
        write_workbook(folder / f"{workbook}.xlsx", title, sheets, _lists(title, own[0], release, texts))


def _sheet(file: DataFile, release: PublishedRelease, n_areas: int, rows: Rows, texts: Texts) -> Sheet:
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

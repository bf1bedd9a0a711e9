"""The tables of a release as workbooks: one for each table, with a sheet for each level, flags, words and notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.export.chosen import by_table
from pipeline.export.rows import Rows
from pipeline.export.words import ABOUT_COLUMNS, LABEL_COLUMNS, label_rows
from pipeline.export.workbook import Sheet, TextSheet, check_fits, require_openpyxl, write_workbook
from pipeline.metadata.contents import SUFFIX_WORDS, DataFile
from pipeline.published import PublishedRelease
from pipeline.release.joined.means import read_means
from pipeline.release.joined.sizes import read_household_sizes
from pipeline.release.tables import INTERVAL_SUFFIXES, ReleasedTable, read_table
from pipeline.report.reliability import CLASSES, classes_in

#: Suffix of the columns with the class of a number: what it can be used for.
USE_SUFFIX = ":use"


def write_workbooks(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write `TABLE.xlsx` for each table, and household_sizes/ and household_tables/ likewise.

    Raises:
        InputError: openpyxl is not installed, or a sheet would have more rows or columns than a spreadsheet opens.
    """
    require_openpyxl()
    rows = Rows(release)
    by_level = {level.name: len(level) for level in release.spine.levels}
    for file in files:  # before anything is written
        columns = rows.described(file).columns
        flags = sum(column.name.endswith(INTERVAL_SUFFIXES[0]) for column in columns if file.kind == "table")
        check_fits(file.table, file.level, by_level[file.level], len(columns) + flags)
    for workbook, own in by_table(files).items():
        sheets = [_sheet(file, by_level[file.level], rows) for file in own]
        title = f"{release.spec.about.title or release.spec.name}: {own[0].title.rpartition(', by ')[0]}"
        lists = [
            TextSheet("labels", LABEL_COLUMNS, label_rows(release)),
            TextSheet("about", ABOUT_COLUMNS, [*_about(title, own[0]), *release.spec.about.rows()]),
        ]
        write_workbook(folder / f"{workbook}.xlsx", title, sheets, lists)


def _sheet(file: DataFile, n_areas: int, rows: Rows) -> Sheet:
    titles = {column.name: column.title for column in file.columns}
    if file.kind == "household sizes":
        sizes = read_household_sizes(file.source, n_areas)
        geocodes, columns = sizes.geocodes, sizes.columns()
    elif file.kind == "amounts":
        means = read_means(file.source, n_areas)
        geocodes, columns = means.geocodes, means.columns()
    else:
        table = read_table(file.source, n_areas)
        geocodes, columns = table.geocodes, _with_flags(table)
    headed = tuple((_head(name, titles), values) for name, values in columns)
    return Sheet(file.level, geocodes, rows.names(file.level), headed)


def _with_flags(table: ReleasedTable) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """The columns of a table, with the class of each number after its interval."""
    keys = np.array([one.key for one in CLASSES])
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


def _about(title: str, file: DataFile) -> list[tuple[str, str]]:
    """What stands above the publisher's own words: the table's title, and what its columns are."""
    rows = [("table", title), *([("note", file.note)] if file.note else [])]
    if any(column.name.endswith(INTERVAL_SUFFIXES) for column in file.columns):
        rows += [(f"columns {suffix}", words) for suffix, words in SUFFIX_WORDS.items()]
        if file.kind == "table":
            rows += [(f"columns {USE_SUFFIX}: {one.key}", f"{one.label}: {one.rule}. {one.advice}") for one in CLASSES]
    return rows

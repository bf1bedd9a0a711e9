"""The page of a revision: of a chosen area a line over the periods with its band, and whether numbers rose or fell.

It is a page of the revision and not of a release, whose report has to follow from its own files alone. Areas and the
search are those of the report (`pipeline.pages`): figures.js reads a column for each answer and period, its number and
interval, and one for each pair of periods, whose number is 0 and whose interval is about the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from features.years.numbers import Numbers, answers_of, pairs_of
from features.years.revised import Revision
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import texts_in
from pipeline.pages.areas import areas_of_level, rows_of_table
from pipeline.pages.chunks import Chunks
from pipeline.pages.templates import asset, render, script_json
from pipeline.pages.words import Words
from pipeline.published import PublishedRelease, open_finished
from pipeline.storage.files import write_bytes
from postprocess.arrays import FloatArray, IntArray

__all__ = ["PAGE", "write_page"]

#: Name of the page in the folder of a revision.
PAGE: Final = "report.html"
#: Its scripts in their order: those that pages share, and its own.
_SCRIPTS: Final = ("texts.js", "decode.js", "figures.js", "search.js", "history.js")


def write_page(revision: Revision, folder: Path, staging: Path) -> None:
    """Write the page to a folder, and beside it what of its data is too large for it."""
    release = open_finished(revision.releases[-1].run.root, check_hashes=False)
    texts = texts_in(release.spec.report.language)

    def write(number: int, text: str) -> None:
        (folder / "report").mkdir(exist_ok=True)
        write_bytes(folder / "report" / f"{number}.js", text.encode(), staging)

    chunks = Chunks(write)
    content = _content(revision, release, chunks)
    about = release.spec.about
    section = revision.releases[-1].section
    page = render(
        "features.years",
        "history.html.j2",
        _SCRIPTS,
        texts,
        own_style=asset("history.css", "features.years"),
        loads=chunks.beside > 0,
        title=about.title or section.name,
        status=release.manifest.status,
        series=section.name,
        first=revision.periods[0],
        last=revision.periods[-1],
        horizon=section.last,
        publisher=about.publisher,
        modelled=any(one is not None for one in revision.changes),
        named=bool(release.names),
        content=script_json(content),
        chunks=chunks.in_page,
    )
    write_bytes(folder / PAGE, page.encode(), staging)


def _content(revision: Revision, release: PublishedRelease, chunks: Chunks) -> dict[str, object]:
    """What the scripts read: levels, tables, periods, and which chunk holds what."""
    words = Words(release.spec.labels(""))
    language = release.spec.report.language or ""
    tables = [
        {
            "title": words.table(table.name),
            "shown": words.answers(table.query),
            "labels": [""] * (table.query.size * (len(revision.periods) + len(pairs_of(len(revision.periods))))),
            "levels": {},
        }
        for table in revision.universe.tables
    ]
    levels = []
    for number, level in enumerate(revision.spine.levels):
        names = release.names[level.name].in_language(language) if level.name in release.names else None
        levels.append(areas_of_level(chunks, revision.spine, number, words.level(level.name), names))
        for entry, table in zip(tables, revision.universe.tables, strict=True):
            if level.name in table.levels:
                rows = _rows(revision, table.query, level.name)
                of_level = rows_of_table(chunks, [rows], len(level), rows.shape[1] // 3) | {"ends": True}
                entry["levels"] |= {level.name: of_level}  # type: ignore[operator]
    pairs = pairs_of(len(revision.periods))
    return {
        "levels": levels,
        "tables": tables,
        "periods": list(revision.periods),
        "pairs": [list(pair) for pair in pairs],
    }


def _rows(revision: Revision, query: Query, level: str) -> IntArray:
    """`(n, 3 columns)`: numbers, how far intervals reach below them + 2, and above; 0 for a change's own number."""
    columns = [column for _, cells in answers_of(query) for column in _columns(revision, level, cells)]
    return np.stack([part for parts in zip(*columns, strict=True) for part in parts], axis=1)


def _columns(revision: Revision, level: str, cells: FloatArray) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Of one answer: the periods, then the changes of `pairs_of`."""
    for period in range(len(revision.periods)):
        numbers = revision.in_period(level, cells, period)
        yield numbers.values, *_ends(numbers)
    for pair in pairs_of(len(revision.periods)):
        numbers = revision.change(level, cells, pair)
        yield np.zeros_like(numbers.values), *_ends(numbers)


def _ends(numbers: Numbers) -> tuple[IntArray, IntArray]:
    return numbers.values - numbers.low + 2, numbers.high - numbers.values

"""Sums and means of an amount: their files, the step that writes them, and how the page shows them.

Columns: geocode, then for each answer, under its label with a suffix, the sum (":sum", float64, in the amount's own
units of money or whatever it is in) and, where the release publishes the number of records, that number (":count",
int64) and the mean (":mean", float64). Where margins of error are published, sum and mean have the three columns of a
table's intervals right after them. Null where there is no record, so no mean, or an interval is unknown.

The sum is a whole number of units; the companion's own table has it exactly. The mean is the sum by the released number
of records, and lies within the clip. Its interval is MOVER's of both intervals, as that of an average household size
(`averages`): their noise is independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from features.amounts.link import SumsOfCounts
from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.contents import Column, Contents, DataFile, ProductFile, axes_of
from pipeline.metadata.products import Description, Product, ReleaseScope, files_of
from pipeline.model.link import links_of_kind
from pipeline.model.schema import AmountAttribute
from pipeline.model.texts.message import marked
from pipeline.model.universe import Table, Universe
from pipeline.pages.templates import ReleaseFacts
from pipeline.release.form import REAL, TEXT, WHOLE, Form, open_form
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.tables import INTERVAL_SUFFIXES, ReleasedTable, interval_columns, read_table
from pipeline.storage.files import texts
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray, IntArray
from postprocess.statistics import Averages, Counted, average_sizes

#: What the header states beside the kind.
_STATED: Final = ("companion", "table", "level", "labels", "counted", "margins")
#: Suffixes of the columns of an answer.
SUM, COUNT, MEAN = ":sum", ":count", ":mean"


def path_of(run: RunDirectory, companion: str, table: str, level: str) -> Path:
    """Where sums and means are of a companion's table at a level."""
    folder = run.public / "amounts" / file_name("companion", companion) / file_name("table", table)
    return folder / f"{file_name('level', level)}.parquet"


@dataclass(frozen=True, eq=False)
class Means:
    """Sums and means of the geounits of a level.

    Attributes:
        companion, table, level: what they are of.
        geocodes: `(n,)` of str.
        labels: of the answers, `size` of them.
        sums: `(n, size)`, with intervals.
        counts: `(n, size)` int64 records; None where the release does not publish them.
        means: `(n, size)`, with intervals; None without counts.
    """

    companion: str
    table: str
    level: str
    geocodes: NDArray[np.str_]
    labels: tuple[str, ...]
    sums: Averages
    counts: IntArray | None
    means: Averages | None

    def columns(self) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """The columns after the geocode, with their names; NaN for what is null in the file."""
        for number, label in enumerate(self.labels):
            of_answer = itemgetter((slice(None), number))
            yield from interval_columns(label + SUM, self.sums.each(of_answer))
            if self.counts is not None and self.means is not None:
                yield label + COUNT, self.counts[:, number]
                yield from interval_columns(label + MEAN, self.means.each(of_answer))


def means_of(companion: str, amount: AmountAttribute, sums: ReleasedTable, counts: ReleasedTable | None) -> Means:
    """From the published tables of sums, in units, and of counts with the same answers; None where there is none."""

    def scaled(of: FloatArray) -> FloatArray:
        """Units in what the amount is in: multiplied, then divided, which is exact where the product is a float's."""
        return of.reshape(sums.counts.shape) * amount.unit.numerator / amount.unit.denominator

    means = None
    if counts is not None:
        means = average_sizes(_flat(sums), _flat(counts), amount.first, amount.last).each(scaled)
    return Means(
        companion=companion,
        table=sums.name,
        level=sums.level,
        geocodes=sums.geocodes,
        labels=sums.labels,
        sums=Averages(sums.counts.astype(np.float64), sums.lows, sums.highs).each(scaled),
        counts=None if counts is None else counts.counts,
        means=means,
    )


def _flat(table: ReleasedTable) -> Counted:
    """All numbers of a table one after the other."""
    ends = (None if end is None else end.ravel() for end in (table.lows, table.highs))
    return Counted.of_whole(table.counts.ravel(), *ends)


def _form(stated: Mapping[str, Any]) -> Form:
    header = {"kind": "amounts", **{key: stated.get(key) for key in _STATED}}
    ends = ("", *INTERVAL_SUFFIXES) if header["margins"] else ("",)
    columns = {"geocode": TEXT}
    for label in map(str, header["labels"] or ()):
        columns |= {label + SUM + end: REAL for end in ends}
        if header["counted"]:
            columns |= {label + COUNT: WHOLE, **{label + MEAN + end: REAL for end in ends}}
    reals = [name for name, kind in columns.items() if kind == REAL]
    return Form("a file of sums and means of an amount", header, columns, reals)


def write_means(target: Path, staging: Path, means: Means) -> None:
    """Write the file of a level; ReleaseError where it cannot be written."""
    counted, with_margins = means.counts is not None, means.sums.lows is not None
    stated = means.companion, means.table, means.level, list(means.labels), counted, with_margins
    with _form(dict(zip(_STATED, stated, strict=True))).writer(target, staging) as out:
        out.add(means.geocodes, *(values for _, values in means.columns()))


def read_means(path: Readable, rows: int | None = None) -> Means:
    """What `write_means` wrote, of at most `rows` geounits.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    with open_form(path, lambda file: _form(file.header), rows) as file:
        header, table = file.header, file.whole()
    labels, counted, with_margins = tuple(map(str, header["labels"])), header["counted"], header["margins"]

    def read(suffix: str) -> NDArray[np.generic]:
        return np.stack([np.array(table.column(label + suffix).to_numpy()) for label in labels], axis=1)

    def numbers(suffix: str) -> Averages:
        _, low, high = INTERVAL_SUFFIXES
        ends = (read(suffix + low).astype(np.float64), read(suffix + high).astype(np.float64)) if with_margins else None
        return Averages(read(suffix).astype(np.float64), *(ends or (None, None)))

    return Means(
        companion=str(header["companion"]),
        table=str(header["table"]),
        level=str(header["level"]),
        geocodes=texts(table.column("geocode")),
        labels=labels,
        sums=numbers(SUM),
        counts=read(COUNT).astype(np.int64) if counted else None,
        means=numbers(MEAN) if counted else None,
    )


def _files(of: ReleaseScope) -> Iterator[ProductFile]:
    for link in links_of_kind(of.spec.links(of.universes), SumsOfCounts):
        for table in link.sums.tables:
            for level in table.levels:
                yield ProductFile(path_of(of.run, link.of, table.name, level), link.of, level, table)


def _described(contents: Contents, file: ProductFile) -> DataFile:
    """Sums and means of the companion of an amount, for one of its tables at a level."""
    universe, table, level, texts = contents.universe(file), file.subject, file.level, contents.texts
    labels = contents.spec.labels(universe.name)
    links = [link for link in links_of_kind(contents.links, SumsOfCounts) if link.of == universe.name]
    counted = any(link.records(table, level) is not None for link in links)
    columns: list[Column] = []
    for name, title in zip(table.query.answer_labels(), labels.answers(table.query), strict=True):
        columns += contents.with_interval(name + SUM, "number", texts("{title}: sum", title=title))
        if counted:
            columns.append(Column(name + COUNT, "integer", texts("{title}: records", title=title)))
            mean = texts("{title}: mean", title=title)
            columns += contents.with_interval(name + MEAN, "number", mean, filled=False)
    return DataFile(
        f"amounts/{universe.name}/{table.name}/{level}",
        "numbers",
        file.path,
        *(universe.name, table.name, level),
        *contents.titles(texts("{what}: sums and means", what=contents.counted(universe, table)), level),
        (contents.geocode(level), *columns),
        axes=axes_of(table.query, labels, universe.name),
    )


AMOUNTS: Final = Product(
    "amounts/NAME/TABLE/LEVEL.parquet",
    "geocode, of each answer sum, records and mean with intervals (companions of an amount)",
    "computed",
    _files,
    Description((4, 0), _described, of_areas="tables"),
    after="tables/TABLE/LEVEL.parquet",
    in_report=("amounts/COMPANION/TABLE/LEVEL.parquet", marked("sums and means of amounts with their intervals")),
)


def mean_steps(job: Job, link: SumsOfCounts, number: int) -> list[Step]:
    """Sums and means of a level."""
    level = job.spine.levels[number]
    if not (files := files_of(job, AMOUNTS, universe=link.of, level=level.name)):
        return []
    return [Step("means", partial(publish_means, job, link, number), link.of, level.name, len(level), 0.2, files=files)]


def publish_means(job: Job, link: SumsOfCounts, level: int) -> None:
    """Write sums and means of a level; the tables of the companion and of the release itself are written.

    Raises:
        ReleaseError: a table is missing or damaged, or the file cannot be written.
    """
    geounits = job.spine.levels[level]
    for table in link.sums.tables:
        if geounits.name in table.levels:
            _publish_means(job, link, table, geounits.name, len(geounits))
    job.progress.advance(len(geounits))


def _publish_means(job: Job, link: SumsOfCounts, table: Table, level: str, rows: int) -> None:
    counted = link.records(table, level)
    sums = read_table(job.readable(job.folder(link.sums).table(table.name, level)), rows)
    counts = None
    if counted is not None:
        counts = read_table(job.readable(job.folder(link.counts).table(counted.name, level)), rows)
    means = means_of(link.of, link.amount, sums, counts)
    write_means(path_of(job.run, link.of, table.name, level), job.run.staging, means)


#: Areas of one level that are listed one by one.
_MOST_LISTED = 60
#: Answers of the table that is shown, at most.
_MOST_ANSWERS = 6


def amounts_view(sources: ReleaseFacts) -> dict[str, Any] | None:
    """What the section shows of all companions of an amount; None of a release without. Errors as `read_means`."""
    found = [_view(sources, link) for link in links_of_kind(sources.links, SumsOfCounts)]
    return {"amounts": found, "margins": sources.spec.publish.margins} if found else None


def _view(sources: ReleaseFacts, link: SumsOfCounts) -> dict[str, Any]:
    """Of one companion: its clip in exact texts, and levels with few areas, of the table with the fewest answers."""
    universe, amount = link.sums, link.amount
    few = [table for table in universe.tables if table.query.size <= _MOST_ANSWERS]
    table = min(few, key=lambda one: one.query.size, default=None)
    return {
        "name": universe.name,
        "column": amount.name,
        **{name: str(getattr(amount, name)) for name in ("low", "high", "unit")},
        "signed": link.signed,
        "chosen": universe.measure.chosen,
        "levels": [] if table is None else list(_levels(sources, universe, table)),
    }


def _levels(sources: ReleaseFacts, universe: Universe, table: Table) -> Iterator[dict[str, Any]]:
    for level in sources.spine.levels:
        if level.name in table.levels and len(level) <= _MOST_LISTED:
            path = path_of(sources.run, universe.name, table.name, level.name)
            yield {"level": level.name, "rows": list(_rows(read_means(sources.readable(path), len(level))))}


def _rows(means: Means) -> Iterator[dict[str, Any]]:
    """Of each area and answer the sum, the records that it is of, and the mean."""
    for row, code in enumerate(means.geocodes.tolist()):
        for number, label in enumerate(means.labels):
            yield {
                "geocode": code,
                "label": label,
                "sum": _known(means.sums, row, number),
                "count": None if means.counts is None else int(means.counts[row, number]),
                "mean": None if means.means is None else _known(means.means, row, number),
            }


def _known(of: Averages, row: int, number: int) -> dict[str, float | None]:
    """A number with its interval; None where it, or the interval, is not known."""
    columns = {"value": of.values, "low": of.lows, "high": of.highs}
    return {
        name: None if column is None or np.isnan(column[row, number]) else float(column[row, number])
        for name, column in columns.items()
    }

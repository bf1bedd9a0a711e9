"""The files of cumulative numbers, `cumulative/TABLE/LEVEL.parquet`, the step that writes them, and their page.

They have the form of the table that is cumulated (`pipeline.release.tables`), with "up to VALUE" in place of a value.
Counts are sums of the table's own. The interval of each is not made of those of its parts, whose errors are correlated,
but is that of its own query, simulated and calibrated with the tables; of the first value it is the table's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from features.cumulative.cumulated import Cumulated, cumulated_in
from pipeline.estimation.constraints import IntervalRule
from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.contents import Column, Contents, DataFile, ProductFile, axes_of
from pipeline.metadata.products import Description, Product, ReleaseScope, files_of
from pipeline.model.texts.message import marked
from pipeline.model.universe import Table, Universe
from pipeline.pages.templates import ReleaseFacts
from pipeline.publishing.tables import MarginSource
from pipeline.release.tables import ReleasedTable, long_terms, read_table, read_table_parts, write_table
from postprocess.arrays import IntArray


def _files(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for table in universe.tables:
            if (fact := cumulated_in(table)) is not None:
                for level in table.levels:
                    yield ProductFile(
                        fact.file(of.run.universe(universe.name), table, level), universe.name, level, table
                    )


def _described(contents: Contents, file: ProductFile) -> DataFile:
    """The cumulative numbers of a table at a level: a table of which the values are called otherwise."""
    table: Table = file.subject
    fact = cumulated_in(table)
    assert fact is not None
    universe, texts = contents.universe(file), contents.texts
    labels = contents.spec.labels(universe.name)
    query = fact.query(table)
    axes = tuple(
        replace(axis, labels=fact.titles(table, labels, texts)) if axis.term == fact.term else axis
        for axis in axes_of(query, labels, universe.name)
    )
    heading = texts("{table}: cumulative", table=contents.counted(universe, table))
    _, title = contents.titles(heading, file.level)

    def named(found: DataFile) -> DataFile:
        folder = found.path.removesuffix(f"{table.name}/{file.level}")
        path = f"{folder}cumulative/{table.name}/{file.level}"
        return replace(found, path=path, heading=heading, title=title, axes=axes)

    def wide() -> tuple[Column, ...]:
        answers = zip(query.answer_labels(), product(*(axis.labels for axis in axes)), strict=True)
        columns = [one for name, words in answers for one in contents.with_interval(name, "integer", " * ".join(words))]
        return (contents.geocode(file.level), *columns)

    found = named(contents.table(replace(file, subject=replace(table, query=query))))
    if (of_wide := found.wide) is None:
        return replace(found, columns=wide())
    return replace(found, wide=lambda: replace(named(of_wide()), columns=wide()))


CUMULATIVE: Final = Product(
    "cumulative/TABLE/LEVEL.parquet",
    'the same as a table, with "up to VALUE" for each value or one before it (tables.NAME.cumulative)',
    "computed",
    _files,
    Description((1, 1), _described, of_areas="tables"),
    after="tables/TABLE/LEVEL.parquet",
    in_report=("cumulative/TABLE/LEVEL.parquet", marked("cumulative numbers of tables with their intervals")),
)


def cumulative_steps(job: Job, universe: Universe, number: int, margins: MarginSource) -> list[Step]:
    """The step that writes those of all tables of a universe at a level; none where there are none."""
    level = job.spine.levels[number]
    if not (files := files_of(job, CUMULATIVE, universe=universe.name, level=level.name)):
        return []
    publish = partial(publish_cumulative, job, universe, number, margins)
    return [Step("cumulative", publish, universe.name, level.name, len(level), 0.2, files=files)]


def publish_cumulative(job: Job, universe: Universe, number: int, margins: MarginSource) -> None:
    """Write the cumulative numbers of a level, whose tables are written.

    Raises:
        ReleaseError: a table is missing or damaged, or a file cannot be written.
    """
    level = job.spine.levels[number]
    for table in universe.tables:
        fact = cumulated_in(table)
        if fact is not None and level.name in table.levels:
            files = job.folder(universe)
            path = job.readable(files.table(table.name, level.name))
            published = read_table_parts(path, len(level), level.geocodes)
            rules = [margins.rule(cut, number) for cut in fact.tabulated(table)]
            target = fact.file(files, table, level.name)
            write_table(target, job.run.staging, _cumulated(published, table, fact, rules))
    job.progress.advance(len(level))


def _cumulated(
    parts: Iterator[ReleasedTable], table: Table, fact: Cumulated, rules: Sequence[IntervalRule | None]
) -> Iterator[ReleasedTable]:
    """The cumulative numbers, for the parts of the published table; `rules`: of all values but the first."""
    query, start = fact.query(table), 0
    for part in parts:
        rows = slice(start, start + len(part.geocodes))
        counts = np.cumsum(fact.split(table, part.counts), axis=2, dtype=np.int64)
        lows, highs = part.lows, part.highs
        if lows is not None and highs is not None:
            lows, highs = lows.copy(order="C"), highs.copy(order="C")
            for value, rule in enumerate(rules, start=1):
                if rule is not None:
                    ends = fact.split(table, lows), fact.split(table, highs)
                    for end, own in zip(ends, rule(_answers(counts, value), rows), strict=True):
                        shape = (len(counts), counts.shape[1], -1, counts.shape[3])
                        end[:, :, value] = own.reshape(shape)[:, :, 0]
        yield replace(
            part,
            query=f"{query.name}, cumulative by {fact.term}",
            labels=query.answer_labels(),
            counts=counts.reshape(part.counts.shape),
            lows=lows,
            highs=highs,
            terms=long_terms(table.name, query),
        )
        start = rows.stop


def _answers(counts: IntArray, value: int) -> IntArray:
    """The answers of the cut at a value, from cumulative counts `(n, before, values, after)`."""
    own = counts[:, :, [value]]
    if value < counts.shape[2] - 1:
        own = np.concatenate([own, counts[:, :, [-1]] - own], axis=2)
    return own.reshape(len(counts), -1)


#: Areas of one level that are listed one by one.
_MOST_LISTED = 60
#: Numbers of an area that are listed.
_MOST_ANSWERS = 24


def cumulative_view(facts: ReleaseFacts) -> dict[str, Any] | None:
    """What the section shows; None where no table is cumulated. ReleaseError where a file is damaged."""
    tables = [
        _table(facts, universe, table, fact)
        for universe in facts.universes
        for table in universe.tables
        if (fact := cumulated_in(table)) is not None
    ]
    return {"tables": tables, "margins": facts.spec.publish.margins} if tables else None


def _table(facts: ReleaseFacts, universe: Universe, table: Table, fact: Cumulated) -> dict[str, Any]:
    """Of one table; its levels are those with few areas, and none where an area has many numbers."""
    labels, words = facts.spec.labels(universe.name), facts.words(universe.name)
    titles = fact.titles(table, labels, facts.texts)
    values = [
        titles if term == fact.term else [labels.value(term, one) for one in stated]
        for term, stated in zip(table.query.terms, filter(None, table.query.labels), strict=True)
    ]
    return {
        "title": words.table(table.name),
        "attribute": labels.attribute(fact.term),
        "headings": [" * ".join(one) for one in product(*values)],
        "levels": list(_levels(facts, universe, table, fact)) if table.query.size <= _MOST_ANSWERS else [],
        "folder": facts.run.name_of(fact.file(facts.run.universe(universe.name), table, "LEVEL")),
    }


def _levels(facts: ReleaseFacts, universe: Universe, table: Table, fact: Cumulated) -> Iterator[dict[str, Any]]:
    """The name of each area of a level, and its numbers."""
    files, language = facts.run.universe(universe.name), facts.spec.report.language or ""
    for level in facts.spine.levels:
        if level.name in table.levels and len(level) <= _MOST_LISTED:
            found = read_table(facts.readable(fact.file(files, table, level.name)), geocodes=level.geocodes)
            named = facts.names.get(level.name)
            names = level.geocodes.tolist() if named is None else named.in_language(language)
            yield {"level": level.name, "areas": list(zip(names, _rows(found), strict=True))}


def _rows(found: ReleasedTable) -> Iterator[list[dict[str, Any]]]:
    """Each area's numbers with their intervals; None where that is not known, or not published."""
    ends = [np.full(found.counts.shape, np.nan) if end is None else end for end in (found.lows, found.highs)]
    for numbers in zip(found.counts.tolist(), *(end.tolist() for end in ends), strict=True):
        row = []
        for count, *interval in zip(*numbers, strict=True):
            low, high = (None if end != end else round(end) for end in interval)
            row.append({"count": count, "low": low, "high": high, "exact": low == high is not None})
        yield row

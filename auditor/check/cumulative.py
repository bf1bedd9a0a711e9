"""Published cumulative numbers: sums of the histogram's cells up to each value, and intervals that go with them.

An interval is of whole numbers around the number, as in a table. Of the first value it is that of the table; those of
several values follow from simulated runs, which `verify` repeats and this program does not.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from auditor.check.amounts import table_columns
from auditor.check.answers import check_table
from auditor.reading.cells import Query
from auditor.reading.counts import Counts
from auditor.reading.files import Files
from auditor.reading.findings import Findings
from auditor.reading.spine import Level


def cumulative_query(answers: Query, term: str) -> Query:
    """A query with the labels of cumulative numbers, of which each column is one."""
    number = answers.names.index(term)
    terms = list(answers.terms)
    terms[number] = tuple(f"up to {label}" for label in terms[number])
    return replace(answers, terms=tuple(terms), of_cell=np.arange(answers.size))


def cumulated(counts: Counts, answers: Query, term: str) -> Counts:
    """Cumulative numbers from the answers of a query: each counts in its own column and in those after it."""
    number = answers.names.index(term)
    n, after = len(answers.terms[number]), _after(answers, number)
    value = counts.columns // after % n
    times = n - value
    steps = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return Counts.summed(counts.width, np.repeat(counts.keys, times) + steps * after, np.repeat(counts.counts, times))


def check_cumulative(
    files: Files,
    paths: tuple[Path, Path],
    level: Level,
    stated: tuple[Query, str],
    cells: Counts | None,
    findings: Findings,
    *,
    margins: bool,
) -> None:
    """Compare a file of cumulative numbers with the histogram `cells`, and its intervals with those of its table.

    Args:
        files: reads them.
        paths: the file, and that of the table.
        level: of both.
        stated: the query of the table, and which of its terms is cumulated.
        cells: of the level; None where they cannot be read.
        findings: takes what is wrong.
        margins: whether there are intervals.

    Raises:
        FormError: a file is missing or damaged.
    """
    (path, own), (answers, term) = paths, stated
    query = cumulative_query(answers, term)
    required = None if cells is None else cumulated(cells.answers(answers), answers, term)
    check_table(files, path, level, query, required, findings, margins=margins)
    if not margins:
        return
    number = answers.names.index(term)
    values = np.arange(answers.size) // _after(answers, number) % len(answers.terms[number])
    found, table = (table_columns(files, of, one, level, margins) for of, one in ((path, query), (own, answers)))
    check = findings.check(files.name(path), "intervals of the first value that are not the table's")
    for column in np.flatnonzero(values == 0).tolist():
        label, other = query.labels[column], answers.labels[column]
        pairs = [(found[label + end], table[other + end]) for end in (":low90", ":high90")]
        wrong = np.logical_or.reduce([~np.isclose(one, two, rtol=0, atol=0, equal_nan=True) for one, two in pairs])
        known = f"the interval of {other!r} in {files.name(own)}"

        def sentence(row: int, label: str = label, known: str = known) -> str:
            return f"{level.label(row)}, {label!r}: its interval is not {known}"

        check.add(wrong, sentence)


def _after(answers: Query, number: int) -> int:
    """How many answers the terms after one make."""
    return math.prod(len(labels) for labels in answers.terms[number + 1 :])

"""Tables with more than 2,048 answers: a row for each answer, and one for all zeros of a geounit that are alike.

As docs/release_directory.md states it: a row with a label of each term of the query is of one answer, and its `answers`
is 1; a row without labels stands for as many zeros as its `answers` says, those that have no row. Together the rows of
a geounit are of all answers of the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.reading.cells import Query
from auditor.reading.counts import LevelFile
from auditor.reading.errors import FormError
from auditor.reading.files import Files, numbers_of, whole_numbers
from auditor.reading.findings import Findings
from auditor.reading.spine import Level

#: Answers beyond which a table has this form.
MOST_WIDE = 2048
#: The columns beside geocode and terms.
ANSWERS, COUNT, ENDS = "answers", "count", ("moe90", "low90", "high90")
#: Number of the answer in a row of zeros.
ZEROS = -1


def is_long(files: Files, path: Path, answers: Query) -> bool:
    """Whether the file has this form; earlier versions wrote all tables with a column for each answer."""
    return answers.size > MOST_WIDE and ANSWERS in files.columns(path)


@dataclass(frozen=True, eq=False)
class LongTable:
    """The rows of a table in this form whose geounit and answer are known.

    Attributes:
        file: it is in, for sentences.
        rows: `answers`, `count` and ends as they are in the file.
        geounits: `(n_rows,)`.
        answers: `(n_rows,)` the number of each row's answer, or `ZEROS`.
        numbers: `(n_rows,)` of the row in the file, from 1.
    """

    file: LevelFile
    rows: pa.Table
    geounits: NDArray[np.int64]
    answers: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def column(self, name: str, answer: int) -> NDArray[np.float64]:
        """The numbers of an answer, `(n_geounits,)`; NaN where there are none.

        Raises:
            FormError: the column does not hold numbers.
        """
        column = self.rows.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise FormError(f"{self.file.name}: column {name!r} holds {column.type}; numbers are required")
        values = column.to_numpy().astype(np.float64)
        out = np.full(len(self.file.level.codes), np.nan)
        for own in (self.answers == ZEROS, self.answers == answer):
            out[self.geounits[own]] = values[own]
        return out


def read_long(
    files: Files, path: Path, level: Level, answers: Query, findings: Findings, *, margins: bool
) -> LongTable:
    """The table; reports rows of no answer, and geounits whose rows are not of all answers, each once.

    Raises:
        FormError: see `Files.read`.
    """
    n, size = len(level.codes), answers.size
    file = LevelFile(files, path, level, findings, once=False, most=n * size)
    valued = findings.check(file.name, "rows of no answer of the query")
    rows, geounits, numbers, places = [], [], [], []
    kept = [ANSWERS, COUNT, *(ENDS if margins else ())]
    for part, of_row in file.parts([*answers.names, *kept]):
        answer, first = _answers(part, answers, file.name), file.first_row

        def sentence(row: int, first: int = first) -> str:
            return f"row {first + row:,} has no known label of some term, and of others it has one"

        valued.add(answer < ZEROS, sentence)
        known = (of_row >= 0) & (answer >= ZEROS)
        rows.append(part.select(kept).filter(pa.array(known)))
        geounits.append(of_row[known])
        numbers.append(answer[known])
        places.append(first + np.flatnonzero(known))
    found = LongTable(file, pa.concat_tables(rows), *map(np.concatenate, (geounits, numbers, places)))
    _check_complete(found, size, findings)
    return found


def _answers(part: pa.Table, answers: Query, name: str) -> NDArray[np.int64]:
    """The number of each row's answer; `ZEROS` where no term has a label, and less where a label is not known."""
    numbers, without = np.zeros(part.num_rows, dtype=np.int64), np.zeros(part.num_rows, dtype=np.int64)
    unknown = np.zeros(part.num_rows, dtype=np.bool_)
    for term, labels in zip(answers.names, answers.terms, strict=True):
        codes = numbers_of(part, term, pa.array(labels, pa.string()), name)
        null = part.column(term).is_null().to_numpy()
        unknown |= (codes < 0) & ~null
        without += null
        numbers = numbers * len(labels) + np.maximum(codes, 0)
    of_zeros = without == len(answers.terms)
    return np.where(unknown | ((without > 0) & ~of_zeros), ZEROS - 1, np.where(of_zeros, ZEROS, numbers))


def _check_complete(table: LongTable, size: int, findings: Findings) -> None:
    """Report geounits whose rows are not of all answers of the query."""
    level, n = table.file.level, len(table.file.level.codes)
    stands, whole = whole_numbers(table.rows.column(ANSWERS), ANSWERS, table.file.name)
    zeros = table.answers == ZEROS
    wrong = ~whole | np.where(zeros, stands < 1, stands != 1)
    distinct, times = np.unique(table.geounits * (size + 1) + table.answers + 1, return_counts=True)
    odd = np.zeros(n, dtype=np.bool_)
    odd[table.geounits[wrong]] = True
    odd[distinct[times > 1] // (size + 1)] = True
    together = np.zeros(n, dtype=np.int64)
    np.add.at(together, table.geounits, np.where(wrong, 0, np.minimum(stands, size)))
    findings.check(table.file.name, "geounits whose rows are not of all answers").add(
        odd | (together != size),
        lambda unit: (
            f"{level.label(unit)}: its rows say that they are of {together[unit]:,} answers; the query has {size:,}, "
            "and each is in one row"
        ),
    )

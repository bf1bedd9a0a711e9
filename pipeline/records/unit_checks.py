"""Whether one person, household or unit may have more records than the spec says, by the columns of the records.

A column that looks like a person's number shows that some persons have several records. Units are told apart by their
exact texts: one that is written in two ways, which differ in blanks, capital letters or the form of a number, counts as
two. Either is protected less than the privacy statement says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.model.memory_table import Source
from pipeline.model.record_source import RecordSource
from pipeline.model.text_format import PLAIN, TextFormat
from pipeline.records.columns import Distinct
from pipeline.records.record_files import open_records
from postprocess.arrays import IntArray

_CHUNK_ROWS = 500_000
_NUMBER = re.compile(r"\+?0*([0-9]+?)(\.0*)?")


def find_similar_units(records: RecordSource) -> str:
    """What it means for privacy that units are alike; "" where none are, or there are none. It names no unit.

    Raises:
        RecordsError: the file cannot be read.
    """
    if records.unit is None:
        return ""
    rows: dict[str, int] = {}
    for chunk in open_records(records.file, (records.unit,), _CHUNK_ROWS, text=records.text_format).chunks():
        distinct = Distinct.of(chunk.column(records.unit))
        for number in distinct.index.tolist():
            if number < len(distinct.texts) and (text := distinct.texts[number]):
                rows[text] = rows.get(text, 0) + 1
    texts: dict[str, list[str]] = {}
    for text in rows:
        texts.setdefault(_simplified(text), []).append(text)
    similar = [text for several in texts.values() if len(several) > 1 for text in several]
    if not similar:
        return ""
    return (
        f"column {records.unit!r}: {len(similar):,} units, in {sum(rows[text] for text in similar):,} rows, differ "
        "from another in blanks, capital letters or the form of a number only; units are told apart by their exact "
        "texts, and one that is written in two ways is protected less than the privacy statement says: write each in "
        "one way"
    )


def _simplified(text: str) -> str:
    plain = unicodedata.normalize("NFKC", "".join(text.split()).replace("\0", "")).casefold()
    number = _NUMBER.fullmatch(plain)
    return plain if number is None else number[1]


#: Distinct values that are remembered of a column; beyond that only each second of them, each fourth, ...
_REMEMBERED = 200_000
#: Distinct values for each row, at least: of any column, and of one whose name identifies it.
_NEARLY_ONE, _NEARLY_ONE_NAMED = 0.8, 0.3
_FEWEST_ROWS = 20
_NAMES = re.compile(
    r"(^|_)(person|persons?_?(id|no|nr|number|key)|pid|pnr|personnummer|personnr|ssn|nino|nhs|cpr|bsn|ahv|nin|nir|dni|"
    r"cpf|curp|pesel|citizen_?id|individual_?id|indiv_?id|person_?id|respondent_?id|record_?id)($|_)",
    re.IGNORECASE,
)


class _Sample:
    """Some of the distinct values of a column, by their hashes, each with all of its rows."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.n_rows = 0
        self.mask = 0
        self.whole = True

    def add(self, hashes: NDArray[np.uint64], counts: IntArray) -> None:
        self.n_rows += int(counts.sum())
        sampled = (hashes & np.uint64(self.mask)) == 0
        for value, count in zip(hashes[sampled].tolist(), counts[sampled].tolist(), strict=True):
            self.rows[value] = self.rows.get(value, 0) + count
        while len(self.rows) > _REMEMBERED:
            self.mask = 2 * self.mask + 1
            self.rows = {value: count for value, count in self.rows.items() if not value & self.mask}


def find_person_numbers(path: Source, columns: Sequence[str], *, text: TextFormat = PLAIN) -> list[str]:
    """What it means for privacy that columns look like it: nearly as many values as rows, some of them in several.

    Memory is bounded: of a column with many values a part of them is remembered, each with all of its rows. Numbers
    with decimals are measured, not given, and are not a person's number.

    Raises:
        RecordsError: the file cannot be read.
    """
    if not columns:
        return []
    samples = {name: _Sample() for name in columns}
    for chunk in open_records(path, columns, _CHUNK_ROWS, text=text).chunks():
        for name, sample in samples.items():
            if sample.whole:
                _add(sample, chunk.column(name))
    found = []
    for name, sample in samples.items():
        share = len(sample.rows) / max(1, sum(sample.rows.values()))  # distinct values for each row
        least = _NEARLY_ONE_NAMED if _NAMES.search(name) else _NEARLY_ONE
        if sample.whole and sample.n_rows > _FEWEST_ROWS and least < share < 1:
            found.append(
                f"column {name!r} looks like a person's number, and some stand in several rows ({1 / share:.3g} rows "
                "for each on average): a person in several records is protected less than the privacy statement says; "
                "make it one record a person"
            )
    return found


def _add(sample: _Sample, column: pa.Array) -> None:
    distinct = Distinct.of(column)
    counts = np.bincount(distinct.index, minlength=len(distinct.texts) + 1)[: len(distinct.texts)]
    texts = np.array(distinct.texts, dtype=object)
    used = (counts > 0) & (texts != "")
    if any("." in value or "," in value for value in texts[used][:100].tolist()):
        sample.whole = False
        return
    sample.add(pd.util.hash_array(texts[used], categorize=False), counts[used])

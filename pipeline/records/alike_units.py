"""Units whose texts differ in blanks, capital letters or the form of a number: perhaps one unit that is written twice.

Units are told apart by their exact texts. One that is written in two ways counts as two, may be in twice as many
records, and is protected less than the privacy statement says.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from pipeline.model.record_source import RecordSource
from pipeline.records.columns import Distinct
from pipeline.records.record_files import open_records

_CHUNK_ROWS = 500_000
_NUMBER = re.compile(r"\+?0*([0-9]+?)(\.0*)?")


@dataclass(frozen=True)
class AlikeUnits:
    """How many units are alike; confidential.

    Attributes:
        column: of the units.
        n_units: texts that are like another one.
        n_rows: their rows.
    """

    column: str
    n_units: int
    n_rows: int

    @property
    def warning(self) -> str:
        """What it means for privacy, as a sentence; it names no unit."""
        return (
            f"column {self.column!r}: {self.n_units:,} units, in {self.n_rows:,} rows, differ from another in blanks, "
            "capital letters or the form of a number only; units are told apart by their exact texts, and one that is "
            "written in two ways is protected less than the privacy statement says: write each in one way"
        )


def find_alike_units(records: RecordSource) -> AlikeUnits | None:
    """The units that are alike, over all rows of the records; None where there are none, or no units.

    Raises:
        RecordsError: the file cannot be read.
    """
    if records.unit is None:
        return None
    rows: dict[str, int] = {}
    for chunk in open_records(records.file, (records.unit,), _CHUNK_ROWS, text=records.text_format).chunks():
        distinct = Distinct.of(chunk.column(records.unit))
        for number in distinct.index.tolist():
            if number < len(distinct.texts) and (text := distinct.texts[number]):
                rows[text] = rows.get(text, 0) + 1
    texts: dict[str, list[str]] = {}
    for text in rows:
        texts.setdefault(_simplified(text), []).append(text)
    alike = [text for several in texts.values() if len(several) > 1 for text in several]
    return AlikeUnits(records.unit, len(alike), sum(rows[text] for text in alike)) if alike else None


def _simplified(text: str) -> str:
    plain = unicodedata.normalize("NFKC", "".join(text.split()).replace("\0", "")).casefold()
    number = _NUMBER.fullmatch(plain)
    return plain if number is None else number[1]

"""What a cap on the records of a unit costs: noise, which grows with it, and records left out, which become fewer.

The noise of counts is made for all records that are counted of a unit, so that every error of the linear estimate is in
proportion to their number. How many records a cap leaves out is in the records alone: it is told from a distribution
that is public, or from an answer to "count units by records_per_unit", which was charged when it was asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from pipeline.errors import InputError
from pipeline.estimation.expectation import ExpectedRow
from pipeline.model.exact import parse_exact
from pipeline.model.universe import Universe
from pipeline.questions.manifest import MEASUREMENTS, read_answer, unchanged_answer_file
from pipeline.questions.resolved import RECORDS
from pipeline.questions.tables import read_measurements
from pipeline.release.layout import RunDirectory

#: Caps that are compared with that of the spec.
CAPS: Final = (1, 2, 3, 4, 6, 8, 12)
_CLASS = re.compile(r"\s*([1-9][0-9]{0,5})(\+?)\s*=\s*(\S+)\s*", re.ASCII)


@dataclass(frozen=True)
class RecordsPerUnit:
    """How many units have how many records; public, or a guess.

    Attributes:
        units: records -> units, shares of them or numbers, which may be noisy; the last may stand for so many and more.
        numbers: whether they are numbers of units, and no shares.
    """

    units: Mapping[int, Fraction]
    numbers: bool

    @classmethod
    def of(cls, stated: str) -> RecordsPerUnit:
        """From an answer's directory, or from "1 = 600, 2 = 250, 3+ = 150"; InputError where it is neither."""
        return cls._answered(Path(stated)) if stated.strip() and Path(stated).is_dir() else cls._read(stated)

    @classmethod
    def _answered(cls, root: Path) -> RecordsPerUnit:
        run = RunDirectory(root)
        manifest = read_answer(run)
        if manifest.question != f"count units by {RECORDS}":
            raise InputError(
                f"{root}: answers {manifest.question!r}; the answer to 'count units by {RECORDS}' is needed"
            )
        measured = read_measurements(unchanged_answer_file(run.public / MEASUREMENTS, manifest), manifest)
        noisy = dict(zip((key[-1] for key in measured.keys), measured.numbers["count"].tolist(), strict=True))
        return cls({int(label.rstrip("+")): Fraction(count) for label, count in noisy.items()}, True)

    @classmethod
    def _read(cls, text: str) -> RecordsPerUnit:
        units: dict[int, Fraction] = {}
        parts = text.split(",")
        for number, part in enumerate(parts):
            found = _CLASS.fullmatch(part)
            try:
                amount = Fraction(-1) if found is None else parse_exact(found[3])
            except ValueError:
                amount = Fraction(-1)
            if found is None or amount < 0 or int(found[1]) in units or (found[2] and number + 1 < len(parts)):
                raise InputError(
                    f"--records-per-unit: found {part.strip()!r}; allowed is the directory of an answer, or records "
                    'and units of each once, as in "1 = 600, 2 = 250, 3+ = 150", with + at the last alone'
                )
            units[int(found[1])] = amount
        if not sum(units.values()):
            raise InputError("--records-per-unit: found no units; some are needed")
        return cls(units, sum(units.values()) > 1)

    @property
    def records(self) -> Fraction:
        """Of all units; of a last class that stands for more, at least so many."""
        return max(sum((n * units for n, units in self.units.items()), Fraction(0)), Fraction(1, 10**9))

    def left_out(self, cap: int) -> Fraction:
        """Records that the cap leaves out; noisy numbers are added up as they are, so that their errors cancel."""
        return max(sum((max(n - cap, 0) * units for n, units in self.units.items()), Fraction(0)), Fraction(0))


@dataclass(frozen=True)
class CapRow:
    """What a cap costs.

    Attributes:
        at_most: records of a unit that are counted.
        errors: level -> expected absolute error of a number of the coarsest query, from noise, in records.
        left_out: share of all records that are not counted; None where nothing is known of them.
        missing: level -> records that are not counted in an area, on average; empty where that is not known.
    """

    at_most: int
    errors: Mapping[str, float]
    left_out: float | None
    missing: Mapping[str, float]

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def cap_rows(universe: Universe, expected: Sequence[ExpectedRow], known: RecordsPerUnit | None) -> tuple[CapRow, ...]:
    """What the caps cost, that of the spec among them; nothing where the records have no units.

    Args:
        universe: the release's own.
        expected: of its plan.
        known: how many records units have.

    Raises:
        InputError: that is given, and the records have no units.
    """
    if not universe.unit.left_out:
        if known is not None:
            raise InputError("--records-per-unit: the spec has no units: unit and at_most of [privacy]")
        return ()
    stated = universe.unit.records
    errors = _coarsest(universe, expected)
    areas = {row.level: row.geounits for row in expected}
    rows = []
    for cap in sorted({*CAPS, stated}):
        lost = None if known is None else known.left_out(cap)
        missing = {} if lost is None or known is None or not known.numbers else {
            level: float(lost / areas[level]) for level in errors
        }  # fmt: skip
        share = None if lost is None or known is None else float(lost / known.records)
        rows.append(CapRow(cap, {level: error * cap / stated for level, error in errors.items()}, share, missing))
    return tuple(rows)


def _coarsest(universe: Universe, expected: Sequence[ExpectedRow]) -> dict[str, float]:
    """Of each level the error of a number of the query with the fewest, where anything determines it."""
    found: dict[str, float] = {}
    for row in sorted(expected, key=lambda row: row.numbers):
        if row.per_number is not None:
            found.setdefault(row.level, row.per_number)
    return {level: found[level] for level in universe.level_names if level in found}


def levels_of(rows: Sequence[CapRow]) -> tuple[str, ...]:
    """The levels that the rows have errors of."""
    return tuple(rows[0].errors) if rows else ()

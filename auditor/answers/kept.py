"""An answer's directory as the auditor reads it: what is published, and what restricted/ keeps to draw it again."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from auditor.files import read_columns
from auditor.keys import keyed_hash
from auditor.reading.counts import Counts, counts_digest
from auditor.reading.findings import FormError, understood
from auditor.reading.regular import check_folder
from auditor.reading.spec import MOVED, read_json
from auditor.reading.spine import Level, read_spine, spine_fingerprint
from auditor.reading.values import BoolArray, IntArray, digest, sums, zeros

#: What an answer needs to be drawn again, in restricted/.
KEPT: Final = ("question.json", "areas.parquet", "counts.parquet", "run.json")
#: Of a unit's records, in restricted/.
UNITS: Final = "units.parquet"
#: In place of a level.
EVERYWHERE: Final = "everywhere"
#: By which units are counted that have so many records.
RECORDS: Final = "records_per_unit"
#: What is chosen by rank, and what of these has a fixed fraction.
RANKS: Final = {"median": Fraction(1, 2), "quantile": None, "max": Fraction(1), "min": Fraction(0), "clip": None}


@dataclass(frozen=True, eq=False)
class Axis:
    """An attribute that the question looks at: `(n_values,)` whether records count, and in which group."""

    name: str
    values: tuple[str, ...]
    keep: BoolArray
    group: IntArray
    term: str
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Units:
    """The records of units with several, `(n,)` each: unit, cell as it is, and cell as it is counted or -1."""

    unit: IntArray
    record: IntArray
    counted: IntArray


class Answer:
    """An answer with its restricted/.

    Raises:
        FormError: something is missing, or cannot be understood.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.public, self.restricted = root, root / "public", root / "restricted"
        for folder in (self.public, self.restricted):
            check_folder(folder)
        self.stated: dict[str, Any] = read_json(self.public / "answer.json")
        if missing := [name for name in KEPT if not (self.restricted / name).is_file()]:
            raise FormError(
                f"{root}: restricted/ has no {', '.join(missing)}: it was made by an earlier version, which kept "
                "nothing to draw an answer again from, or they were removed; ask the question again to have an answer "
                "that can be audited"
            )
        self.question: dict[str, Any] = read_json(self.restricted / "question.json")
        with understood(str(self.restricted / "question.json")):
            *form, self.text, self.statistic, self.place, axes, self.order, self.content = self.question["content"]
            if form != ["question", 2]:
                raise ValueError(f"is of the form {form}")
            self.axes = tuple(map(_axis, axes))
            self.context: list[str] = [str(one) for one in self.question["context"]]
            self.dataset, self.framework, budget, self.neighbours, together = self.context[:5]
            self.budget, self.together = Fraction(budget), int(together)
            self.moved = MOVED[self.neighbours]
            self.amount = None if self.question["amount"] is None else int(self.question["amount"])
            self.unit_name = self.question["reading"][6]
        if self.framework not in ("zcdp", "pure") or self.budget <= 0 or self.together < 1:
            raise FormError(f"{self.restricted / 'question.json'}: has no budget in a framework that is known")
        areas = self.restricted / "areas.parquet"
        try:
            names = tuple(pq.read_schema(areas.absolute()).names)
        except (OSError, ValueError) as error:
            raise FormError(f"{areas}: cannot be read ({error})") from None
        self.spine: tuple[Level, ...] = read_spine(areas, names)

    @property
    def zcdp(self) -> bool:
        """Whether budgets are rho, and noise is Gaussian."""
        return self.framework == "zcdp"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Numbers of values of the axes."""
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def n_cells(self) -> int:
        """The number of cells of all axes."""
        return math.prod(self.shape)

    @property
    def n_leaves(self) -> int:
        """Lowest areas."""
        return len(self.spine[-1].codes)

    @cached_property
    def places(self) -> tuple[tuple[str, ...], IntArray]:
        """The codes of the places ("" for everywhere), and each leaf's place."""
        leaves = np.arange(self.n_leaves)
        if self.place == EVERYWHERE:
            return ("",), np.zeros_like(leaves)
        for level in reversed(self.spine):
            if level.name == self.place:
                return level.texts, leaves
            leaves = level.parents[leaves]
        raise FormError(f"{self.root}: the areas have no level {self.place!r}")

    @property
    def n_numbers(self) -> int:
        """Places times groups."""
        return len(self.places[0]) * math.prod(len(self.axes[number].labels) for number in self.order)

    @property
    def ranked(self) -> bool:
        """Whether its numbers are chosen by rank."""
        return self.statistic in RANKS

    @cached_property
    def number(self) -> Fraction | None:
        """The number that the text names after its statistic, or as how many are above a clip; None without one."""
        pattern = r" above ([0-9/]+)( where |$)" if self.statistic == "clip" else rf"^{self.statistic} ([0-9/]+) "
        number = re.search(pattern, self.text, re.ASCII)
        named = self.statistic in ("quantile", "most common", "clip") and number is not None
        return Fraction(number[1]) if named and number else None

    @cached_property
    def least(self) -> int | None:
        """The least count of a group that is listed; None where all are."""
        least = re.search(r" having count >= ([0-9]+)$", self.text, re.ASCII) if self.statistic == "count" else None
        return int(least[1]) if least else None

    @property
    def quantile(self) -> Fraction:
        """The fraction of a rank: of a clip by a number of records it is 1."""
        if (fixed := RANKS[self.statistic]) is not None:
            return fixed
        if self.statistic == "clip":
            return Fraction(1) if self.number is None or self.number >= 1 else 1 - self.number
        if self.number is None:
            raise FormError(f"{self.restricted / 'question.json'}: a {self.statistic} has a number, and its text none")
        return self.number

    @property
    def amounts(self) -> Axis:
        """The axis of the amount; FormError where it is of none."""
        if self.amount is None:
            raise FormError(f"{self.root}: a {self.statistic} of no amount")
        return self.axes[self.amount]

    @cached_property
    def grid(self) -> list[Fraction]:
        """The values of the amount, or the ends of a clip; FormError where they are no grid, and no rising ends."""
        found = [Fraction(value) for value in self.amounts.values]
        steps = {one - other for other, one in itertools.pairwise(found)}
        if min(steps) <= 0 or (
            self.statistic != "clip" and (len(steps) > 1 or (found[0] / min(steps)).denominator > 1)
        ):
            raise FormError(f"{self.restricted / 'question.json'}: its amounts are no steps of a grid")
        return found

    @property
    def unit(self) -> Fraction:
        """Of the amount; 1 of a count."""
        return Fraction(1) if self.amount is None else self.grid[1] - self.grid[0]

    @property
    def first(self) -> int:
        """The first value of the amount, in units; of a clip the number of the first end."""
        return 0 if self.amount is None or self.statistic == "clip" else int(self.grid[0] / self.unit)

    @property
    def candidates(self) -> IntArray:
        """Numbers of the values that can be chosen."""
        return np.flatnonzero(self.amounts.keep)

    @property
    def lowest(self) -> int:
        """The first of the candidates, in units; of a clip its number."""
        return self.first + int(self.candidates[0])

    @property
    def of_total(self) -> bool:
        """Whether the ends of the amount are those of a unit's total."""
        return any(len(part) > 4 and part[4] == "total" for part in self.content)

    @property
    def of_units(self) -> bool:
        """Whether units are counted."""
        return self.statistic == "count units"

    @cached_property
    def counts(self) -> Counts:
        """What was counted: leaf, cell, records."""
        path = self.restricted / "counts.parquet"
        (leaf, cell, count), header = read_columns(path, ("leaf", "cell", "count"))
        keys = leaf * self.n_cells + cell
        outside = (leaf < 0) | (leaf >= self.n_leaves) | (cell < 0) | (cell >= self.n_cells) | (count < 1)
        if outside.any() or (np.diff(keys) <= 0).any():
            raise FormError(f"{path}: holds counts of other leaves or cells, or not in order")
        if (header.get("leaves"), header.get("cells")) != (self.n_leaves, self.n_cells):
            raise FormError(f"{path}: is of other areas or another question")
        return Counts(self.n_cells, keys, count)

    @cached_property
    def units(self) -> Units | None:
        """Which records of units are counted; None where records have no units."""
        path = self.restricted / UNITS
        if self.unit_name is None:
            return None
        if not path.is_file():
            raise FormError(f"{path}: is missing, and records are counted by {self.unit_name!r}")
        return Units(*read_columns(path, ("unit", "record", "counted"))[0])

    @property
    def by_records(self) -> bool:
        """Whether the last axis is the number of a unit's records, which records themselves do not have."""
        return self.of_units and self.axes[-1].name == RECORDS

    def placed(self, leaf: IntArray, cell: IntArray) -> tuple[BoolArray, IntArray, IntArray]:
        """Of each: whether the conditions hold, its number, and the number of its amount's value."""
        codes = np.unravel_index(cell, self.shape)
        holding = np.ones(len(leaf), dtype=bool)
        for axis, code in zip(self.axes, codes, strict=True):
            holding &= axis.keep[code]
        at = self.places[1][leaf]
        for number in self.order:
            axis = self.axes[number]
            at = at * len(axis.labels) + axis.group[codes[number]]
        value = zeros(len(leaf)) if self.amount is None else codes[self.amount].astype(np.int64)
        return holding, at, value

    @cached_property
    def truth(self) -> tuple[IntArray, IntArray, IntArray]:
        """Number, value of the amount, and count of what counts."""
        holding, at, value = self.placed(self.counts.geounits, self.counts.columns)
        if self.of_total:  # amounts were taken down after the conditions were looked at
            holding = np.ones_like(holding)
        return at[holding], value[holding], self.counts.counts[holding]

    def numbers(self, part: str, centre: int) -> IntArray:
        """The true numbers of a count or a sum, `(n_numbers,)`."""
        at, value, count = self.truth
        return sums(self.n_numbers, at, count if part == "count" else count * (value + self.first - centre))

    @cached_property
    def histograms(self) -> IntArray:
        """True records by candidate, `(n_numbers, n_candidates)`."""
        at, value, count = self.truth
        shape = self.n_numbers, len(self.candidates)
        return sums(shape, (at, np.searchsorted(self.candidates, value)), count)

    def fingerprint(self, *, private: bool) -> str:
        """Of the question and its terms; the private one with how the records are read."""
        reading = [json.dumps(self.question["reading"])] if private else []
        content = [*self.question["content"], *reading, *self.context]
        return digest(content)

    @cached_property
    def spine_fingerprint(self) -> str:
        """The fingerprint of the areas."""
        return spine_fingerprint(self.spine)

    def records(self, secret: bytes) -> str:
        """The keyed fingerprint of what was counted."""
        return keyed_hash(secret, "input of a question", counts_digest(self.counts, self.n_leaves))

    def context_of(self, secret: bytes) -> tuple[str, str, str]:
        """What its streams are bound to: what was counted, its areas, and the question with its terms."""
        return self.records(secret), self.spine_fingerprint, self.fingerprint(private=True)

    @cached_property
    def parts(self) -> dict[str, dict[str, Any]]:
        """What answer.json states of each part."""
        return {str(part["name"]): part for part in self.stated["parts"]}

    def table(self, name: str) -> tuple[list[str], list[list[str]], bytes]:
        """Header, rows and bytes of a CSV file of public/."""
        path = self.public / name
        try:
            data = path.read_bytes()
            rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
            return rows[0], rows[1:], data
        except (OSError, ValueError, IndexError, csv.Error) as error:
            raise FormError(f"{path}: cannot be read ({error})") from None

    def keys(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the keys of measurements.csv, as they have to be."""
        axes = [self.axes[number] for number in self.order]
        level = [] if self.place == EVERYWHERE else [self.place]
        places = [self.places[0]] if level else []
        rows = [list(row) for row in itertools.product(*places, *(axis.labels for axis in axes))]
        return [*level, *(axis.term for axis in axes)], rows

    @cached_property
    def published(self) -> dict[str, IntArray]:
        """The columns of measurements.csv that are numbers; FormError where it is not as the question gives it."""
        header, rows, data = self.table("measurements.csv")
        path, (names, keys) = self.public / "measurements.csv", self.keys()
        n = len(names)
        if header[:n] != names or [row[:n] for row in rows] != keys:
            raise FormError(f"{path}: its places or groups are not those of the question")
        with understood(str(path)):
            numbers = np.array([list(map(int, row[n:])) for row in rows], dtype=np.int64)
            columns = dict(zip(header[n:], numbers.T, strict=True))
        text = io.StringIO(newline="")
        written = ([*key, *own] for key, *own in zip(keys, *(one.tolist() for one in columns.values()), strict=True))
        csv.writer(text, lineterminator="\n").writerows([header, *written])
        if text.getvalue().encode() != data:
            raise FormError(f"{path}: holds bytes that are not its numbers")
        return columns


def _axis(content: list[Any]) -> Axis:
    at = next(n for n, one in enumerate(content) if isinstance(one, list) and isinstance(one[0], bool))
    keep, group, term, *labels = content[at:]
    axis = Axis(
        content[0], tuple(content[1 : 1 + len(keep)]), np.array(keep), np.array(group), str(term), tuple(labels)
    )
    if axis.keep.dtype != np.bool_ or axis.group.shape != axis.keep.shape or axis.group.min() < 0:
        raise ValueError(f"the axis {axis.name!r} has not one group for each value")
    if axis.group.max() >= max(1, len(axis.labels)):
        raise ValueError(f"the axis {axis.name!r} has groups without a label")
    return axis

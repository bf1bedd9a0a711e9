"""The tables of the 2020 Census redistricting data (P.L. 94-171), P1 to P5 and H1, from released histograms.

P1 race; P2 Hispanic or Latino, and not by race; P3, P4 the same for those aged 18 and over; P5 group quarters by type;
H1 occupancy. Columns are called as in the Bureau's summary files: P0010001 ... P0010071 and so on. Source: 2020 Census
State Redistricting Data (Public Law 94-171) Summary File, technical documentation, chapter 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.exchange.pl94171_tables import LINES, OCCUPANCY, QUARTERS, RACES, race_lines, race_sums
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.universe import Universe

#: Labels of the values that the tables are made of, in the order of the histogram of 2020.
VALUES = {
    "votingage": ("under18", "18plus"),
    "hispanic": ("not_hispanic", "hispanic"),
    "cenrace": RACES,
    "hhgq": ("household", *QUARTERS["institutional"], *QUARTERS["noninstitutional"]),
    "status": OCCUPANCY,
}
_QUARTERS = VALUES["hhgq"][1:]


def column_names(table: str) -> tuple[str, ...]:
    """The names of a table's fields, "P0010001" and so on for the table "P1"."""
    return tuple(f"{table[0]}{int(table[1:]):03d}{number:04d}" for number in range(1, LINES[table] + 1))


def _race_groups() -> NDArray[np.int64]:
    """`(71, 63)` of 0 and 1: which of the 63 combinations each column of table P1 counts."""
    groups = np.zeros((LINES["P1"], len(RACES)), dtype=np.int64)
    groups[list(race_lines()), range(len(RACES))] = 1
    for line, parts in sorted(race_sums().items(), reverse=True):  # sums of sums stand above them
        groups[line] = groups[list(parts)].sum(axis=0)
    return groups


_P1 = _race_groups()


def value_order(attribute: Attribute, labels: Sequence[str]) -> NDArray[np.int64]:
    """The attribute's value numbers in the order of `labels`: by label where it has these labels, else as they stand.

    Raises:
        InputError: it has another number of values.
    """
    if len(attribute.values) != len(labels):
        raise InputError(
            f"schema.attributes.{attribute.name}: found {len(attribute.values)} values; the layout of 2020 has "
            f"{len(labels)}: {', '.join(labels[:8])}{', ...' if len(labels) > 8 else ''}"
        )
    if set(attribute.values) == set(labels):
        return np.array([attribute.values.index(label) for label in labels], dtype=np.int64)
    return np.arange(len(labels), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Cube:
    """Sums a universe's histograms to some attributes, in the order of 2020."""

    query: Query
    axes: tuple[int, ...]
    orders: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, schema: Schema, attributes: Sequence[tuple[str, Sequence[str]]]) -> _Cube:
        """Over these attributes of the schema, each with the labels of 2020."""
        query = Query.parse(" * ".join(name for name, _ in attributes), schema)
        attributes_used = [name for name in schema.names if name in dict(attributes)]
        by_name = {attribute.name: attribute for attribute in schema.attributes}
        return cls(
            query,
            tuple(attributes_used.index(name) for name, _ in attributes),
            tuple(value_order(by_name[name], labels) for name, labels in attributes),
        )

    def counts(self, histograms: sp.csr_array) -> NDArray[np.int64]:
        """`(n, size, size, ...)` in the order that the attributes were given in."""
        sizes = [size for size in self.query.sizes if size > 1] or [1]
        shape = [len(histograms.indptr) - 1, *sizes]
        answers = self.query.answer_csr(histograms).reshape(shape)
        answers = answers.transpose(0, *(axis + 1 for axis in self.axes))
        for axis, order in enumerate(self.orders, start=1):
            answers = answers.take(order, axis=axis)
        return np.ascontiguousarray(answers)


@dataclass(frozen=True, eq=False)
class CensusTables:
    """Which tables a release has the attributes for, and from which universe.

    Attributes:
        race: of the release's own universe: votingage, hispanic, cenrace.
        quarters: universe name and how the 7 types of group quarters are counted there; None where they are not.
        units: universe name and how occupied and vacant units are counted there; None where they are not.
    """

    race: _Cube
    quarters: tuple[str, _Cube, bool] | None
    units: tuple[str, _Cube] | None

    @classmethod
    def of(cls, universes: Sequence[Universe]) -> CensusTables:
        """Of a release's universes, its own first.

        Raises:
            InputError: the release's own universe does not have the attributes of tables P1 to P4.
        """
        main = universes[0]
        needed = ("votingage", "hispanic", "cenrace")
        if missing := [name for name in needed if name not in main.schema.names]:
            raise InputError(
                f"--format pl94171: the release has no attribute {', '.join(missing)}; tables P1 to P4 are made of "
                f"{', '.join(needed)} (63 values, in the order of table P1); its attributes are "
                f"{', '.join(main.schema.names)}"
            )
        race = _Cube.of(main.schema, [(name, VALUES[name]) for name in needed])
        quarters: tuple[str, _Cube, bool] | None = None
        if "hhgq" in main.schema.names:
            quarters = (main.name, _Cube.of(main.schema, [("hhgq", VALUES["hhgq"])]), True)
        units: tuple[str, _Cube] | None = None
        for universe in universes[1:]:
            for attribute in universe.schema.attributes:
                values = set(attribute.values)
                if quarters is None and values == set(_QUARTERS):
                    quarters = (universe.name, _Cube.of(universe.schema, [(attribute.name, _QUARTERS)]), False)
                if units is None and values == set(VALUES["status"]):
                    units = (universe.name, _Cube.of(universe.schema, [(attribute.name, VALUES["status"])]))
        return cls(race, quarters, units)

    @property
    def names(self) -> tuple[str, ...]:
        """The tables there are, in order."""
        some = [name for name, source in (("P5", self.quarters), ("H1", self.units)) if source is not None]
        return ("P1", "P2", "P3", "P4", *some)

    @property
    def universes(self) -> tuple[str, ...]:
        """Names of the universes that are read, the release's own ("") first."""
        others = [source[0] for source in (self.quarters, self.units) if source is not None and source[0]]
        return ("", *dict.fromkeys(others))

    def tables(self, histograms: dict[str, sp.csr_array]) -> dict[str, NDArray[np.int64]]:
        """Every table `(n, columns)` for the geounits whose histograms are given, by universe."""
        cube = self.race.counts(histograms[""])
        counts_of: dict[str, NDArray[np.int64]] = {}
        for names, ages in ((("P1", "P2"), cube.sum(axis=1)), (("P3", "P4"), cube[:, 1])):
            by_race = ages.sum(axis=1) @ _P1.T
            of_hispanic, of_others = ages[:, 1].sum(axis=1), ages[:, 0] @ _P1.T
            counts_of[names[0]] = by_race
            counts_of[names[1]] = np.concatenate(
                [by_race[:, :1], of_hispanic[:, None], of_others[:, :1], of_others[:, 1:]], axis=1
            )
        if self.quarters is not None:
            name, quarters, with_households = self.quarters
            types = quarters.counts(histograms[name])[:, 1 if with_households else 0 :]
            institutional, others = types[:, :4], types[:, 4:]
            totals = [part.sum(axis=1, keepdims=True) for part in (types, institutional, others)]
            counts_of["P5"] = np.concatenate([totals[0], totals[1], institutional, totals[2], others], axis=1)
        if self.units is not None:
            units = self.units[1].counts(histograms[self.units[0]])
            counts_of["H1"] = np.concatenate([units.sum(axis=1, keepdims=True), units], axis=1)
        return counts_of

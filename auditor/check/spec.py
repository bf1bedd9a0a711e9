"""What the public spec in a manifest demands, read for a check: written independently, so that no error is shared."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.reading.errors import FormError

#: More would not fit into memory.
_MOST_CELLS = 100_000_000


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a query.

    Attributes:
        query: as the spec has it.
        labels: one an answer.
        of_cell: `(n_cells,)` the number of the answer that each cell counts in.
    """

    query: str
    labels: tuple[str, ...]
    of_cell: NDArray[np.int64]

    @property
    def size(self) -> int:
        """The number of answers."""
        return len(self.labels)


class Cells:
    """The cells of a schema: all combinations of values, the last attribute's running fastest.

    Args:
        attributes: name -> values.
        recodes: name -> attribute, and label of each group -> its values.
    """

    def __init__(
        self,
        attributes: Mapping[str, Sequence[str]],
        recodes: Mapping[str, tuple[str, Mapping[str, Sequence[str]]]],
    ) -> None:
        shape = tuple(len(values) for values in attributes.values())
        self.size = math.prod(shape)
        if not 0 < self.size <= _MOST_CELLS or not shape:
            raise ValueError(f"the schema has {self.size:,} cells; 1 to {_MOST_CELLS:,} are possible")
        self.names = tuple(attributes)
        self.values = tuple(pa.array(values, pa.string()) for values in attributes.values())
        self._codes = np.unravel_index(np.arange(self.size), shape)
        #: Attribute or recode -> number of its attribute, labels, number of the label that each value falls under.
        self._terms: dict[str, tuple[int, tuple[str, ...], NDArray[np.int64]]] = {}
        for number, (name, values) in enumerate(attributes.items()):
            self._terms[name] = (number, tuple(values), np.arange(len(values)))
        for name, (attribute, groups) in recodes.items():
            group_of = {value: group for group, members in enumerate(groups.values()) for value in members}
            values = attributes[attribute]
            if sorted(value for members in groups.values() for value in members) != sorted(values):
                raise ValueError(f"the recode {name!r} does not have each value of {attribute!r} in exactly one group")
            of_value = np.array([group_of[value] for value in values], dtype=np.int64)
            self._terms[name] = (self.names.index(attribute), tuple(groups), of_value)

    def answers(self, query: str) -> Answers:
        """The answers of a query; ValueError for a term that is none."""
        fixed_terms = {"total": [], "detailed": list(self.names)}.get(query.strip())
        terms = [word.strip() for word in query.split("*")] if fixed_terms is None else fixed_terms
        if unknown := [term for term in terms if term not in self._terms]:
            raise ValueError(f"the query {query!r} has the term {unknown[0]!r}, which is not an attribute or recode")
        factors = sorted((self._terms[term] for term in terms), key=lambda term: term[0])
        if len({number for number, _, _ in factors}) < len(factors):
            raise ValueError(f"the query {query!r} names an attribute twice")
        of_cell = np.zeros(self.size, dtype=np.int64)
        for number, labels, of_value in factors:
            of_cell = of_cell * len(labels) + of_value[self._codes[number]]
        labels = tuple(" * ".join(combination) for combination in itertools.product(*(term[1] for term in factors)))
        return Answers(query, labels if factors else ("total",), of_cell)

    def fitting(self, combination: Mapping[str, Sequence[str]]) -> NDArray[np.bool_]:
        """`(n_cells,)`: whether a cell has one of the values of each term."""
        fits = np.ones(self.size, dtype=np.bool_)
        for term, values in combination.items():
            number, labels, of_value = self._terms[term]
            numbers = [labels.index(value) for value in values]
            fits &= np.isin(of_value[self._codes[number]], numbers)
        return fits

    def labels(self, term: str) -> tuple[str, ...]:
        """The labels of an attribute or recode; KeyError where it is none."""
        return self._terms[term][1]

    def cells_of(self, other: Cells) -> NDArray[np.int64]:
        """`(n_cells,)` the cell of `other`, whose attributes are some of these, that each cell falls in."""
        found = np.zeros(self.size, dtype=np.int64)
        for name in other.names:
            number, labels, _ = self._terms[name]
            if labels != other.labels(name):
                raise ValueError(f"the attribute {name!r} has other values in a companion of an amount")
            found = found * len(labels) + self._codes[number]
        return found

    def label(self, cell: int) -> str:
        """The values of a cell, joined by " * "."""
        return " * ".join(
            values[int(codes[cell])].as_py() for values, codes in zip(self.values, self._codes, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Bound:
    """An answer counts at least `lower` and at most `upper` for each facility; `columns` are the answers bounded."""

    name: str
    level: str
    answers: Answers
    columns: tuple[str, ...]
    lower: int
    upper: int


@dataclass(frozen=True)
class Amount:
    """What the records of a universe count: `first` to `last` units each."""

    unit: Fraction
    first: int
    last: int

    @property
    def least(self) -> int:
        """What sums are not below: 0 where no record counts less."""
        return 0 if self.first >= 0 else -(2**62)


@dataclass(frozen=True, eq=False)
class PublicUniverse:
    """What is demanded of one universe; "" is the release's own, others are companions.

    Attributes:
        impossible: `(n_cells,)` the structural zeros.
        invariants: level and answers.
        tables: name, answers and levels.
        amount: None where each record counts one.
    """

    name: str
    cells: Cells
    impossible: NDArray[np.bool_]
    invariants: tuple[tuple[str, Answers], ...]
    bounds: tuple[Bound, ...]
    tables: tuple[tuple[str, Answers, tuple[str, ...]], ...]
    amount: Amount | None = None


@dataclass(frozen=True, eq=False)
class Crossed:
    """A table of persons by what their households are: its companion, its two queries and its levels."""

    name: str
    companion: str
    persons: Answers
    households: Answers
    levels: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """Of its columns; a query that counts everybody gives no word to them."""
        own, theirs = (
            [""] if answers.query.strip() == "total" else list(answers.labels)
            for answers in (self.persons, self.households)
        )
        return [" * ".join(label for label in (a, b) if label) or "total" for a in own for b in theirs]


@dataclass(frozen=True, eq=False)
class PublicSpec:
    """What is demanded of a release.

    Attributes:
        levels: top first.
        prefixes: length of each level's codes, of which each begins with its parent's; None where they are any text.
        margins, microdata: whether they are published.
        joins: of persons with households, one mapping each; `joins.joined_groups` reads them.
        household_tables: of persons by their households.
        names: level whose areas have names -> their languages, "" for the one that is not stated.
        shares: name -> level of the public numbers by which answers are shared, and how many each geounit has.
    """

    levels: tuple[str, ...]
    prefixes: tuple[int, ...] | None
    universes: tuple[PublicUniverse, ...]
    margins: bool
    microdata: bool
    joins: tuple[Mapping[str, Any], ...] = ()
    household_tables: tuple[Crossed, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shares: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def joined(self) -> tuple[str, ...]:
        """The companions that persons are joined with, in the order of the joins."""
        return tuple(dict.fromkeys(str(join.get("companion")) for join in self.joins))


def read_public_spec(path: Path) -> PublicSpec:
    """The spec in the manifest at `path`; FormError where it is damaged or does not make sense."""
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormError(f"public/manifest.json cannot be read: {error}") from error
    try:
        return _spec(manifest["spec"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FormError(f"public/manifest.json: its spec cannot be understood: {reason}") from error


def _spec(spec: Mapping[str, Any]) -> PublicSpec:
    stated_levels = spec["geography"]["levels"]
    names_only = all(isinstance(level, str) for level in stated_levels)
    regrouped = spec["geography"].get("regroup") is not None
    levels = _texts(stated_levels) if names_only else tuple(_pairs(stated_levels))
    if not levels or len(set(levels)) < len(levels):
        raise ValueError(f"the levels are {', '.join(levels) or 'none'}; names that differ are required")
    universes = [_universe("", spec, levels)]
    universes += [_universe(name, sections, levels) for name, sections in _pairs(spec["companions"]).items()]
    return PublicSpec(
        levels=levels,
        prefixes=None if names_only or regrouped else tuple(int(length) for length in _pairs(stated_levels).values()),
        universes=tuple(universes),
        margins=bool(spec["publish"]["margins"]),
        microdata=bool(spec["publish"]["microdata"]),
        joins=tuple(_join(entry) for entry in spec.get("join", ())),
        household_tables=tuple(
            _crossed(name, section, universes, levels)
            for name, section in _pairs(spec.get("household_tables", [])).items()
        ),
        names={
            _level(level, levels): tuple(_pairs(section["name"]))
            for level, section in _pairs(spec["geography"].get("names", [])).items()
        },
        shares={
            name: (_level(section["level"], levels), len(set(_pairs(section.get("columns", [])).values())) or 1)
            for name, section in _pairs(spec.get("postprocess", {}).get("shares", [])).items()
            if section["use"]
        },
    )


def _crossed(
    name: str, section: Mapping[str, Any], universes: Sequence[PublicUniverse], levels: tuple[str, ...]
) -> Crossed:
    companion = str(section["companion"])
    cells = {universe.name: universe.cells for universe in universes}
    if companion not in cells or not companion:
        raise ValueError(f"the table {name!r} is about households of {companion!r}, which is no companion")
    return Crossed(
        name,
        companion,
        cells[""].answers(section["persons"]),
        cells[companion].answers(section["households"]),
        tuple(_level(level, levels) for level in _texts(section["levels"])),
    )


def _join(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of `join`, its tables as mappings."""
    tables: dict[str, Any] = {name: _lists(entry[name]) for name in ("where", "present", "members") if name in entry}
    if "householder" in entry:
        tables["householder"] = _pairs(entry["householder"])
    if "table" in entry:
        tables["table"] = {answer: _pairs(row) for answer, row in _pairs(entry["table"]).items()}
    return {**entry, **tables, "companion": str(entry["companion"]), "others": bool(entry["others"])}


def _universe(name: str, sections: Mapping[str, Any], levels: tuple[str, ...]) -> PublicUniverse:
    schema = sections["schema"]
    recodes = {
        recode: (section["attribute"], _lists(section["groups"]))
        for recode, section in _pairs(schema["recodes"]).items()
    }
    cells = Cells(_lists(schema["attributes"]), recodes)
    impossible = np.zeros(cells.size, dtype=np.bool_)
    for combination in sections["structural_zeros"]:
        impossible |= cells.fitting(_lists(combination))
    return PublicUniverse(
        name=name,
        amount=_amount(sections),
        cells=cells,
        impossible=impossible,
        invariants=tuple(
            (_level(level, levels), cells.answers(query))
            for level, queries in _lists(sections["invariants"]).items()
            for query in queries
        ),
        bounds=tuple(_bound(bound, cells, levels) for bound in sections["bounds"]),
        tables=tuple(
            (
                table,
                cells.answers(section["query"]),
                tuple(_level(level, levels) for level in _texts(section["levels"])),
            )
            for table, section in _pairs(sections["tables"]).items()
        ),
    )


def _amount(sections: Mapping[str, Any]) -> Amount | None:
    if sections.get("amount") is None:
        return None
    (low, high), unit = (Fraction(end) for end in _texts(sections["between"])), Fraction(sections["unit"])
    first, last = low / unit, high / unit
    if not first < last or first.denominator != 1 or last.denominator != 1:
        raise ValueError(f"an amount between {low} and {high} in units of {unit} is not possible")
    return Amount(unit, int(first), int(last))


def _bound(bound: Mapping[str, Any], cells: Cells, levels: tuple[str, ...]) -> Bound:
    answers = cells.answers(bound["query"])
    columns = tuple(_pairs(bound["columns"]))
    if unknown := [label for label in columns if label not in answers.labels]:
        raise ValueError(
            f"the bound {bound['name']!r} is on {unknown[0]!r}, which is not an answer of {answers.query!r}"
        )
    lower, upper = int(bound["lower"]), int(bound["upper"])
    return Bound(str(bound["name"]), _level(bound["level"], levels), answers, columns, lower, upper)


def _level(name: str, levels: tuple[str, ...]) -> str:
    if name not in levels:
        raise ValueError(f"{name!r} is not a level; the levels are {', '.join(levels)}")
    return name


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"a list of texts is required, found {value!r:.60}")
    return tuple(value)


def _pairs(value: Any) -> dict[str, Any]:
    """A table, which is written as a list of pairs so that its order stays."""
    table = dict(value)
    if len(table) < len(value) or not all(isinstance(key, str) for key in table):
        raise ValueError(f"a list of pairs of different names and what they name is required, found {value!r:.60}")
    return table


def _lists(value: Any) -> dict[str, tuple[str, ...]]:
    return {key: _texts(entries) for key, entries in _pairs(value).items()}

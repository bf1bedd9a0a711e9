"""The public spec of a manifest: levels, universes and what is demanded of them, as docs/spec.md describes it.

Read by nothing of the first program, so that no error is shared with it. What is drawn, and what that costs, is read in
`auditor.form`, from the same universes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from auditor.reading.cells import Cells, Join, Query, read_join
from auditor.reading.findings import FormError, exact
from auditor.reading.received import received
from auditor.reading.values import BoolArray, Stated, zeros

#: Numbers of a query that the change of a record moves, by one each.
MOVED: Final = {"change-one": 2, "add-remove": 1}


@dataclass(frozen=True, eq=False)
class Relation:
    """In each area of a level an answer x of the histogram has lower y <= x <= upper y, with y in a public file.

    Attributes:
        name: as sentences have it.
        columns: of the file, which are the answers that are related; () where it has all answers of an area in a list.
    """

    name: str
    level: str
    answers: Query
    columns: tuple[str, ...] = ()
    lower: int = 1
    upper: int = 1


@dataclass(frozen=True)
class Amount:
    """What the records of a universe count: `first` to `last` units each.

    Attributes:
        column: of the records.
        unit: in the amount's currency.
        missing: the amount of those without one; None where each must have one.
        total: whether the ends are those of all records of a unit together.
    """

    column: str
    unit: Fraction
    first: int
    last: int
    missing: Fraction | None = None
    total: bool = False


class Table(NamedTuple):
    """A table: its answers and levels, and the term by which it is published cumulatively, if it is."""

    name: str
    answers: Query
    levels: tuple[str, ...]
    cumulated: str


class Asked(NamedTuple):
    """A query of a level, its share, and whether answers are drawn only where the released area above is positive."""

    query: Query
    share: Fraction
    where_positive: bool


@dataclass(frozen=True, eq=False)
class PublicUniverse:
    """What is demanded of one universe; "" is the release's own, others are companions.

    Attributes:
        impossible: `(n_cells,)` the structural zeros.
        invariants: level and answers.
        levels: of the strategy: name, share of the budget, and what is measured.
        amount: None where each record counts one.
    """

    name: str
    cells: Cells
    impossible: BoolArray
    invariants: tuple[tuple[str, Query], ...]
    bounds: tuple[Relation, ...]
    tables: tuple[Table, ...]
    levels: tuple[tuple[str, Fraction, tuple[Asked, ...]], ...]
    amount: Amount | None = None

    @property
    def title(self) -> str:
        """As sentences name it."""
        return self.name or "the release"

    @property
    def least(self) -> int:
        """What no number is below: 0 where no record counts less."""
        return 0 if self.amount is None or self.amount.first >= 0 else -(2**62)


@dataclass(frozen=True, eq=False)
class Crossed:
    """A table of persons by what their households are: its companion, its two queries and its levels."""

    name: str
    companion: str
    persons: Query
    households: Query
    levels: tuple[str, ...]

    @cached_property
    def query(self) -> Query:
        """Of its columns; a query that counts everybody gives no word to them."""
        own, theirs = (
            [""] if answers.name.strip() == "total" else answers.labels for answers in (self.persons, self.households)
        )
        labels = tuple(" * ".join(label for label in (a, b) if label) or "total" for a in own for b in theirs)
        return Query(self.name, (), (labels,), zeros(0))


@dataclass(frozen=True, eq=False)
class PublicSpec:
    """What is demanded of a release.

    Attributes:
        levels: top first.
        prefixes: length of each level's codes, of which each begins with its parent's; None where they are any text.
        margins, microdata: whether they are published.
        joins: of persons with households.
        household_tables: of persons by their households.
        names: level whose areas have names -> their languages, "" for the one that is not stated.
        shares: name -> level of the public numbers by which answers are shared, and how many each geounit has.
        marginals: all attributes of records that universes count by some of them each; None of other releases.
        amounts: of these, those whose values are bins -> first and last number of each; the microdata have a number
            drawn inside, in the column that is called so with `_drawn` behind it.
        seed: the public one, by which it is drawn.
    """

    levels: tuple[str, ...]
    prefixes: tuple[int, ...] | None
    universes: tuple[PublicUniverse, ...]
    margins: bool
    microdata: bool
    joins: tuple[Join, ...]
    household_tables: tuple[Crossed, ...]
    names: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, tuple[str, int]]
    marginals: tuple[str, ...] | None
    amounts: Mapping[str, tuple[tuple[int, int], ...]]
    seed: int

    @property
    def joined(self) -> tuple[str, ...]:
        """The companions that persons are joined with, in the order of the joins."""
        return tuple(dict.fromkeys(join.companion for join in self.joins))

    def joins_with(self, companion: str) -> list[Join]:
        """Those with one companion."""
        return [join for join in self.joins if join.companion == companion]

    def universe(self, name: str) -> PublicUniverse:
        """The universe of this name."""
        return next(universe for universe in self.universes if universe.name == name)


def read_json(path: Path, name: str = "") -> dict[str, Any]:
    """What is in a file of JSON, which sentences call `name`, or by its path; FormError where that is no table."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise FormError(f"{name or path} cannot be read: {error}") from error


def public_spec(spec: Stated) -> PublicSpec:
    """The spec as a manifest has it; any error of Python where something is missing or out of place."""
    stated_levels = spec["geography"]["levels"]
    names_only = all(isinstance(level, str) for level in stated_levels)
    regrouped = spec["geography"].get("regroup") is not None
    levels = _texts(stated_levels) if names_only else tuple(_pairs(stated_levels))
    if not levels or len(set(levels)) < len(levels):
        raise ValueError(f"the levels are {', '.join(levels) or 'none'}; names that differ are required")
    universes = [_universe(name, own, levels) for name, own in {"": spec, **_pairs(spec["companions"])}.items()]
    cells = {universe.name: universe.cells for universe in universes}
    return PublicSpec(
        levels=levels,
        prefixes=None if names_only or regrouped else tuple(int(length) for length in _pairs(stated_levels).values()),
        universes=tuple(universes),
        margins=bool(spec["publish"]["margins"]),
        microdata=bool(spec["publish"]["microdata"]),
        joins=tuple(read_join(_tables_of(entry), cells) for entry in spec.get("join", ())),
        household_tables=tuple(
            _crossed(name, section, cells, levels) for name, section in _pairs(spec.get("household_tables", [])).items()
        ),
        names={
            _level(level, levels): tuple(_pairs(section["name"]))
            for level, section in _pairs(spec["geography"].get("names", [])).items()
        },
        shares={
            name: (_level(section["level"], levels), len(set(_pairs(section.get("columns", [])).values())) or 1)
            for name, section in _pairs(spec.get("postprocess", {}).get("shares", [])).items()
        },
        marginals=None if spec.get("marginals") is None else _texts(spec["marginals"]["attributes"]),
        amounts={
            name: tuple(map(_bin, bins))
            for name, bins in _lists((spec.get("marginals") or {}).get("amounts", [])).items()
        },
        seed=int(spec["postprocess"]["seed"]),
    )


def _bin(text: str) -> tuple[int, int]:
    """The ends of a bin of whole numbers, "0..4"."""
    first, last = text.split("..")
    if int(last) < int(first):
        raise ValueError(f"the bin {text!r} has no numbers")
    return int(first), int(last)


def _crossed(name: str, section: Stated, cells: Mapping[str, Cells], levels: tuple[str, ...]) -> Crossed:
    companion = str(section["companion"])
    if companion not in cells or not companion:
        raise ValueError(f"the table {name!r} is about households of {companion!r}, which is no companion")
    return Crossed(
        name,
        companion,
        cells[""].query(section["persons"]),
        cells[companion].query(section["households"]),
        tuple(_level(level, levels) for level in _texts(section["levels"])),
    )


def _tables_of(entry: Stated) -> dict[str, Any]:
    """An entry of `join`, its tables as mappings."""
    tables: dict[str, Any] = {name: _lists(entry[name]) for name in ("where", "present", "members") if name in entry}
    if "householder" in entry:
        tables["householder"] = _pairs(entry["householder"])
    if "table" in entry:
        tables["table"] = {answer: _pairs(row) for answer, row in _pairs(entry["table"]).items()}
    return {**entry, **tables}


def _universe(name: str, sections: Stated, levels: tuple[str, ...]) -> PublicUniverse:
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
            (_level(level, levels), cells.query(query))
            for level, queries in _lists(sections["invariants"]).items()
            for query in queries
        )
        + tuple(
            (level, cells.query(query)) for level, query, variance in received(sections, levels) if variance is None
        ),
        bounds=tuple(_bound(bound, cells, levels) for bound in sections["bounds"]),
        tables=tuple(
            _table(table, cells.query(section["query"]), section, levels)
            for table, section in _pairs(sections["tables"]).items()
        ),
        levels=tuple(
            (
                _level(level, levels),
                exact(content.get("share", 0)),
                tuple(_asked(cells.query(query), one, level == levels[0]) for query, one in content.get("queries", ())),
            )
            for level, content in sections["strategy"]["levels"]
        ),
    )


def _asked(query: Query, stated: Any, top: bool) -> Asked:
    share, where = (stated["share"], stated.get("where")) if isinstance(stated, dict) else (stated, None)
    if where not in (None, "parent positive") or (top and where):
        raise ValueError(f"answers are not drawn where {where!r:.60}")
    return Asked(query, exact(share), where is not None)


def _table(name: str, answers: Query, section: Stated, levels: tuple[str, ...]) -> Table:
    """With the term that is cumulated: the one that is named, else the only one with several values."""
    stated = section.get("cumulative")
    several = [name for name, labels in zip(answers.names, answers.terms, strict=True) if len(labels) > 1]
    term = stated if isinstance(stated, str) else several[0] if len(several) == 1 else None
    if stated and term not in answers.names:
        raise ValueError(f"cumulative numbers of {answers.name!r} by {stated!r} are not possible")
    of = tuple(_level(level, levels) for level in _texts(section["levels"]))
    return Table(name, answers, of, str(term) if stated else "")


def _amount(sections: Stated) -> Amount | None:
    if sections.get("amount") is None:
        return None
    (low, high), unit = (exact(end) for end in _texts(sections["between"])), exact(sections["unit"])
    first, last = low / unit, high / unit
    total, missing = sections.get("ends") == "total", sections.get("missing")
    whole = first.denominator == last.denominator == 1
    if unit <= 0 or not first < last or not whole or (total and not first <= 0 <= last):
        of = " of all records of a unit" if total else ""
        raise ValueError(f"an amount{of} between {low} and {high} in units of {unit} is not possible")
    return Amount(sections["amount"], unit, int(first), int(last), None if missing is None else exact(missing), total)


def _bound(bound: Stated, cells: Cells, levels: tuple[str, ...]) -> Relation:
    answers = cells.query(bound["query"])
    columns = tuple(_pairs(bound["columns"]))
    if unknown := [label for label in columns if label not in answers.labels]:
        raise ValueError(
            f"the bound {bound['name']!r} is on {unknown[0]!r}, which is not an answer of {answers.name!r}"
        )
    name, ends = f"the bound {bound['name']!r}", (int(bound["lower"]), int(bound["upper"]))
    return Relation(name, _level(bound["level"], levels), answers, columns, *ends)


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

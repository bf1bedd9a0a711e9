"""The cells of a schema, and the answers of a query: which cells each counts."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from auditor.reading.findings import FormError, understood
from auditor.reading.values import BoolArray, IntArray, Stated, zeros

#: More would not fit into memory.
_MOST_CELLS = 100_000_000


@dataclass(frozen=True, eq=False)
class Query:
    """The answers of a query.

    Attributes:
        name: as the spec has it.
        groups: one list an attribute: which group each of its values is in; all 0 where the attribute is summed out.
        terms: the labels of the groups of each attribute that is not summed out.
        names: of these, as the spec has them.
        of_cell: `(n_cells,)` the number of the answer that each cell counts in.
    """

    name: str
    groups: tuple[tuple[int, ...], ...]
    terms: tuple[tuple[str, ...], ...]
    of_cell: IntArray
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of answers."""
        return math.prod(len(labels) for labels in self.terms)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One an answer."""
        return tuple(" * ".join(labels) for labels in itertools.product(*self.terms)) if self.terms else ("total",)


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
        self._terms: dict[str, tuple[int, tuple[str, ...], IntArray]] = {}
        for number, (name, values) in enumerate(attributes.items()):
            self._terms[name] = (number, tuple(values), np.arange(len(values)))
        for name, (attribute, groups) in recodes.items():
            group_of = {value: group for group, members in enumerate(groups.values()) for value in members}
            values = attributes[attribute]
            if sorted(value for members in groups.values() for value in members) != sorted(values):
                raise ValueError(f"the recode {name!r} does not have each value of {attribute!r} in exactly one group")
            of_value = np.array([group_of[value] for value in values], dtype=np.int64)
            self._terms[name] = (self.names.index(attribute), tuple(groups), of_value)

    @property
    def attributes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Name and values of each attribute."""
        return tuple((name, self.labels(name)) for name in self.names)

    def query(self, name: str) -> Query:
        """The query of this name; ValueError for a term that is none."""
        fixed_terms = {"total": [], "detailed": list(self.names)}.get(name.strip())
        terms = [word.strip() for word in name.split("*")] if fixed_terms is None else fixed_terms
        if unknown := [term for term in terms if term not in self._terms]:
            raise ValueError(f"the query {name!r} has the term {unknown[0]!r}, which is not an attribute or recode")
        factors = sorted((self._terms[term] for term in terms), key=lambda term: term[0])
        if len({number for number, _, _ in factors}) < len(factors):
            raise ValueError(f"the query {name!r} names an attribute twice")
        groups = [(0,) * len(values) for values in self.values]
        of_cell = zeros(self.size)
        for number, labels, of_value in factors:
            groups[number] = tuple(of_value.tolist())
            of_cell = of_cell * len(labels) + of_value[self._codes[number]]
        names = tuple(sorted(terms, key=lambda term: self._terms[term][0]))
        return Query(name, tuple(groups), tuple(labels for _, labels, _ in factors), of_cell, names)

    def fitting(self, combination: Mapping[str, Sequence[str]]) -> BoolArray:
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

    def cells_of(self, other: Cells) -> IntArray:
        """`(n_cells,)` the cell of a companion's in which each cell falls; FormError where it has other attributes."""
        found = zeros(self.size)
        for name in other.names:
            number, labels, _ = self._terms.get(name, (0, (), None))
            if labels != other.labels(name):
                raise FormError(f"public/manifest.json: the attribute {name!r} of a companion is not the release's own")
            found = found * len(labels) + self._codes[number]
        return found

    def label(self, cell: int) -> str:
        """The values of a cell, joined by " * "."""
        return " * ".join(self.labels(name)[codes[cell]] for name, codes in zip(self.names, self._codes, strict=True))


#: In `JoinedGroup.most`: nothing limits the members.
NO_LIMIT = -1
#: Members for which a household's statement is made at least, where the joins allow any number.
ANY_NUMBER: Final = 7


@dataclass(frozen=True, eq=False)
class JoinedGroup:
    """A group of persons, and how many of them are members of one household.

    Attributes:
        join: its companion and form.
        label: of the group.
        persons: `(n_cells,)` True for the cells of persons in the group.
        least: `(n_cells,)` members of one household in each cell of households, at least.
        most: `(n_cells,)` at most; -1 where nothing limits them.
    """

    join: str
    label: str
    persons: BoolArray
    least: IntArray
    most: IntArray

    @property
    def limited(self) -> bool:
        """Whether something limits the members of each household."""
        return bool((self.most != NO_LIMIT).all())


@dataclass(frozen=True, eq=False)
class Join:
    """What an entry of the public spec's `join` says of the households of a companion.

    Attributes:
        others: whether persons who are no members are in the groups, too.
        groups: of persons, with the members of one household.
    """

    companion: str
    others: bool
    groups: tuple[JoinedGroup, ...]

    @property
    def limits(self) -> tuple[JoinedGroup, ...]:
        """The groups with what limits all persons in them."""
        if not self.others:
            return self.groups
        return tuple(replace(group, most=np.full_like(group.most, NO_LIMIT)) for group in self.groups)


def read_join(join: Stated, cells: Mapping[str, Cells]) -> Join:
    """An entry of the public spec's `join`, with the cells of the persons "" and of each companion.

    Raises:
        FormError: the entry is none that docs/spec.md describes.
    """
    with understood("public/manifest.json: a join of its spec"):
        companion = str(join["companion"])
        if companion not in cells:
            raise FormError(f"public/manifest.json: a join is with {companion!r}, which is no companion")
        form = next((form for form in _FORMS if form in join), None)
        if form is None:
            raise ValueError(f"it has none of the keys {', '.join(_FORMS)}")
        name = f"{companion} {' and '.join(join.get('present', [form]))}"
        groups = tuple(JoinedGroup(name, *group) for group in _FORMS[form](join, cells[""], cells[companion]))
        if not groups:
            raise ValueError("it limits nobody")
        return Join(companion, bool(join["others"]), groups)


#: The label of a group, its cells of persons, and the least and most members for each cell of households.
_Group = tuple[str, BoolArray, IntArray, IntArray]


def _of_size(join: Stated, persons: Cells, households: Cells) -> Iterator[_Group]:
    least, most = zeros(households.size), zeros(households.size)
    for label in households.labels(join["size"]):
        size = re.fullmatch(r"([0-9]+)(\+?)", label)
        if size is None:
            raise ValueError(f"{label!r} of {join['size']!r} is no size of a household")
        these = households.fitting({join["size"]: [label]})
        least[these] = int(size[1])
        most[these] = join.get("most", NO_LIMIT) if size[2] else int(size[1])
    yield _in_words(join["where"]), persons.fitting(join["where"]), least, most


def _of_householder(join: Stated, persons: Cells, households: Cells) -> Iterator[_Group]:
    terms: dict[str, str] = join["householder"]
    for values in itertools.product(*(persons.labels(term) for term in terms)):
        these = np.ones(households.size, dtype=np.bool_)
        for term, value in zip(terms.values(), values, strict=True):
            these &= households.fitting({term: [value]}) if value in households.labels(term) else False
        own = {term: [value] for term, value in zip(terms, values, strict=True)}
        one = these.astype(np.int64)
        group = persons.fitting(join["where"]) & persons.fitting(own)
        yield _in_words({**join["where"], **own}), group, one, one if join["exactly"] else np.full_like(one, NO_LIMIT)


def _of_present(join: Stated, persons: Cells, households: Cells) -> Iterator[_Group]:
    these = households.fitting(join["present"])
    group = persons.fitting(join["where"]) & persons.fitting(join["members"])
    yield _in_words({**join["where"], **join["members"]}), group, these.astype(np.int64), np.where(these, NO_LIMIT, 0)


def _of_table(join: Stated, persons: Cells, households: Cells) -> Iterator[_Group]:
    own, theirs = persons.query(join["persons"]), households.query(join["households"])
    for label, row in join["table"].items():
        limits = [row[kind] for kind in theirs.labels]
        least = np.array([limit[0] for limit in limits], dtype=np.int64)
        most = np.array([limit[1] if len(limit) > 1 else NO_LIMIT for limit in limits], dtype=np.int64)
        yield label, own.of_cell == own.labels.index(label), least[theirs.of_cell], most[theirs.of_cell]


_FORMS = {"size": _of_size, "householder": _of_householder, "present": _of_present, "table": _of_table}


def _in_words(values: Stated) -> str:
    return " * ".join(" or ".join(labels) for labels in values.values()) or "total"


def together(groups: Sequence[JoinedGroup]) -> JoinedGroup:
    """The groups of a join as one: everybody in them, and how many of these a household has at least and at most."""
    least, most = (np.sum([getattr(group, name) for group in groups], axis=0) for name in ("least", "most"))
    limited = all(group.limited for group in groups)
    persons = np.logical_or.reduce([group.persons for group in groups])
    return JoinedGroup("", "", persons, least, most if limited else np.full_like(most, NO_LIMIT))


def largest_household(joins: Sequence[Join]) -> int:
    """Members, by joins with one companion: the least of the limits that hold for all, else what is to be stated."""
    whole = [together(join.groups) for join in joins]
    members, limited = np.logical_or.reduce([one.persons for one in whole]), [one for one in whole if one.limited]
    limits = [int(one.most.max()) for one in limited if np.array_equal(one.persons, members)]
    if limited and np.array_equal(np.logical_or.reduce([one.persons for one in limited]), members):
        limits.append(sum(int(one.most.max()) for one in limited))
    return min(limits, default=max(ANY_NUMBER, *(int(one.least.max()) for one in whole)))

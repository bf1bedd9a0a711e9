"""The cells of a schema, and the answers of a query: which cells each counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
    of_cell: NDArray[np.int64]
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of answers."""
        return math.prod(len(labels) for labels in self.terms)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One an answer."""
        return tuple(" * ".join(labels) for labels in itertools.product(*self.terms)) if self.terms else ("total",)

    @property
    def kept(self) -> tuple[bool, ...]:
        """Whether each attribute is not summed out."""
        return tuple(len(set(groups)) > 1 for groups in self.groups)


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
        of_cell = np.zeros(self.size, dtype=np.int64)
        for number, labels, of_value in factors:
            groups[number] = tuple(of_value.tolist())
            of_cell = of_cell * len(labels) + of_value[self._codes[number]]
        names = tuple(sorted(terms, key=lambda term: self._terms[term][0]))
        return Query(name, tuple(groups), tuple(labels for _, labels, _ in factors), of_cell, names)

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

"""How many members a household can have, as the joins of the public spec say.

Read from docs/spec.md alone: it is what the statement about a household has to be made for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Members for which a household's statement is made at least, where the joins allow any number.
ANY_NUMBER: Final = 7


@dataclass(frozen=True, eq=False)
class _Counted:
    """What one join says of the members of a household.

    Attributes:
        persons: `(n_cells,)` the cells of persons that the join counts as members.
        least: members of the largest kind of household, at least.
        most: members of a household of any kind, at most; None where nothing limits them.
    """

    persons: NDArray[np.bool_]
    least: int
    most: int | None


def most_members(spec: Mapping[str, Any]) -> dict[str, int]:
    """For each companion that is joined, the members of its largest household.

    Args:
        spec: as a manifest has it.

    Raises:
        KeyError, TypeError, ValueError, IndexError, AttributeError: a join cannot be understood.
    """
    persons = _Values(spec["schema"])
    households = {name: _Values(sections["schema"]) for name, sections in spec["companions"]}
    counted: dict[str, list[_Counted]] = {}
    for join in spec.get("join", ()):
        own = _counted(join, persons, households[join["companion"]])
        counted.setdefault(join["companion"], []).append(own)
    return {companion: _largest(joins) for companion, joins in counted.items()}


def _largest(joins: Sequence[_Counted]) -> int:
    members = np.logical_or.reduce([join.persons for join in joins])
    limited = [(join.persons, join.most) for join in joins if join.most is not None]
    limits = [most for persons, most in limited if np.array_equal(persons, members)]
    if limited and np.array_equal(np.logical_or.reduce([persons for persons, _ in limited]), members):
        limits.append(sum(most for _, most in limited))
    return min(limits, default=max(ANY_NUMBER, *(join.least for join in joins)))


def _counted(join: Mapping[str, Any], persons: _Values, households: _Values) -> _Counted:
    where = persons.cells(dict(join["where"]))
    if "size" in join:
        sizes = list(households.groups(join["size"]))
        most = [join.get("most") if size.endswith("+") else int(size) for size in sizes]
        least = max(int(size.removesuffix("+")) for size in sizes)
        return _Counted(where, least, None if None in most else max(number or 0 for number in most))
    if "householder" in join:
        return _Counted(where, 1, 1 if join["exactly"] else None)
    if "present" in join:
        return _Counted(where & persons.cells(dict(join["members"])), 1, None)
    rows = {answer: dict(row) for answer, row in join["table"]}
    answers = dict(persons.answers(join["persons"]))
    kinds = [[_both(row[kind]) for row in rows.values()] for kind in next(iter(rows.values()))]
    most = [None if any(high is None for _, high in kind) else sum(high or 0 for _, high in kind) for kind in kinds]
    return _Counted(
        np.logical_or.reduce([answers[answer] for answer in rows]),
        max(sum(low for low, _ in kind) for kind in kinds),
        None if None in most else max(number or 0 for number in most),
    )


def _both(limits: int | Sequence[int]) -> tuple[int, int | None]:
    """Least and most of an entry: the number, [least, most], or [least]."""
    if isinstance(limits, int):
        return limits, limits
    return limits[0], limits[1] if len(limits) > 1 else None


class _Values:
    """Which cells the words of a schema mean."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._attributes: dict[str, list[str]] = {name: list(values) for name, values in schema["attributes"]}
        self._recodes = {name: (content["attribute"], dict(content["groups"])) for name, content in schema["recodes"]}

    def groups(self, term: str) -> dict[str, list[str]]:
        """The labels of an attribute or recode, and the attribute's values that each stands for."""
        if term in self._attributes:
            return {value: [value] for value in self._attributes[term]}
        return self._recodes[term][1]

    def cells(self, labels: Mapping[str, Sequence[str]]) -> NDArray[np.bool_]:
        """`(n_cells,)` those with one of the labels of each term."""
        allowed = {name: np.ones(len(values), dtype=np.bool_) for name, values in self._attributes.items()}
        for term, stated in labels.items():
            attribute = term if term in self._attributes else self._recodes[term][0]
            values = {value for label in stated for value in self.groups(term)[label]}
            allowed[attribute] &= np.array([value in values for value in self._attributes[attribute]])
        found = np.ones(1, dtype=np.bool_)
        for own in allowed.values():
            found = (found[:, None] & own[None, :]).ravel()
        return found

    def answers(self, query: str) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """The label of each answer of a query, and its cells; terms stand in the order of their attributes."""
        fixed = {"total": [], "detailed": list(self._attributes)}
        order = list(self._attributes)
        words = fixed.get(query, [word.strip() for word in query.split("*")])
        terms = sorted(words, key=lambda term: order.index(term if term in order else self._recodes[term][0]))
        for labels in itertools.product(*(self.groups(term) for term in terms)):
            cells = self.cells({term: [label] for term, label in zip(terms, labels, strict=True)})
            yield " * ".join(labels) or "total", cells

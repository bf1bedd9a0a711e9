"""How many members of a group of persons a household has, as the spec's joins say.

The joins are read from the public spec as docs/spec.md describes them, cell by cell: how many members of a group of
persons live in one household of each cell.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from auditor.reading.cells import Cells
from auditor.reading.errors import FormError

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
    persons: NDArray[np.bool_]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


def joined_groups(join: Mapping[str, Any], persons: Cells, households: Cells) -> list[JoinedGroup]:
    """The groups of persons that an entry of the public spec's `join` limits.

    Raises:
        FormError: the entry is none that docs/spec.md describes.
    """
    form = next((form for form in _FORMS if form in join), None)
    try:
        if form is None:
            raise ValueError(f"it has none of the keys {', '.join(_FORMS)}")
        name = f"{join['companion']} {' and '.join(join.get('present', [form]))}"
        groups = [JoinedGroup(name, *group) for group in _FORMS[form](join, persons, households)]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FormError(f"public/manifest.json: a join of its spec cannot be understood: {reason}") from error
    if not join["others"]:
        return groups
    return [JoinedGroup(g.join, g.label, g.persons, g.least, np.full_like(g.most, NO_LIMIT)) for g in groups]


#: The label of a group, its cells of persons, and the least and most members for each cell of households.
_Group = tuple[str, NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]


def _of_size(join: Mapping[str, Any], persons: Cells, households: Cells) -> Iterator[_Group]:
    least, most = np.zeros(households.size, dtype=np.int64), np.zeros(households.size, dtype=np.int64)
    for label in households.labels(join["size"]):
        size = re.fullmatch(r"([0-9]+)(\+?)", label)
        if size is None:
            raise ValueError(f"{label!r} of {join['size']!r} is no size of a household")
        these = households.fitting({join["size"]: [label]})
        least[these] = int(size[1])
        most[these] = join.get("most", NO_LIMIT) if size[2] else int(size[1])
    yield _in_words(join["where"]), persons.fitting(join["where"]), least, most


def _of_householder(join: Mapping[str, Any], persons: Cells, households: Cells) -> Iterator[_Group]:
    terms: dict[str, str] = join["householder"]
    for values in itertools.product(*(persons.labels(term) for term in terms)):
        these = np.ones(households.size, dtype=np.bool_)
        for term, value in zip(terms.values(), values, strict=True):
            these &= households.fitting({term: [value]}) if value in households.labels(term) else False
        own = {term: [value] for term, value in zip(terms, values, strict=True)}
        one = these.astype(np.int64)
        group = persons.fitting(join["where"]) & persons.fitting(own)
        yield _in_words({**join["where"], **own}), group, one, one if join["exactly"] else np.full_like(one, NO_LIMIT)


def _of_present(join: Mapping[str, Any], persons: Cells, households: Cells) -> Iterator[_Group]:
    these = households.fitting(join["present"])
    group = persons.fitting(join["where"]) & persons.fitting(join["members"])
    yield _in_words({**join["where"], **join["members"]}), group, these.astype(np.int64), np.where(these, NO_LIMIT, 0)


def _of_table(join: Mapping[str, Any], persons: Cells, households: Cells) -> Iterator[_Group]:
    own, theirs = persons.query(join["persons"]), households.query(join["households"])
    for label, row in join["table"].items():
        limits = [row[kind] for kind in theirs.labels]
        least = np.array([limit[0] for limit in limits], dtype=np.int64)
        most = np.array([limit[1] if len(limit) > 1 else NO_LIMIT for limit in limits], dtype=np.int64)
        yield label, own.of_cell == own.labels.index(label), least[theirs.of_cell], most[theirs.of_cell]


_FORMS = {"size": _of_size, "householder": _of_householder, "present": _of_present, "table": _of_table}


def _in_words(values: Mapping[str, Any]) -> str:
    return " * ".join(" or ".join(labels) for labels in values.values()) or "total"


def largest_households(joins: Sequence[Mapping[str, Any]], cells: Mapping[str, Cells]) -> dict[str, int]:
    """For each companion that is joined, the members of its largest household.

    Args:
        joins: entries of the public spec's `join`.
        cells: of the persons "", and of each companion.

    Raises:
        FormError: an entry is none that docs/spec.md describes.
    """
    joined: dict[str, list[list[JoinedGroup]]] = {}
    for join in joins:
        companion = str(join["companion"])
        if companion not in cells:
            raise FormError(f"public/manifest.json: a join is with {companion!r}, which is no companion")
        groups = joined_groups({**join, "others": False}, cells[""], cells[companion])
        joined.setdefault(companion, []).append(groups)
    return {companion: _largest(groups) for companion, groups in joined.items()}


def _largest(joins: Sequence[Sequence[JoinedGroup]]) -> int:
    """From the groups of each join: the least of the limits that hold for all members, else what is to be stated."""
    persons = [np.logical_or.reduce([group.persons for group in groups]) for groups in joins]
    least = [int(np.sum([group.least for group in groups], axis=0).max()) for groups in joins]
    limited = [
        (of, int(np.sum([group.most for group in groups], axis=0).max()))
        for of, groups in zip(persons, joins, strict=True)
        if all((group.most != NO_LIMIT).all() for group in groups)
    ]
    members = np.logical_or.reduce(persons)
    limits = [most for of, most in limited if np.array_equal(of, members)]
    if limited and np.array_equal(np.logical_or.reduce([of for of, _ in limited]), members):
        limits.append(sum(most for _, most in limited))
    return min(limits, default=max(ANY_NUMBER, *least))

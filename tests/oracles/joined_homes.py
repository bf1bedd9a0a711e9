"""The joins of the town of households, and an independent look at whether households keep them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.joins.mathematics.membership import NO_MOST, Membership
from oracles.households import HOUSEHOLDS, PERSONS, SIZES, marginal, records
from postprocess.marginal import Marginal


def membership(
    name: str,
    persons: Marginal,
    households: Marginal,
    bounds: NDArray[np.int64],
    inside: Sequence[int],
    *,
    others: bool,
) -> Membership:
    """A join; `bounds` `(persons.size, households.size, 2)`."""
    mask = np.zeros(persons.size, dtype=np.bool_)
    mask[list(inside)] = True
    least, most = np.where(mask[:, None], bounds[..., 0], 0), np.where(mask[:, None], bounds[..., 1], 0)
    return Membership(name, persons, households, least, most, mask, others, np.full(least.shape, np.nan))


def town_joins(*, others: bool = False) -> list[Membership]:
    """Size, one householder of the stated age, children or none; with `others` nothing says who lives in quarters."""
    where = {"a0": None} if not others else {}
    inside = (0,) if not others else None
    size = marginal("size", PERSONS, **where)
    bounds = np.zeros((size.size, 5, 2), dtype=np.int64)
    bounds[0] = SIZES
    joins = [membership("size", size, marginal("size", HOUSEHOLDS, a0=None), bounds, (0,), others=others)]
    holder = marginal("holder", PERSONS, **where, a1=None, a2=(0, 0, 1, 2))
    bounds = np.zeros((holder.size, 2, 2), dtype=np.int64)
    bounds[3:6, :, 1] = NO_MOST  # others of any age
    for band in range(2):
        bounds[1 + band, band] = 1
    held = range(6) if inside is not None else range(holder.size)
    joins.append(membership("holder", holder, marginal("age", HOUSEHOLDS, a1=None), bounds, held, others=others))
    child = marginal("child", PERSONS, **where, a2=(0, 0, 1, 1))
    bounds = np.zeros((child.size, 2, 2), dtype=np.int64)
    bounds[0, 1] = (1, NO_MOST)
    bounds[1] = (0, NO_MOST)
    joins.append(membership("child", child, marginal("kids", HOUSEHOLDS, a2=None), bounds, range(2), others=others))
    return joins


def broken(
    joins: Sequence[Membership], persons: sp.csr_array, households: sp.csr_array, number: NDArray[np.int64]
) -> list[str]:
    """What is wrong with an assignment, household by household."""
    person_leaf, person_cell = records(persons)
    house_leaf, house_cell = records(households)
    wrong = []
    members: dict[tuple[int, int], list[int]] = {}
    for leaf, cell, home in zip(person_leaf.tolist(), person_cell.tolist(), number.tolist(), strict=True):
        inside = any(join.inside[join.persons.cell_answer[cell]] for join in joins)
        free = all(join.others for join in joins)
        if home < 0 and inside and not free:
            wrong.append(f"leaf {leaf}: a person of cell {cell} has no household")
        if home >= 0 and not inside:
            wrong.append(f"leaf {leaf}: a person of cell {cell} is in household {home}")
        members.setdefault((leaf, home), []).append(cell)
    first = {leaf: at for at, leaf in reversed(list(enumerate(house_leaf.tolist())))}
    for at, (leaf, kind) in enumerate(zip(house_leaf.tolist(), house_cell.tolist(), strict=True)):
        inside_it = members.pop((leaf, at - first[leaf]), [])
        for join in joins:
            b = join.households.cell_answer[kind]
            for a in np.flatnonzero(join.inside).tolist():
                found = sum(join.persons.cell_answer[cell] == a for cell in inside_it)
                if not join.least[a, b] <= found <= join.most[a, b]:
                    wrong.append(f"leaf {leaf}, household {at - first[leaf]}: {join.name}, answer {a}: {found}")
    return wrong + [f"leaf {leaf}: no household {home}" for leaf, home in members if home >= 0]


def compositions(joins: Sequence[Membership], cell: int, cells: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """All persons by cell (of `cells`, up to `most` each) that a household of a cell may hold."""
    for counts in itertools.product(range(most + 1), repeat=len(cells)):
        kept = True
        for join in joins:
            b = join.households.cell_answer[cell]
            sums = np.bincount(join.persons.cell_answer[list(cells)], counts, minlength=join.persons.size)
            kept &= bool(((sums >= join.least[:, b]) & (sums <= join.most[:, b]))[join.inside].all())
        if kept:
            yield counts

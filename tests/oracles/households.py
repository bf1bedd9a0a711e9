"""A population made of households, and an independent look at whether households keep their joins."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.marginal import Marginal
from postprocess.membership import NO_MOST, Membership

#: quarters (home, dorm), role (householder, other), age (two of children, two of adults), sex.
PERSONS = (2, 2, 4, 2)
#: size (1, 2, 3, 4, 5 to 7), householder's age, children (none, some), tenure.
HOUSEHOLDS = (5, 2, 2, 2)
SIZES = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 7))


def marginal(name: str, shape: Sequence[int], **kept: Sequence[int] | None) -> Marginal:
    """A query: `a0=None` keeps attribute 0, `a1=(0, 0, 1)` recodes attribute 1; the others are summed out."""
    groups = [np.zeros(n, dtype=np.int64) for n in shape]
    for attribute, recode in kept.items():
        at = int(attribute[1:])
        groups[at] = np.arange(shape[at]) if recode is None else np.array(recode, dtype=np.int64)
    return Marginal(name, tuple(groups))


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


def drawn_town(n_leaves: int, seed: int, mean: float = 6.0) -> tuple[sp.csr_array, sp.csr_array]:
    """Persons and households `(n_leaves, n_cells)` that were drawn together; who lives where is forgotten."""
    rng = np.random.default_rng(seed)
    homes = rng.poisson(mean, n_leaves) * (rng.random(n_leaves) < 0.9)
    leaf = np.repeat(np.arange(n_leaves), homes)
    size = rng.choice(5, len(leaf), p=[0.27, 0.33, 0.16, 0.14, 0.1])
    members = np.array([low for low, _ in SIZES])[size] + np.where(size == 4, rng.integers(0, 3, len(leaf)), 0)
    band, tenure = rng.integers(0, 2, len(leaf)), rng.integers(0, 2, len(leaf))
    person_home = np.repeat(np.arange(len(leaf)), members)
    holder = np.diff(person_home, prepend=-1) != 0
    age = np.where(holder, 2 + band[person_home], rng.choice(4, len(person_home), p=[0.25, 0.2, 0.25, 0.3]))
    kids = np.bincount(person_home[age < 2], minlength=len(leaf)) > 0
    sex = rng.integers(0, 2, len(person_home))
    in_home = np.ravel_multi_index((np.zeros_like(age), (~holder).astype(int), age, sex), PERSONS)
    dorm = np.repeat(np.arange(n_leaves), rng.poisson(0.5, n_leaves))
    in_dorm = np.ravel_multi_index((np.ones_like(dorm), np.ones_like(dorm), 2 + dorm % 2, dorm % 2), PERSONS)
    persons = counted(np.concatenate([leaf[person_home], dorm]), np.concatenate([in_home, in_dorm]), n_leaves, PERSONS)
    cell = np.ravel_multi_index((size, band, kids.astype(int), tenure), HOUSEHOLDS)
    return persons, counted(leaf, cell, n_leaves, HOUSEHOLDS)


def counted(leaf: NDArray[np.int64], cell: NDArray[np.int64], n_leaves: int, shape: Sequence[int]) -> sp.csr_array:
    """Records as counts."""
    n_cells = int(np.prod(shape))
    ones = np.ones(len(leaf), dtype=np.int64)
    matrix = sp.coo_array((ones, (leaf, cell)), shape=(n_leaves, n_cells)).tocsr()
    matrix.sum_duplicates()
    return matrix


def records(counts: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Leaf and cell of each record, in the order of microdata."""
    dense = counts.toarray()
    leaf, cell = np.nonzero(dense)
    return np.repeat(leaf, dense[leaf, cell]), np.repeat(cell, dense[leaf, cell])


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

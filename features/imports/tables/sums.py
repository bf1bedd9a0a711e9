"""Finds columns of counts that are sums of others, by their values in all rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Arithmetic is modulo this prime while relations are looked for; what is found is checked in whole numbers.
_PRIME = 2**31 - 1
_MOST_EXPANSIONS = 200


@dataclass(frozen=True)
class SameTotal:
    """Sets of columns that add up to the same in every row; each set counts the same people once.

    Attributes:
        totals: columns that are the total itself, in the file's order; may be empty.
        partitions: sets of several columns, in the file's order, none of them with a total of another set in it.
    """

    totals: tuple[str, ...]
    partitions: tuple[tuple[str, ...], ...]


def sums_of_rest(cells: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Of each value whether it is the sum of all others in every cell, and how many bits of agreement that is.

    Args:
        cells: `(n_groups, n_values, n_columns)`, not negative.
    """
    right = (2 * cells == cells.sum(axis=1, keepdims=True)).all(axis=(0, 2))
    return right, np.log2(1.0 + cells).sum(axis=(0, 2))


def equal_sums(names: Sequence[str], counts: NDArray[np.int64]) -> list[tuple[frozenset[str], frozenset[str]]]:
    """Pairs of sets of columns whose sums are the same in every row of `counts` (n_rows, n_columns).

    A basis of such relations is found, not all of them: others follow from these.
    """
    present = [i for i in range(len(names)) if counts[:, i].any()]
    if len(present) < 2:
        return []
    values = counts[:, present]
    few = np.unique(np.linspace(0, len(values) - 1, min(len(values), 4 * len(present) + 100)).astype(np.int64))
    pairs = []
    for column, coefficients in _dependencies(values[few] % _PRIME):
        signs = np.where(coefficients > _PRIME // 2, coefficients - _PRIME, coefficients)
        signs[column] = -1
        if np.abs(signs).max() > 1 or (values @ signs).any():
            continue
        sides = [frozenset(names[present[i]] for i in np.flatnonzero(signs == sign)) for sign in (1, -1)]
        if all(sides):
            pairs.append((sides[0], sides[1]))
    return pairs


def _dependencies(rows: NDArray[np.int64]) -> Iterable[tuple[int, NDArray[np.int64]]]:
    """Each column that is a combination of columns before it, with their coefficients modulo the prime."""
    matrix = rows.copy()
    n_columns = matrix.shape[1]
    pivots: list[int] = []
    for column in range(n_columns):
        candidates = np.flatnonzero(matrix[len(pivots) :, column])
        if not candidates.size:
            coefficients = np.zeros(n_columns, dtype=np.int64)
            coefficients[pivots] = matrix[: len(pivots), column]
            yield column, coefficients
            continue
        at = len(pivots)
        row = at + int(candidates[0])
        matrix[[at, row]] = matrix[[row, at]]
        matrix[at] = matrix[at] * pow(int(matrix[at, column]), -1, _PRIME) % _PRIME
        others = np.flatnonzero(matrix[:, column])
        others = others[others != at]
        matrix[others] = (matrix[others] - matrix[others, column][:, None] * matrix[at]) % _PRIME
        pivots.append(column)


@dataclass(frozen=True)
class Sums:
    """What adds up to what.

    Attributes:
        groups: sets of columns with the same total, those of parts of another total left out.
        totals: column -> the columns whose sum it is, or the one that it repeats.
    """

    groups: tuple[SameTotal, ...]
    totals: dict[str, tuple[str, ...]]


def find_sums(names: Sequence[str], counts: NDArray[np.int64]) -> Sums:
    """The sums among the columns of `counts` (n_rows, n_columns)."""
    classes = _joined(equal_sums(names, counts))
    order = {name: i for i, name in enumerate(names)}
    totals: dict[str, tuple[str, ...]] = {}
    for sets in classes:
        alone = sorted(
            (next(iter(combination)) for combination in sets if len(combination) == 1), key=order.__getitem__
        )
        several = sorted(
            (_ordered(combination, order) for combination in sets if len(combination) > 1), key=len, reverse=True
        )
        parts = several[0] if several else tuple(alone[:1])
        totals.update(dict.fromkeys(alone if several else alone[1:], parts))
    inner = {name for sets in classes for combination in sets for name in combination if len(combination) > 1}
    groups = []
    for sets in classes:
        alone = sorted(
            (next(iter(combination)) for combination in sets if len(combination) == 1), key=order.__getitem__
        )
        expanded = _expanded(sets, classes)
        parts_of = [combination for combination in expanded if len(combination) > 1 and not combination & totals.keys()]
        is_part = any(
            combination < other for combination in expanded for group in classes if group is not sets for other in group
        )
        if not parts_of or (alone and set(alone) <= inner) or (not alone and is_part):
            continue
        partitions = sorted(
            {_ordered(combination, order) for combination in parts_of},
            key=lambda combination: [order[name] for name in combination],
        )
        groups.append(SameTotal(tuple(alone), tuple(partitions)))
    return _without_inner(names, counts, Sums(tuple(groups), totals), order)


def sums_of_smaller(names: Sequence[str], counts: NDArray[np.int64]) -> dict[str, tuple[str, ...]]:
    """Column -> two or more others whose sum it is in every row of `counts` (n_rows, n_columns).

    Parts have fewer people than their sum, so that columns are taken from the smallest on: each is new, or the sum of
    columns before it. Agreement that may be an accident, with so many columns to choose from, is none.
    """
    sizes = counts.sum(axis=0)
    present = [int(i) for i in np.argsort(sizes, kind="stable") if sizes[i]]
    values = counts[:, present]
    few = np.unique(np.linspace(0, len(values) - 1, min(len(values), 4 * len(present) + 100)).astype(np.int64))
    found = {}
    for column, coefficients in _dependencies(values[few] % _PRIME):
        parts = np.flatnonzero(coefficients)
        bits = np.log2(1.0 + values[:, column]).sum()
        if len(parts) < 2 or (coefficients > 1).any() or bits <= len(names):
            continue
        if np.array_equal(values[:, parts].sum(axis=1), values[:, column]):
            found[names[present[column]]] = tuple(names[i] for i in sorted(present[part] for part in parts))
    return found


def _without_inner(names: Sequence[str], counts: NDArray[np.int64], sums: Sums, order: Mapping[str, int]) -> Sums:
    """The sums, with those that are left among the parts, as of nested and crossed ones, in place of their parts."""
    rest = [i for i, name in enumerate(names) if name not in sums.totals]
    inner = sums_of_smaller([names[i] for i in rest], counts[:, rest])
    if not inner:
        return sums
    groups = []
    for group in sums.groups:
        finer: dict[tuple[str, ...], None] = {}
        for partition in group.partitions:
            parts = [part for name in partition for part in inner.get(name, (name,))]
            if len(set(parts)) == len(parts) and not any(part in inner for part in parts):
                finer[_ordered(parts, order)] = None
        groups.append(SameTotal(group.totals, tuple(sorted(finer, key=lambda one: [order[name] for name in one]))))
    totals = {**sums.totals, **inner}
    found = tuple(group for group in groups if group.partitions)
    if not found:
        whole = max(totals, key=lambda name: (int(counts[:, order[name]].sum()), -order[name]))
        parts = _finest(whole, totals)
        if len(set(parts)) == len(parts):
            found = (SameTotal((whole,), (_ordered(parts, order),)),)
    return Sums(found, totals)


def _finest(name: str, totals: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns that are no sums, and add up to a column."""
    if name not in totals:
        return [name]
    return [part for one in totals[name] for part in _finest(one, {k: v for k, v in totals.items() if k != name})]


def _ordered(names: Iterable[str], order: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(names, key=order.__getitem__))


def _joined(pairs: Sequence[tuple[frozenset[str], frozenset[str]]]) -> list[set[frozenset[str]]]:
    """Sets with the same sum, together."""
    classes: list[set[frozenset[str]]] = []
    for pair in pairs:
        touched = [group for group in classes if group & set(pair)]
        merged = set(pair).union(*touched)
        classes = [group for group in classes if group not in touched] + [merged]
    return classes


def _expanded(sets: set[frozenset[str]], classes: Sequence[set[frozenset[str]]]) -> set[frozenset[str]]:
    """The sets, and those with a part replaced by another set of the same sum."""
    combinations = set(sets)
    waiting = list(sets)
    while waiting and len(combinations) < _MOST_EXPANSIONS:
        combination = waiting.pop()
        for group in classes:
            for part in group:
                if part < combination:
                    for other in group:
                        new = (combination - part) | other
                        if other != part and not (combination - part) & other and new not in combinations:
                            combinations.add(new)
                            waiting.append(new)
    return combinations

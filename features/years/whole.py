"""Whole numbers of a history: near to the linear ones, not negative, that add up and keep bounds in every period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from features.years.history import Exact, LevelHistory
from geography.spine import Spine
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.bounds.declare import UNBOUNDED
from postprocess.errors import SolverError
from postprocess.families.family import Family, GroupRange, violation
from postprocess.families.precisions import Dense
from postprocess.families.rounding import GroupLevel, round_family, tie_breaks
from postprocess.families.solve import solve_families
from postprocess.problem import Constraints, GroupBounds

__all__ = ["whole_histories"]


def whole_histories(
    spine: Spine,
    linear: Sequence[LevelHistory],
    seed: int,
    exact: Sequence[Exact | None] | None = None,
    kept: Sequence[Constraints] | None = None,
) -> list[IntArray]:
    """Non-negative whole numbers `(n, T, c)` of each level near the linear ones; in every period children add up.

    Top down: the children of a geounit are as near to the linear ones as their covariances within the period say, given
    its numbers: a sum of cells that was measured well stays where it is, though cells below 0 are raised.

    Args:
        spine: the geounits.
        linear: estimates of each level, of the cells that are possible.
        seed: public, of ties.
        exact: per level what the linear ones keep exactly; None for nothing.
        kept: of each period what the whole ones keep, at every level; None for nothing.

    Raises:
        SolverError: a geounit's numbers leave no whole numbers for its children that keep what is to be kept.
    """
    possible = np.ones(linear[0].mean.shape[2], dtype=bool)
    if kept is not None:
        possible = ~kept[0].structural_zeros
    out: list[IntArray] = []
    for level, history in enumerate(linear):
        n, periods, cells = history.mean.shape
        precision = _precision(history, None if exact is None else exact[level])
        bounds = [() if kept is None else kept[period].bounds[level] for period in range(periods)]
        whole = np.zeros((n, periods, cells), dtype=np.int64)
        if level == 0 and not any(bounds):
            whole[:] = np.maximum(np.rint(history.mean), 0)
            out.append(whole)
            continue
        work = []
        for name, parent, rows in _families_of(spine, level):
            for period in range(periods):
                above = None if parent is None else out[-1][parent, period]
                place = _Place(f"{name}, period {period + 1} of the series", rows, period)
                work.append(_work(place, history, precision, above, bounds[period], possible))
        solutions = solve_families([each.family for each in work], "auto")
        for each, solution in zip(work, solutions, strict=True):
            rows, period = each.place.rows, each.place.period
            keys = [np.array([[level]]), np.arange(rows.start, rows.stop)[:, None], np.arange(cells)[None, :]]
            ties = tie_breaks(seed + period, np.broadcast_arrays(*keys))
            rounded = round_family(each.family, solution.x, each.chain, ties)
            if violation(each.family, rounded.astype(np.float64)) > 0:
                raise SolverError(f"{each.family.name}: the rounded solution breaks a constraint")
            whole[rows, period] = rounded
        out.append(whole)
    return out


@dataclass(frozen=True)
class _Place:
    """The children of a parent, `rows` of their level, in a period."""

    name: str
    rows: slice
    period: int


@dataclass(frozen=True, eq=False)
class _Work:
    """A family, and the partitions that its rounding keeps."""

    place: _Place
    family: Family
    chain: tuple[GroupLevel, ...]


def _families_of(spine: Spine, level: int) -> Iterator[tuple[str, int | None, slice]]:
    """Name, number and children of each parent; at the top every geounit by itself."""
    if level == 0:
        for row, geocode in enumerate(spine.levels[0].geocodes.tolist()):
            yield f"{spine.levels[0].name} {geocode}", None, slice(row, row + 1)
        return
    above = spine.levels[level - 1]
    offsets = np.searchsorted(spine.levels[level].parents, np.arange(len(above) + 1))
    for parent, (first, stop) in enumerate(pairwise(offsets.tolist())):
        yield f"{above.name} {above.geocodes[parent]}", parent, slice(first, stop)


def _precision(history: LevelHistory, exact: Exact | None) -> FloatArray:
    """`(n, T, c, c)`: inverses of the covariances within each period; on what is known exactly they do not matter."""
    spread = np.einsum("ntctd->ntcd", history.covariance)
    if exact is None:
        return np.asarray(np.linalg.inv(spread))
    basis = exact.basis
    inside = np.linalg.inv(basis.T @ spread @ basis)
    scale = np.einsum("ntkk->nt", inside)[:, :, None, None] / max(1, basis.shape[1])
    return np.asarray(basis @ inside @ basis.T + scale * (np.eye(len(basis)) - basis @ basis.T))


def _work(
    place: _Place,
    history: LevelHistory,
    precision: FloatArray,
    parent: IntArray | None,
    bounds: Sequence[GroupBounds],
    possible: BoolArray,
) -> _Work:
    mean, own = history.mean[place.rows, place.period], precision[place.rows, place.period]
    scaled = own / np.einsum("ncc->nc", own).mean()
    above = np.full(mean.shape[1], float(UNBOUNDED)) if parent is None else parent.astype(np.float64)
    upper = np.broadcast_to(above, mean.shape).copy()
    ranges = tuple(_ranges(bounds, place.rows, upper, possible))
    chain = [GroupLevel(one.group, one.lower.astype(np.int64), one.upper.astype(np.int64)) for one in ranges]
    family = Family(
        name=place.name,
        precision=Dense(scaled),
        linear=np.matmul(scaled, mean[:, :, None])[:, :, 0],
        upper=upper,
        parent=None if parent is None else above,
        held_group=None,
        held=None,
        ranges=ranges,
    )
    return _Work(place, family, tuple(sorted(chain, key=lambda partition: partition.lower.shape[1])))


def _ranges(bounds: Sequence[GroupBounds], rows: slice, upper: FloatArray, possible: BoolArray) -> Iterator[GroupRange]:
    """The bounds that say more than that no cell is above its own limit."""
    for bound in bounds:
        present, group = np.unique(bound.marginal.cell_answer[possible], return_inverse=True)
        low, high = (limit[rows][:, present].astype(np.float64) for limit in (bound.lower, bound.upper))
        most = np.zeros_like(high)
        np.add.at(most.T, group, upper.T)
        if (low > 0).any() or (high < most).any():
            yield GroupRange(group, low, np.maximum(np.minimum(high, most), low))

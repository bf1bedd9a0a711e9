"""How large the arrays of a run are, from its spec and the spine alone: of each kind, of each universe.

Bytes of an array are stated where it is made (`batch_bytes` and others); here is of what sizes they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from geography.spine import Spine
from pipeline.estimation.around_estimates import MeasuredSums
from pipeline.estimation.whole_spine import is_by_sums
from pipeline.model.draw import by_level, everywhere
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.release.long_tables import is_long as is_sparse
from postprocess.algebra import Basis
from postprocess.downward.batch import batch_bytes
from postprocess.downward.subtrees import cut_level
from postprocess.families.active_set import STACK_NUMBERS
from postprocess.families.family import MOST_TOGETHER, STACK_BYTES
from postprocess.linear.upward import ChildGroups
from postprocess.marginal import refines
from postprocess.sums.space import Space, narrow_from

#: Records in a leaf, and how many of an area's records have the r-th most common cell if a schema has several
#: attributes: a share proportional to (r + OFFSET) ** -EXPONENT. Where the spec does not state the population a typical
#: one is assumed: with these, areas of the 2020 census fill as many of the 2,016 cells of P.L. 94-171 as they do,
#: within a sixth (33 in a block group, 183 in a county, 383 in a state of a million).
RECORDS, OFFSET, EXPONENT = 40.0, 1.0, 2.7
#: Records in a leaf at most, where a schema has one attribute, such as age: all its values are common.
MOST_RECORDS = 2_000.0
#: Different sets of zeros of the leaves of a parent, and of all leaves, where public bounds say who can live there.
PATTERNS, ALL_PATTERNS = 3, 64

#: Positive cells of an area of a wide schema whose detail is measured: so many times a power of its persons, with so
#: many persons in a leaf where the spec does not state the population, but a share of the cells at most. Of the 44,544
#: cells of 1940's schema 1,836 are positive in a state of 72,554 persons, 1,028 in counties of 42,000 and 5,091 in two
#: millions (`benchmarks/bench_scale.py`). The bound on memory takes as many persons of any schema.
POSITIVE, POWER, WIDE_RECORDS, POSITIVE_SHARE = 17.0, 0.4, 400.0, 0.125
#: Where it is not, at the top a share of the answers of its largest query: of 2,784 about 410, which made 6,622 cells
#: positive; and the power of the number of areas by which they become fewer from level to level.
POSITIVE_ANSWERS, FEWER = 0.15, -0.5
#: Sizes and errors, in pairs, that a cell of a table sees at most: no more than there are geounits.
PLACES = 2_000
#: Positive cells of an area, as a share of the possible ones, where the detail of very many is measured beside few
#: sums: it is not where few have persons, and where that is more than so many cells.
FILLED_SHARE, FILLED_CELLS = 0.25, 400
#: Possible cells up to which all are assumed to be in the problem of the area at the top.
ALL_AT_TOP = 4096
#: Cells of a family, in those that are assumed to be in it, for the bound on memory.
MORE_CELLS = 1.5

#: Of a schema that is estimated on sums (`benchmarks/bench_scale.py`): numbers for each possible cell while the top is
#: solved, in the units of `Size.above`; and the cells of a family, so many times a power of its parent's persons: those
#: of 1,227,744 that are positive, and those with persons of the 4,000 that the sums of the lower levels tell apart.
CELLS_AT_TOP = 18
ON_CELLS, ON_SUMS = (7.0, 0.66), (34.0, 0.4)


@dataclass(frozen=True)
class Size:
    """The sizes of the arrays of one universe, in numbers; in bytes where that is said, as their owners state them.

    Attributes:
        geounits: of all levels.
        cells: of the schema.
        possible: of these, the cells that are not structural zeros.
        at_top: cells in the problem of the area at the top: all possible ones, or of wide schemas the positive ones.
        filled: cells that can have persons, of the level that has most, where those of the level above count a quarter:
            a histogram is held, and no copies of it.
        measured: noisy answers.
        positive: of these, those that are drawn where the area above is positive, of the level that has most.
        above: cells of the geounits above the leaves, dense.
        block: numbers of the matrix of a geounit.
        matrices: numbers of the matrices of the upward pass: one for alike geounits.
        upper: of these, those down to the level below which simulated runs are of a sample; 0 where they are not.
        final: numbers of the covariances after both passes, of two levels at a time.
        batch: bytes of a batch of families.
        stack: bytes of the matrices of the families that are solved together, or of the largest one.
        largest_table: numbers of the table that has most at a level, but for those that are long and sparse.
        simulated: numbers whose errors are counted in simulated runs: those of tables, and of what features publish
            beside them.
        widest: numbers of the query with an interval that has most at a level, of at most `PLACES` areas.
        columns: answers of the tables at each level, but for those that are long and sparse.
        estimated: numbers whose intervals are around unbiased estimates.
    """

    geounits: int
    cells: int
    possible: int
    at_top: float
    filled: float
    measured: int
    positive: int
    above: int
    block: int
    matrices: int
    upper: int
    final: int
    batch: float
    stack: float
    largest_table: int
    simulated: int
    widest: int
    columns: int
    estimated: int

    @classmethod
    def of(cls, universe: Universe, spine: Spine, *, moved: bool = False, estimator: str = "full") -> Size:
        """The sizes of a universe's arrays; `moved` where universes make room at the top (`Link.moves_top`)."""
        if is_by_sums(universe):
            return _size_on_sums(universe, spine)
        cells, possible = universe.schema.n_cells, possible_cells(universe)
        common = sum(size > 1 for size in universe.schema.shape) < 2
        counts = [len(level) for level in spine.levels]
        basis = basis_of_spec(universe)
        block = basis.n_blocks * basis.n_asymmetric**2
        upward, final = alike_matrices(spine, whole=not universe.bounds)
        people = None if universe.population is None else universe.population / spine.n_leaves
        cut = cut_level(spine)
        at_top = (
            float(possible) if possible <= ALL_AT_TOP or moved else _at_top(universe, possible, spine.n_leaves, people)
        )
        leaves = [spine.n_leaves / n for n in counts]
        positive = [_filled(possible, own, people, common=common) for own in leaves]
        if at_top < possible:
            positive = [
                max(k, _positive(universe, at_top, own, n, people))
                for k, own, n in zip(positive, leaves, counts, strict=True)
            ]
        elif _is_filled(universe, possible):
            most = FILLED_SHARE * possible
            positive = [
                max(k, most if people is None else min(most, people * own))
                for k, own in zip(positive, leaves, strict=True)
            ]
        # Below the top no family has more cells with persons than its parent.
        in_family = [at_top, *positive[:-1]]
        drawn = _drawn(universe, counts, in_family)
        tables = _published(universe, spine)
        around = MeasuredSums(universe, estimator)
        tabulated = [
            (measured.query, level) for measured in universe.tabulated for level in map(spine.index_of, measured.levels)
        ]
        return cls(
            geounits=sum(counts),
            cells=cells,
            possible=possible,
            at_top=at_top,
            filled=_at_most(possible, counts, people),
            measured=_everywhere(universe, counts) + sum(drawn),
            positive=max(drawn),
            above=sum(counts[:-1]) * cells,
            block=block,
            matrices=sum(upward) * block,
            upper=0 if cut is None else sum(upward[: cut + 1]) * block,
            final=max(a + b for a, b in zip(final, [0, *final], strict=False)) * block,
            batch=batch_bytes(max(counts), _most_children(spine), cells, at_top),
            stack=_stack(spine, possible, people, in_family),
            largest_table=_largest(tables),
            simulated=sum(counts[level] * query.size for query, level in tabulated),
            widest=max((query.size * min(PLACES, counts[level]) for query, level in tabulated), default=0),
            columns=sum(size for _, size in tables if not is_sparse(size)),
            estimated=sum(
                counts[level] * query.size
                for query, level in tabulated
                if around.are_long(query, level) or around.are_compared(query, level)
            ),
        )


def _size_on_sums(universe: Universe, spine: Spine) -> Size:
    """The sizes of the arrays of a universe that is estimated on sums; the units are those of `Size`."""
    counts = [len(level) for level in spine.levels]
    levels = [[draw.query for draw in level] for level in by_level(everywhere(universe.draws()), spine.level_names)]
    first = narrow_from(levels)
    space = Space.of([query for level in levels[first:] for query in level])
    sums, possible = space.q.shape[1], possible_cells(universe)
    upward, _ = alike_matrices(spine, whole=True)
    people = None if universe.population is None else universe.population / spine.n_leaves
    persons = [(RECORDS if people is None else people) * spine.n_leaves / n for n in counts]
    in_family = [float(possible)]
    for level in range(1, len(counts)):
        wide = level < first or spine.level_names[level] in universe.strategy.where_positive
        (times, power), most = (ON_CELLS, possible) if wide else (ON_SUMS, space.cells.size)
        cells = min(most, times * persons[level - 1] ** power)
        in_family.append(min(cells, persons[level - 1]))
    drawn = _drawn(universe, counts, in_family)
    tables = _published(universe, spine)
    return Size(
        geounits=sum(counts),
        cells=universe.schema.n_cells,
        possible=possible,
        at_top=0.0,
        filled=_at_most(possible, counts, people),
        measured=_everywhere(universe, counts) + sum(drawn),
        positive=max(drawn),
        above=CELLS_AT_TOP * universe.schema.n_cells,
        block=sums**2,
        matrices=sum(upward[max(first - 1, 0) :]) * sums**2,
        upper=0,
        final=0,
        batch=0.0,
        stack=0.0,
        largest_table=_largest(tables),
        simulated=0,
        widest=0,
        columns=sum(size for _, size in tables),
        estimated=0,
    )


def _published(universe: Universe, spine: Spine) -> list[tuple[int, int]]:
    """Geounits and numbers of each of them, of each table at each level."""
    return [
        (len(spine.levels[spine.index_of(level)]), one.query.size) for one in universe.tables for level in one.levels
    ]


def _largest(tables: Sequence[tuple[int, int]]) -> int:
    """Numbers of the largest table at a level; those that are long and sparse are never whole in memory."""
    return max((n * size for n, size in tables if not is_sparse(size)), default=0)


def _at_most(possible: int, counts: Sequence[int], people: float | None) -> float:
    """Cells that can have persons, as `Size.filled` counts them: no more than records, each in a cell of its own."""
    levels = [0.0, *(min(float(n * possible), _records(counts[-1], people)) for n in counts)]
    return max(own + above / 4 for above, own in pairwise(levels))


def _records(leaves: int, people: float | None) -> float:
    """Records at most."""
    return leaves * (WIDE_RECORDS if people is None else people)


def _most_children(spine: Spine) -> int:
    """Children of the parent that has most."""
    return max((int(np.diff(spine.child_offsets(level)).max()) for level in range(spine.n_levels - 1)), default=1)


def _stack(spine: Spine, possible: int, people: float | None, in_family: Sequence[float]) -> float:
    """Bytes of the matrices of the families that are solved together, or of the largest one, if that has more.

    Args:
        spine: the geography.
        possible: cells; up to `MOST_TOGETHER` of them all are taken to be in every family.
        people: records in a leaf, where their number is public.
        in_family: cells that are assumed to be in a family, by the level of the children.
    """
    most = float(STACK_NUMBERS)
    for level in range(1, spine.n_levels):
        children = np.diff(spine.child_offsets(level - 1))
        # Of leaves up to the next power of two.
        powers = np.ceil(np.log2(np.diff(spine.leaf_offsets(level - 1))))
        for power in np.unique(powers):
            most_children = int(children[powers == power].max())
            filled = max(in_family[level], _filled(possible, 2.0**power, people, common=False))
            k = possible if possible <= MOST_TOGETHER else MORE_CELLS * filled
            most = max(most, most_children * min(k, MOST_TOGETHER) ** 2)
    return STACK_BYTES * most


def _everywhere(universe: Universe, counts: Sequence[int]) -> int:
    """Noisy answers of all geounits that are drawn everywhere."""
    of_level = dict(zip(universe.level_names, counts, strict=True))
    return sum(of_level[draw.level] * draw.query.size for draw in everywhere(universe.draws()) if draw.own)


def _drawn(universe: Universe, counts: Sequence[int], in_family: Sequence[float]) -> list[int]:
    """Noisy answers that are drawn where the area above is positive, by level.

    Args:
        universe: that is measured.
        counts: geounits of each level.
        in_family: cells that are assumed to be positive in a parent, by the level of its children.
    """
    levels = by_level((draw for draw in universe.draws() if draw.where_positive), universe.level_names)
    return [
        round(sum(n * min(draw.query.size, cells) for draw in level))
        for n, cells, level in zip(counts, in_family, levels, strict=True)
    ]


def possible_cells(universe: Universe) -> int:
    """Cells of the schema that are not structural zeros."""
    return universe.schema.n_cells - int(np.count_nonzero(universe.structural_zeros))


def _at_top(universe: Universe, possible: int, leaves: int, people: float | None) -> float:
    """Cells that are assumed to be in the problem of the area at the top of a wide schema.

    Where the detail is measured, most cells are empty. Where it is not, persons are spread over all cells of the
    answers of the largest query that are not.
    """
    queries = _at_first_level(universe)
    largest = max(queries, key=lambda query: query.size, default=None)
    if largest is None or sum(size > 1 for size in largest.sizes) < 2:
        return float(possible)
    if largest.size == universe.schema.n_cells:
        return min(POSITIVE_SHARE * possible, _with_detail(leaves, people))
    filled = _filled(largest.size, leaves, people, common=False)
    return min(float(possible), max(POSITIVE_ANSWERS, filled / largest.size) * possible)


def _with_detail(leaves: float, people: float | None) -> float:
    """Cells of an area of so many leaves that are assumed to be positive where the detail is measured."""
    return POSITIVE * ((WIDE_RECORDS if people is None else people) * leaves) ** POWER


def _positive(universe: Universe, at_top: float, leaves: float, n: int, people: float | None) -> float:
    """Cells that are assumed to be positive in one of `n` areas of a wide schema, of `leaves` leaves each."""
    if any(query.size == universe.schema.n_cells for query in _at_first_level(universe)):
        return min(at_top, _with_detail(leaves, people))
    return min(at_top * n**FEWER, (RECORDS if people is None else people) * leaves)


def _at_first_level(universe: Universe) -> list[Query]:
    """What is measured of the area at the top."""
    return [draw.query for draw in universe.draws() if draw.own and draw.level == universe.level_names[0]]


def _distinct(universe: Universe) -> list[Query]:
    """Each query once that is measured, or was received."""
    return list({draw.query.terms: draw.query for draw in universe.draws() if draw.own}.values())


def _filled(cells: int, leaves: float, people: float | None, *, common: bool) -> float:
    """Cells that are assumed not to be empty in an area of `leaves` leaves.

    Args:
        cells: that are possible.
        leaves: of the area.
        people: records in a leaf, where their number is public.
        common: whether all cells are.
    """
    if common:
        return min(float(cells), (MOST_RECORDS if people is None else people) * leaves)
    shares = (np.arange(1, cells + 1) + OFFSET) ** -EXPONENT
    return float(-np.expm1(-(RECORDS if people is None else people) * leaves * shares / shares.sum()).sum())


def _is_filled(universe: Universe, possible: int) -> bool:
    """Whether many cells of an area are taken to be positive: the detail is measured everywhere, beside few sums."""
    draws = by_level((draw for draw in universe.draws() if draw.own), universe.level_names)
    detailed = all(any(draw.query.size == universe.schema.n_cells for draw in level) for level in draws)
    few = _coarse_sums(universe) <= FILLED_SHARE * possible / 2.0
    return few and detailed and not universe.bounds and FILLED_SHARE * possible > FILLED_CELLS


def _coarse_sums(universe: Universe) -> float:
    """The sums of the finest queries that are measured besides the detail."""
    coarse = [query for query in _distinct(universe) if query.size < universe.schema.n_cells]
    finest = (query for query in coarse if not any(refines(other, query) for other in coarse if other is not query))
    return float(sum(query.size for query in finest))


def basis_of_spec(universe: Universe) -> Basis:
    """The basis of the measurements, as far as it follows from the spec."""
    queries = [*_distinct(universe), *universe.passes, *(bound.query for bound in universe.bounds)]
    shape = universe.schema.shape
    zeros = universe.structural_zeros.reshape(shape)
    uneven = [j for j in range(len(shape)) if not np.array_equal(zeros, np.roll(zeros, 1, axis=j))]
    return Basis.of(shape, list(queries), uneven)


def alike_matrices(spine: Spine, *, whole: bool) -> tuple[list[int], list[int]]:
    """How many different matrices each level has, in the upward pass and after both.

    Args:
        spine: the geography.
        whole: leaves do not differ in their zeros; else every parent is taken to have its own matrix, and its children,
            if they are leaves, as many as `PATTERNS` says.
    """
    n = [len(level) for level in spine.levels]
    if not whole:
        return [*n[:-1], min(n[-1], ALL_PATTERNS)], [*n[:-1], min(n[-1], PATTERNS * (n[-2] if len(n) > 1 else 1))]
    below, upward = np.zeros(n[-1], dtype=np.int64), [np.zeros(n[-1], dtype=np.int64)]
    for level in range(spine.n_levels - 2, -1, -1):
        nothing = np.zeros((n[level], 0), dtype=np.int8)
        groups = ChildGroups.of(spine.child_offsets(level), below, nothing, counted=level == spine.n_levels - 2)
        below = groups.classes
        upward.append(below)
    upward.reverse()
    final = [upward[0]]
    for level in range(1, spine.n_levels):
        keys = np.stack([final[-1][spine.levels[level].parents], upward[level]])
        final.append(np.unique(keys, axis=1, return_inverse=True)[1].ravel())
    return [int(classes.max()) + 1 for classes in upward], [int(classes.max()) + 1 for classes in final]

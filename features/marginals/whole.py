"""Non-negative whole numbers down the tree of areas: clique after clique along the junction tree, separators held.

An area's children get their numbers once its own are whole. In each clique, first there is the table that it shares
with its parent in the junction tree; then one attribute after the other comes to it (`cliques.Stage`), each by two-way
tables between the children and the values of the attribute (`transport`): children add up to their parent in every
cell, and every table adds up to the one before. So neighbouring cliques agree on their separator in every area, and no
step can fail: row and column sums of a two-way table have the same sum by construction.

The estimate that a table is drawn to is the linear one, given the whole numbers of the parent: what `linear.upward`
says of the children, with what they miss of their parent shared out by their variances, subset by subset. In the
clique's own cells noise is independent with one variance, and what other cliques say concerns separators only, which
are made before the rest; so noise gives the distance that is minimised a weight for each child and no more. To it comes
how alike the children of an area are (`transport`).

At the top there are no sums over children. There the two-way tables are between what is held beyond the separator and
the new attribute, whose sums are those of a table of their own, made before from its own, far better known estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from features.marginals.cliques import (
    AttributeSizes,
    Clique,
    CliqueStage,
    JunctionTree,
    marginal,
    residuals,
    subsets,
    table,
)
from features.marginals.linear import ResidualsOfLevel, shares, summed
from features.marginals.transport import (
    ExpectedCells,
    Shrinkage,
    TwoWayTables,
    centred,
    expected,
    nearest,
    project_columns,
    round_columns,
    round_tables,
)
from features.marginals.zeros import any_cell, possible_cells
from geography.errors import InputError
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.families.rounding import TIE_RANGE, mixed_bits, tie_breaks

_Cell = TypeVar("_Cell", np.float64, np.int64, np.bool_)
#: Cells of two-way tables that are worked on together.
AT_ONCE = 1 << 20
#: Steps of proportional fitting of a table that is filled in.
FITTED = 50
#: A use of the public seed here, apart from others'.
_ROUNDING = 0x6D617267
#: Of the two numbers that each cell is drawn with.
_DRAWN = (0x64726177, 0x64726179)


@dataclass(frozen=True)
class Seed:
    """The public seed: with it, numbers that only break ties or choose at random are the same in every run."""

    value: int

    def numbers(self, use: int, *keys: IntArray) -> IntArray:
        """Whole numbers of 14 bits that look random, one for each tuple of keys, which broadcast."""
        return tie_breaks(self.value, (np.array(use), *keys))

    def bits(self, use: int, *keys: IntArray) -> NDArray[np.uint64]:
        """The same of 64 bits."""
        return mixed_bits(self.value, (np.array(use), *keys))

    def uniform(self, use: int, *keys: IntArray) -> FloatArray:
        """Numbers between 0 and 1, in steps of 2^-28, that look random."""
        high, low = (self.numbers(use + half, *keys) for half in range(2))
        return (high * TIE_RANGE + low + 0.5) / TIE_RANGE**2


@dataclass(frozen=True, eq=False)
class ExactTable:
    """A table whose numbers are published exactly in all areas of a level: `(n, cells)`."""

    clique: Clique
    numbers: IntArray


@dataclass(frozen=True, eq=False)
class _Place:
    """A level that gets its numbers: what is known of it, its parents and their tables; none at the top."""

    number: int
    level: ResidualsOfLevel
    exact: ExactTable | None
    parent: IntArray | None
    above: Sequence[IntArray]
    alike: bool
    drawn: bool


def whole_numbers(
    tree: JunctionTree,
    levels: Sequence[ResidualsOfLevel],
    parents: Sequence[IntArray],
    seed: Seed,
    exact: Sequence[ExactTable | None] = (),
    zeros: Mapping[Clique, BoolArray] | None = None,
    *,
    alike: bool = True,
    drawn: bool = False,
) -> list[list[IntArray]]:
    """The whole numbers of each level: a table `(n, cells)` of each bag of the tree.

    Args:
        tree: of the cliques.
        levels: what is known of each level and below it, from `linear.upward`.
        parents: of each level but the top.
        seed: for ties.
        exact: of each level the table that is exact there, of `JunctionTree.chain`, which has all attributes of those
            below; None for a level where all are estimated.
        zeros: clique -> which of its cells can be positive anywhere, `(cells,)`.
        alike: whether the children of an area are expected to be alike.
        drawn: whether numbers are drawn from what they may be in place of their mean (`transport`).

    Raises:
        InputError: the zeros leave no cell, or no child, for somebody; exact numbers do not add up.
    """
    possible = possible_cells(tree, zeros or {})
    _check_exact(tree, exact, parents, possible[0])
    out: list[list[IntArray]] = []
    for number, level in enumerate(levels):
        parent, above = (None, []) if number == 0 else (parents[number - 1], out[-1])
        place = _Place(number, level, exact[number] if exact else None, parent, above, alike, drawn)
        out.append(_of_level(tree, place, seed, possible))
    return out


def _of_level(tree: JunctionTree, place: _Place, seed: Seed, possible: Sequence[BoolArray]) -> list[IntArray]:
    bags: list[IntArray] = []
    for number, (bag, separator) in enumerate(zip(tree.bags, tree.separators, strict=True)):
        above = None if place.parent is None else place.above[number]
        estimate = _Estimate.of(place, bag, above, tree.domain)
        if number == 0:
            held = _first_table(tree, place, estimate, seed, possible[0])
        else:
            up = tree.parents[number]
            held = marginal(bags[up], tree.bags[up], separator, tree.domain)
        exact = None if number else place.exact
        for stage in tree.stages[number]:
            if exact is not None and {*stage.table} <= {*exact.clique}:
                held = marginal(exact.numbers, exact.clique, stage.table, tree.domain)
            else:
                held = _staged(stage, separator, estimate, held, possible[number], seed)
        bags.append(held)
    return bags


@dataclass(frozen=True, eq=False)
class _Estimate:
    """What a bag of a level is drawn to: residuals given the parents' whole numbers, which are `above`."""

    place: _Place
    bag: Clique
    domain: AttributeSizes
    parts: Mapping[Clique, FloatArray]
    above: IntArray | None

    @classmethod
    def of(cls, place: _Place, bag: Clique, above: IntArray | None, domain: AttributeSizes) -> _Estimate:
        known = {part: place.level.known[part] for part in subsets(bag) if part in place.level.known}
        if above is None or place.parent is None:
            return cls(place, bag, domain, {part: one.values for part, one in known.items()}, None)
        whole = residuals(above, bag, domain)
        parts = {}
        for part, one in known.items():
            share = shares(one.variance, place.parent, len(above))
            missing = whole[part]
            np.subtract.at(missing, place.parent, one.values)
            parts[part] = one.values + share[:, None] * missing[place.parent]
        return cls(place, bag, domain, parts, above)

    def table(self, kept: Clique) -> FloatArray:
        """Of some of its attributes, `(n, cells)`."""
        return table(self.parts, kept, self.domain)

    def variance(self, kept: Clique) -> FloatArray:
        """How much each area's cells may give way, up to a factor, `(n,)`: by the residual of the table itself."""
        n = len(self.parts[()])
        if kept not in self.place.level.known:
            return np.ones(n)
        variance = self.place.level.known[kept].variance
        finite = np.where(np.isinf(variance), 0.0, variance)
        largest = float(finite.max(initial=0.0)) or 1.0
        return np.where(np.isinf(variance), largest, np.where(variance > 0, variance, largest))

    def is_measured(self, kept: Clique) -> bool:
        """Whether some clique has these attributes, at any level."""
        return kept in self.place.level.known

    def of_parents(self, kept: Clique) -> tuple[IntArray, IntArray] | None:
        """The table of the parents, whole numbers, and the parent of each area; None at the top."""
        if self.above is None or self.place.parent is None:
            return None
        return marginal(self.above, self.bag, kept, self.domain), self.place.parent


def _first_table(tree: JunctionTree, place: _Place, estimate: _Estimate, seed: Seed, possible: BoolArray) -> IntArray:
    """The table that no other is held to: its columns add up over the children, and that is all."""
    kept, domain = tree.first, tree.domain
    if place.exact is not None:
        return marginal(place.exact.numbers, place.exact.clique, kept, domain)
    target = estimate.table(kept)
    allowed = np.broadcast_to(any_cell(possible, tree.bags[0], kept, domain), target.shape)
    parents = estimate.of_parents(kept)
    ties = seed.numbers(_ROUNDING, np.arange(len(target))[:, None], np.arange(target.shape[1])[None, :])
    if parents is None:
        return np.where(allowed, np.maximum(np.rint(target), 0.0), 0.0).astype(np.int64)
    above, parent = parents
    out = np.zeros(target.shape, dtype=np.int64)
    variance = np.broadcast_to(estimate.variance(kept)[:, None], target.shape)
    if place.alike:
        # All children that can have somebody are expected to have the same.
        many = np.maximum(summed(allowed.astype(np.float64), parent, len(above)), 1)[parent]
        even = allowed * above[parent] / many
        keys = (np.array(place.number), np.arange(len(target))[:, None], np.arange(target.shape[1])[None, :])
        both = ExpectedCells(even, target, variance, 1.0 - 1.0 / many)
        ((target, variance),) = _put_together([both], [keys], seed, drawn=place.drawn)
    for families, children in _padded_families(parent, len(above)):
        real = children >= 0
        can = allowed[children] & real[:, :, None]
        x = project_columns(target[children], variance[children], can, above[families])
        rounded = round_columns(x, can, above[families], ties[children])
        out[children[real]] = rounded[real]
    return out


def _staged(
    stage: CliqueStage, base: Clique, estimate: _Estimate, held: IntArray, possible: BoolArray, seed: Seed
) -> IntArray:
    """The table of a stage `(n, cells)` from the one that is held; `base` is what the bag began with."""
    domain, kept = estimate.domain, stage.table
    parents = estimate.of_parents(kept)
    key = (estimate.place.number << 16) + stage.added
    if stage.held and not estimate.is_measured(kept):
        return _filled(stage, estimate, held, possible, seed, key)
    if parents is not None:
        sharing = _Sharing(
            _by_value(estimate.table(kept), stage, domain),
            estimate.variance(kept),
            held,
            _by_value(parents[0], stage, domain),
            parents[1],
        )
        return _in_order(_shared_out(sharing, seed, key, estimate.place), stage, domain)
    can = _by_value(any_cell(possible, estimate.bag, kept, domain)[None], stage, domain)
    target = _by_value(estimate.table(kept), stage, domain)
    if not stage.held or (stage.held == base and not estimate.place.alike) or not can.all():
        variance = np.broadcast_to(estimate.variance(kept)[:, None, None], target.shape)
        can = np.broadcast_to(can, target.shape)
        return _in_order(_split(target, variance, held, can, seed, key, estimate.place), stage, domain)
    # What the attribute is crossed with; the table beside it is held.
    base = () if stage.held == base else base
    alone = replace(stage, held=base)
    of_base = marginal(held, stage.held, base, domain)
    first = _staged(alone, base, estimate, of_base, possible, seed)
    return _crossed(stage, base, estimate, held, target, _by_value(first, alone, domain), seed, key)


def _by_value(values: NDArray[_Cell], stage: CliqueStage, domain: AttributeSizes) -> NDArray[_Cell]:
    """Tables of a stage as `(n, held cells, values of the attribute)`."""
    axis = 1 + stage.table.index(stage.added)
    moved = np.moveaxis(values.reshape(len(values), *domain.shape(stage.table)), axis, -1)
    return np.ascontiguousarray(moved).reshape(len(values), -1, domain.sizes[stage.added])


def _in_order(values: IntArray, stage: CliqueStage, domain: AttributeSizes) -> IntArray:
    """The reverse of `_by_value`."""
    axis = 1 + stage.table.index(stage.added)
    shaped = values.reshape(len(values), *domain.shape(stage.held), domain.sizes[stage.added])
    return np.ascontiguousarray(np.moveaxis(shaped, -1, axis)).reshape(len(values), -1)


def _split(
    target: FloatArray,
    variance: FloatArray,
    held: IntArray,
    can: BoolArray,
    seed: Seed,
    key: int,
    place: _Place,
) -> IntArray:
    """At the top: each held number is shared among the values of the attribute, nearest to the target.

    All values that there can be are expected to have the same.
    """
    n_values = target.shape[2]
    flat = (-1, n_values, 1)
    cells = np.arange(held.size)[:, None, None] * n_values + np.arange(n_values)[None, :, None]
    columns, can = held.reshape(-1, 1), can.reshape(flat)
    target, variance = target.reshape(flat), variance.reshape(flat)
    if place.alike:
        even = can * (columns / np.maximum(can.sum(axis=1), 1))[:, None]
        away, free = centred(target - even, even > 0, of_rows=False)
        both = ExpectedCells(even, even + away, variance, free)
        ((target, variance),) = _put_together([both], [(np.array(key), cells)], seed, drawn=place.drawn)
    x = project_columns(target, variance, can, columns)
    ties = seed.numbers(_ROUNDING, np.array(key), cells)
    return round_columns(x, can, columns, ties).reshape(len(held), -1, n_values)


def _crossed(
    stage: CliqueStage,
    base: Clique,
    estimate: _Estimate,
    held: IntArray,
    target: FloatArray,
    columns: IntArray,
    seed: Seed,
    key: int,
) -> IntArray:
    """At the top: in each cell of the base, a two-way table of what else is held and the attribute, both sums held."""
    domain = estimate.domain
    n, n_values = len(held), domain.sizes[stage.added]
    order = [*base, *(a for a in stage.held if a not in base)]
    axes = [1 + stage.held.index(a) for a in order]
    shape = domain.shape(stage.held)
    size = domain.size(base)
    rows = np.transpose(held.reshape(n, *shape), (0, *axes)).reshape(n * size, -1)
    cells = np.transpose(target.reshape(n, *shape, n_values), (0, *axes, len(axes) + 1)).reshape(n * size, -1, n_values)
    variance = np.repeat(estimate.variance(stage.table), size)[:, None, None]
    tables = TwoWayTables(cells, np.broadcast_to(variance, cells.shape), rows, columns.reshape(n * size, n_values))
    if estimate.place.alike:
        cell = np.arange(cells.size).reshape(cells.shape)
        (tables,) = _with_expectations([tables], [(np.array(key), cell)], seed, drawn=estimate.place.drawn)
    ties = seed.numbers(_ROUNDING, np.array(key), np.arange(cells.size).reshape(cells.shape))
    whole = round_tables(nearest(tables), tables, ties)
    back = whole.reshape(n, *(domain.sizes[a] for a in order), n_values)
    in_order = np.transpose(back, (0, *(1 + order.index(a) for a in stage.held), len(axes) + 1))
    return _in_order(np.ascontiguousarray(in_order), stage, domain)


def _filled(
    stage: CliqueStage, estimate: _Estimate, held: IntArray, possible: BoolArray, seed: Seed, key: int
) -> IntArray:
    """A table that is only filled in: of maximum entropy, given the measured tables inside it.

    These are made whole first, each held to what is there. Proportional fitting starts from the parents' table, at the
    top from no relation (Deming and Stephan 1940).
    """
    domain, kept = estimate.domain, stage.table
    place = replace(estimate.place, alike=False)
    inside = [part for part in subsets(kept) if stage.added in part and estimate.is_measured(part)]
    inside = [part for part in inside if not any(set(part) < set(other) for other in inside)] or [(stage.added,)]
    stages = [CliqueStage(tuple(a for a in part if a != stage.added), stage.added) for part in inside]
    # The one with the most cells is fitted last, and held exactly at the top.
    stages.sort(key=lambda one: (domain.size(one.table), one.table))
    sums = [
        (one.table, _staged(one, (), estimate, marginal(held, stage.held, one.held, domain), possible, seed))
        for one in stages
    ]
    can = any_cell(possible, estimate.bag, kept, domain)[None]
    parents = estimate.of_parents(kept)
    start = (can if parents is None else parents[0][parents[1]]).astype(np.float64)
    x = np.repeat(start, len(held) // len(start), axis=0)
    for _ in range(FITTED):
        if parents is not None:
            above, parent = parents
            x = x * _ratios(above, summed(x, parent, len(above)))[parent]
        for part, whole in (*sums, (stage.held, held)):
            shape = [domain.sizes[a] if a in part else 1 for a in kept]
            ratios = _ratios(whole, marginal(x, kept, part, domain)).reshape(len(x), *shape)
            x = (x.reshape(len(x), *domain.shape(kept)) * ratios).reshape(len(x), -1)
    target = _by_value(x, stage, domain)
    if parents is not None:
        sharing = _Sharing(target, np.ones(len(held)), held, _by_value(parents[0], stage, domain), parents[1])
        return _in_order(_shared_out(sharing, seed, key, place), stage, domain)
    if not can.all():
        of_values = np.broadcast_to(_by_value(can, stage, domain), target.shape)
        return _in_order(_split(target, np.ones(target.shape), held, of_values, seed, key, place), stage, domain)
    columns = _by_value(sums[-1][1], stages[-1], domain)
    plain = replace(estimate, place=place)
    return _crossed(stage, stages[-1].held, plain, held, target, columns, seed, key)


def _ratios(wanted: IntArray, found: FloatArray) -> FloatArray:
    return np.divide(wanted, found, out=np.zeros(found.shape), where=found > 0)


@dataclass(frozen=True, eq=False)
class _Sharing:
    """A stage at one level: what is shared out among children and values of the attribute.

    Attributes:
        target: `(n, held cells, values)`.
        variance: of each child, `(n,)`.
        held: `(n, held cells)`.
        above: of the parents, `(n_parents, held cells, values)`.
        parent: `(n,)`.
    """

    target: FloatArray
    variance: FloatArray
    held: IntArray
    above: IntArray
    parent: IntArray

    def problems(self) -> Iterator[_Problems]:
        """The two-way tables, those of about one shape together."""
        n_held = self.held.shape[1]
        child, cell = np.nonzero(self.held)
        key = self.parent[child] * n_held + cell
        order = np.argsort(key, kind="stable")
        child, key = child[order], key[order]
        of_column, value = np.nonzero(self.above.reshape(-1, self.above.shape[2]))
        n_keys = self.above.shape[0] * n_held
        n_rows, n_columns = (np.bincount(one, minlength=n_keys) for one in (key, of_column))
        first_row, first_column = np.cumsum(n_rows) - n_rows, np.cumsum(n_columns) - n_columns
        (problems,) = np.nonzero(n_rows)
        sizes = np.stack([_padded(n_rows[problems]), _padded(n_columns[problems])], axis=1)
        for rows, columns in np.unique(sizes, axis=0).tolist():
            members = problems[(sizes == (rows, columns)).all(axis=1)]
            step = max(1, AT_ONCE // (rows * columns))
            for start in range(0, len(members), step):
                some = members[start : start + step]
                children = _listed(child, first_row[some], n_rows[some], rows)
                values = _listed(value, first_column[some], n_columns[some], columns)
                yield self._problems(some, children, values)

    def _problems(self, numbers: IntArray, children: IntArray, values: IntArray) -> _Problems:
        parents, cells = np.divmod(numbers, self.held.shape[1])
        here, there, at = children[:, :, None], cells[:, None, None], values[:, None, :]
        estimate = self.target[here, there, at]
        tables = TwoWayTables(
            estimate,
            np.broadcast_to(self.variance[children][:, :, None], estimate.shape),
            rows=np.where(children >= 0, self.held[children, cells[:, None]], 0),
            columns=np.where(values >= 0, self.above[parents[:, None], cells[:, None], values], 0),
        )
        return _Problems(here, there, at, tables)


@dataclass(frozen=True, eq=False)
class _Problems:
    """Two-way tables, with child `(B, C, 1)`, held cell `(B, 1, 1)` and value `(B, 1, m)`; -1 for none."""

    child: IntArray
    cell: IntArray
    value: IntArray
    tables: TwoWayTables

    @property
    def is_open(self) -> bool:
        """Whether there is anything to find: with one row or column, the sums say all."""
        return self.child.shape[1] > 1 and self.value.shape[2] > 1

    def solved(self, ties: IntArray) -> IntArray:
        """The whole numbers, `(B, C, m)`."""
        if self.is_open:
            return round_tables(nearest(self.tables), self.tables, ties)
        return np.where(self.child.shape[1] == 1, self.tables.columns[:, None, :], self.tables.rows[:, :, None])


def _shared_out(sharing: _Sharing, seed: Seed, key: int, place: _Place) -> IntArray:
    """The children's tables `(n, held cells, values)`."""
    out = np.zeros(sharing.target.shape, dtype=np.int64)
    problems = list(sharing.problems())
    keys = [(np.array(key), one.child, one.cell * sharing.target.shape[2] + one.value) for one in problems]
    if place.alike:
        open_ = [number for number, one in enumerate(problems) if one.is_open]
        both = _with_expectations(
            [problems[n].tables for n in open_], [keys[n] for n in open_], seed, drawn=place.drawn
        )
        for number, tables in zip(open_, both, strict=True):
            problems[number] = replace(problems[number], tables=tables)
    for one, keys_of_cells in zip(problems, keys, strict=True):
        whole = one.solved(seed.numbers(_ROUNDING, *keys_of_cells))
        real = np.broadcast_to((one.child >= 0) & (one.value >= 0), whole.shape)
        out[tuple(part[real] for part in np.broadcast_arrays(one.child, one.cell, one.value))] = whole[real]
    return out


def _with_expectations(
    measured: Sequence[TwoWayTables], keys: Sequence[tuple[IntArray, ...]], seed: Seed, *, drawn: bool
) -> list[TwoWayTables]:
    """Two-way tables with what is expected of them, whose spread is found from all; `keys` are of their cells."""
    means = [expected(one) for one in measured]
    deviations = [centred(one.estimate - m, m > 0) for one, m in zip(measured, means, strict=True)]
    cells = [
        ExpectedCells(m, m + away, np.broadcast_to(one.variance, m.shape), free)
        for one, m, (away, free) in zip(measured, means, deviations, strict=True)
    ]
    both = _put_together(cells, keys, seed, drawn=drawn)
    return [replace(one, estimate=y, variance=v) for one, (y, v) in zip(measured, both, strict=True)]


def _put_together(
    cells: Sequence[ExpectedCells], keys: Sequence[tuple[IntArray, ...]], seed: Seed, *, drawn: bool
) -> list[tuple[FloatArray, FloatArray]]:
    """Estimates and variances of cells with what is expected of them; see `whole_numbers` for `drawn`."""
    if not cells:
        return []
    shrinkage = Shrinkage.of(cells)
    return [
        shrinkage.given(one, [seed.uniform(use, *own) for use in _DRAWN] if drawn else None)
        for one, own in zip(cells, keys, strict=True)
    ]


def _padded_families(parent: IntArray, n: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Parents with about the same number of children: numbers `(B,)`, and children `(B, C)`, -1 for none."""
    order = np.argsort(parent, kind="stable")
    count = np.bincount(parent, minlength=n)
    start = np.cumsum(count) - count
    size = _padded(count)
    for most in np.unique(size[size > 0]).tolist():
        (members,) = np.nonzero(size == most)
        yield members, _listed(order, start[members], count[members], most)


def _padded(count: IntArray) -> IntArray:
    """The next of some sizes, so that problems of about one size are solved together."""
    most = int(count.max(initial=1))
    grid = [*range(9), *range(10, 17, 2), *range(20, 33, 4)]
    while grid[-1] < most:
        grid += [grid[-1] + step * (grid[-1] // 4) for step in range(1, 5)]
    sizes = np.array(grid)
    return sizes[np.searchsorted(sizes, count)]


def _listed(values: IntArray, first: IntArray, count: IntArray, size: int) -> IntArray:
    """`(len(first), size)`: `count` of the values from `first` on, then -1."""
    at = np.arange(size)
    there = at < count[:, None]
    return np.where(there, values[np.where(there, first[:, None] + at, 0)], -1)


def _check_exact(
    tree: JunctionTree, exact: Sequence[ExactTable | None], parents: Sequence[IntArray], possible: BoolArray
) -> None:
    """Exact numbers add up."""
    domain, bag = tree.domain, tree.bags[0]
    for number, one in enumerate(exact):
        if one is None:
            continue
        can = any_cell(possible, bag, one.clique, domain)
        if (wrong := np.argwhere((one.numbers < 0) | ((one.numbers > 0) & ~can))).size:
            area, cell = wrong[0].tolist()
            raise InputError(
                f"exact numbers of {domain.text(one.clique)}, area {area} of level {number}: found "
                f"{one.numbers[area, cell]:,} in cell {cell}; they are not negative, and 0 where nobody can be"
            )
    for number, (above, one, parent) in enumerate(zip(exact, exact[1:], parents, strict=False)):
        if one is None:
            continue
        if above is None or not {*one.clique} <= {*above.clique}:
            raise InputError(
                f"exact numbers of {domain.text(one.clique)} of level {number + 1} are exact at level {number}, too"
            )
        stated = marginal(above.numbers, above.clique, one.clique, domain)
        sums = summed(one.numbers, parent, len(stated))
        if (wrong := np.argwhere(sums != stated)).size:
            area, cell = wrong[0].tolist()
            raise InputError(
                f"exact numbers of {domain.text(one.clique)}, area {area} of level {number}: found "
                f"{stated[area, cell]:,} in cell {cell}, and {sums[area, cell]:,} in its parts; they must add up"
            )

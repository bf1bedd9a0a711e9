"""What households imply for the numbers of persons, exactly and in expectation.

The persons' queries of joins are nested, so the whole numbers of members that a household of one kind may have in each
group form a generalised polymatroid (see `bounds.declare`). Those of many households add up to another, whose bounds
on every set are the sums of theirs. So bounds on sets, added up over released households, say exactly which persons
these can consist of; and as they add up from children to parents, too, children can always meet them where their parent
does.

Below the top the released households bound the persons, and nothing else does. At the top invariants of persons, such
as the population, meet them: there the least change of the households is looked for with which persons exist that keep
both (an integer programme, solved by HiGHS).

Sizes tell how many persons live in households, with the variance 1 + 4 + ... + 49 = 140 of one measurement; the persons
are counted with the variance of about one. Both are the same number. So the best linear estimate of the persons in a
subtree, from their own measurements, is a further measurement of the households there: of the sum of expected members
over kinds of household, with a known variance. It enters the least squares of every family (`downward.assembly`); the
released households are then, for the persons of the same geounits, bounds that hardly move them.

Where other persons are counted in the same answers, the households' members are at most as many. Then the measurement
counts only where the households would have more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.joins.mathematics.membership import MOST_GROUPS, NO_MOST, Membership
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.bounds.declare import UNBOUNDED, SetBounds, merged, query_of_set
from postprocess.errors import InfeasibleError
from postprocess.linear.information import BLIND
from postprocess.linear.upward import LevelEstimate, estimated_answers
from postprocess.marginal import Marginal, join
from postprocess.members import Implied, MemberSums
from postprocess.problem import Constraints, GroupBounds, Problem


@dataclass(frozen=True, eq=False)
class Composition:
    """The members of households of each kind.

    Attributes:
        memberships: the joins; the persons' queries are nested.
        persons: the query on persons that refines all of theirs.
        households: the same of households; its answers are the kinds.
        groups: `(g,)` the answers of `persons` that members fall in; a set of groups is the bits of a number.
        sets: bounds on the members of one household in every set of groups; a row for each kind.
    """

    memberships: tuple[Membership, ...]
    persons: Marginal
    households: Marginal
    groups: IntArray
    sets: SetBounds

    @classmethod
    def of(cls, memberships: Sequence[Membership]) -> Composition:
        """Of all joins with one companion.

        Raises:
            ValueError: the joins tell apart more than `MOST_GROUPS` groups; the spec is checked for that before.
        """
        persons = join([m.persons for m in memberships])
        households = join([m.households for m in memberships])
        answers = [persons.answers_in(m.persons) for m in memberships]
        inside = reduce(np.logical_or, [m.inside[answer] for m, answer in zip(memberships, answers, strict=True)])
        groups = np.flatnonzero(inside)
        if len(groups) > MOST_GROUPS:
            raise ValueError(f"joins of {len(groups)} groups of persons; at most {MOST_GROUPS} are allowed")
        kinds = households.size
        nothing = np.zeros((kinds, len(groups)), dtype=np.int64)
        sets = SetBounds.of_groups(nothing, np.full_like(nothing, UNBOUNDED))
        blocks: dict[int, tuple[IntArray, IntArray]] = {}
        for m, answer in zip(memberships, answers, strict=True):
            kind = households.answers_in(m.households)
            for a in np.flatnonzero(m.inside):
                block = _bits(np.flatnonzero(answer[groups] == a))
                most = np.where(m.most[a] >= NO_MOST, UNBOUNDED, m.most[a])
                low, high = blocks.get(block, (np.zeros(kinds, dtype=np.int64), np.full(kinds, UNBOUNDED)))
                blocks[block] = np.maximum(low, m.least[a][kind]), np.minimum(high, most[kind])
        for block in sorted(blocks, key=lambda bits: bits.bit_count()):
            sets = sets.with_block(block, *blocks[block])
        return cls(tuple(memberships), persons, households, groups, sets)

    def block(self, membership: Membership, answer: int) -> int:
        """The set of groups that an answer of a join's query on persons consists of."""
        return _bits(np.flatnonzero(self.persons.answers_in(membership.persons)[self.groups] == answer))

    @property
    def others(self) -> bool:
        """Whether persons outside of households fall in the same answers."""
        return any(m.others for m in self.memberships)

    @cached_property
    def possible(self) -> BoolArray:
        """`(n_kinds,)` whether there can be a household of the kind."""
        return np.asarray((self.sets.lower <= self.sets.upper).all(axis=1))

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Sets whose bounds do not follow, whatever the households, from those of groups and of the joins' answers.

        A bound follows where one sum of bounds that are stated, or follow, gives it for every kind of household. Where
        persons outside of households fall in the same answers, nothing bounds them from above: lower bounds follow from
        those of parts alone.
        """
        stated = {1 << group for group in range(len(self.groups))} | {
            self.block(m, int(a)) for m in self.memberships for a in np.flatnonzero(m.inside)
        }
        every = (1 << len(self.groups)) - 1
        found = []
        for subset in sorted(set(range(1, every + 1)) - stated, key=lambda bits: bits.bit_count()):
            low, high = self.sets.lower[self.possible, subset], self.sets.upper[self.possible, subset]
            follows = [False, self.others]
            for implied_low, implied_high in self._implied(subset, set() if self.others else stated):
                follows[0] = follows[0] or bool((implied_low >= low).all())
                follows[1] = follows[1] or bool((implied_high <= high).all())
            if not all(follows):
                found.append(subset)
        return tuple(found)

    def _implied(self, subset: int, stated: set[int]) -> Iterator[tuple[IntArray, IntArray]]:
        """What follows for a set: from two sets that make it up, and from a stated set without the rest of it."""
        lower, upper = self.sets.lower[self.possible], self.sets.upper[self.possible]
        yield np.zeros(len(lower), dtype=np.int64), np.full(len(lower), UNBOUNDED)
        part = (subset - 1) & subset
        while part:
            yield lower[:, part] + lower[:, subset ^ part], _sum(upper[:, part], upper[:, subset ^ part])
            part = (part - 1) & subset
        for whole in stated:
            if whole & subset == subset:
                rest = whole ^ subset
                pieces = [rest] if rest in stated else [1 << bit for bit in range(rest.bit_length()) if rest >> bit & 1]
                least = reduce(np.add, [lower[:, piece] for piece in pieces])
                most = reduce(_sum, [upper[:, piece] for piece in pieces])
                bounded = upper[:, whole] < UNBOUNDED
                yield lower[:, whole] - most, np.where(bounded, upper[:, whole] - least, UNBOUNDED)


def _bits(groups: NDArray[np.intp]) -> int:
    return sum(1 << int(group) for group in groups)


def _sum(first: IntArray, second: IntArray) -> IntArray:
    return np.where((first >= UNBOUNDED) | (second >= UNBOUNDED), UNBOUNDED, first + second)


#: Households' answers held at a time.
_CHUNK = 1 << 20


def joined_queries(composition: Composition) -> tuple[Marginal, ...]:
    """The queries on persons that `joined_bounds` bounds.

    Raises:
        InfeasibleError: the households limit a set of groups that no query has as its answer.
    """
    return tuple({query.key: query for query, _, _ in stated_sets(composition)}.values())


def joined_bounds(composition: Composition, households: sp.csr_array) -> tuple[GroupBounds, ...]:
    """The bounds on the persons of a level that its released households imply, each query once.

    Persons that keep them are members of these households in one way at least, everybody of the joins' answers in one
    household (where no others fall in the same answers). Bounds of children add up to their parent's.

    Args:
        composition: of the joins.
        households: the released histograms of the level, `(n, n_cells)`.

    Raises:
        InfeasibleError: the households limit a set of groups that no query has as its answer.
    """
    kinds = _kinds(composition, households)
    sets, others = composition.sets, composition.others
    bounds = []
    for query, answer, block in stated_sets(composition):
        lower = np.zeros((len(kinds), query.size), dtype=np.int64)
        upper = np.full_like(lower, UNBOUNDED)
        lower[:, answer] = kinds @ np.maximum(sets.lower[:, block], 0)
        if not others:
            open_ended = sets.upper[:, block] >= UNBOUNDED
            most = kinds @ np.where(open_ended, 0, sets.upper[:, block])
            upper[:, answer] = np.where((kinds[:, open_ended] > 0).any(axis=1), UNBOUNDED, most)
        bounds.append(GroupBounds(query.name, query, lower, upper))
    return tuple(merged(bounds))


def stated_sets(composition: Composition) -> list[tuple[Marginal, int, int]]:
    """Queries on persons, one of its answers, and the set of groups that is this answer."""
    stated = [
        (m.persons, int(answer), composition.block(m, int(answer)))
        for m in composition.memberships
        for answer in np.flatnonzero(m.inside)
    ]
    stated += [(composition.persons, int(answer), 1 << bit) for bit, answer in enumerate(composition.groups)]
    for subset in composition.needed:
        members = composition.groups[[bit for bit in range(len(composition.groups)) if subset >> bit & 1]]
        placed = query_of_set(composition.persons, members)
        if placed is None:
            raise InfeasibleError(
                f'joins: the households limit a set of groups of "{composition.persons.name}" that no query can state; '
                "state the join on a coarser query, or on one attribute"
            )
        stated.append((*placed, subset))
    return stated


def _kinds(composition: Composition, households: sp.csr_array) -> IntArray:
    """How many households of each kind there are in each geounit, `(n, n_kinds)`."""
    n, size = households.shape[0], composition.households.size
    out = np.zeros(n * size, dtype=np.int64)
    kind = composition.households.cell_answer
    for first in range(0, n, _CHUNK):
        part = households[first : first + _CHUNK]
        rows = np.repeat(np.arange(part.shape[0], dtype=np.int64) + first, np.diff(part.indptr))
        np.add.at(out, rows * size + kind[part.indices], part.data)
    return out.reshape(n, size)


#: Members of a household that nothing limits, for the programme.
_MANY = 1e7


@dataclass(frozen=True, eq=False)
class TopLevel:
    """What is known exactly of one universe at the top: which cells are possible `(n_cells,)`, and bounds."""

    possible: BoolArray
    bounds: tuple[GroupBounds, ...]

    @classmethod
    def of(cls, constraints: Constraints) -> TopLevel:
        """Of constraints that were carried up the spine."""
        return cls(~constraints.structural_zeros, constraints.bounds[0])

    @property
    def binding(self) -> bool:
        """Whether there is any bound."""
        return any((bound.lower > 0).any() or (bound.upper < UNBOUNDED).any() for bound in self.bounds)


def fitting_households(
    composition: Composition, wanted: IntArray, row: int, households: TopLevel, persons: TopLevel
) -> IntArray | None:
    """The households `(n_cells,)` of a geounit nearest to those wanted for which persons exist; None where none do.

    Nearest is the least number of households more or fewer.

    Args:
        composition: of the joins.
        wanted: `(n_cells,)` whole numbers.
        row: of the geounit in the bounds.
        households: what is known of them.
        persons: what is known of them.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow to import, and rarely needed

    n = len(wanted)
    groups = join([composition.persons, *(bound.marginal for bound in persons.bounds)])
    exists = np.zeros(groups.size, dtype=bool)
    exists[groups.cell_answer[persons.possible]] = True
    n_unknowns = 2 * n + groups.size  # households, how far they are from those wanted, persons by group
    constraints = []

    def limit(
        of_households: FloatArray | None, of_persons: FloatArray | None, low: FloatArray, high: FloatArray
    ) -> None:
        height = len(low)
        blocks = [
            np.zeros((height, n)) if of_households is None else of_households,
            np.zeros((height, n)),
            np.zeros((height, groups.size)) if of_persons is None else of_persons,
        ]
        constraints.append(LinearConstraint(sp.csr_array(np.hstack(blocks)), low, high))

    identity = np.eye(n)
    for sign in (1.0, -1.0):
        matrix = np.hstack([-sign * identity, identity, np.zeros((n, groups.size))])
        constraints.append(LinearConstraint(sp.csr_array(matrix), -sign * wanted, np.inf))
    for bound in households.bounds:
        limit(_sums(bound.marginal, bound.marginal.cell_answer), None, *_ends(bound, row))
    for bound in persons.bounds:
        limit(None, _sums(bound.marginal, groups.answers_in(bound.marginal)), *_ends(bound, row))
    kinds, sets = composition.households.cell_answer, composition.sets
    others = composition.others
    for query, answer, block in stated_sets(composition):
        inside = (groups.answers_in(query) == answer).astype(np.float64)[None, :]
        lower, upper = sets.lower[kinds, block].astype(np.float64), sets.upper[kinds, block].astype(np.float64)
        limit(-np.maximum(lower, 0.0)[None, :], inside, np.zeros(1), np.full(1, np.inf))
        if not others and (upper < UNBOUNDED).any():
            # A kind without a limit lets the persons be as many as there are.
            limit(-np.where(upper < UNBOUNDED, upper, _MANY)[None, :], inside, np.full(1, -np.inf), np.zeros(1))
    upper_ends = np.concatenate(
        [np.where(households.possible, np.inf, 0.0), np.full(n, np.inf), np.where(exists, np.inf, 0.0)]
    )
    cost = np.concatenate([np.zeros(n), np.ones(n), np.zeros(groups.size)])
    whole = np.concatenate([np.ones(n), np.zeros(n), np.ones(groups.size)])
    result = milp(cost, integrality=whole, bounds=Bounds(np.zeros(n_unknowns), upper_ends), constraints=constraints)
    return None if result.x is None else np.rint(result.x[:n]).astype(np.int64)


def _sums(marginal: Marginal, answer: IntArray) -> FloatArray:
    """`(size, n)` zeros and ones: which entries each answer is the sum of."""
    return np.asarray(answer[None, :] == np.arange(marginal.size)[:, None], dtype=np.float64)


def _ends(bound: GroupBounds, row: int) -> tuple[FloatArray, FloatArray]:
    upper = bound.upper[row].astype(np.float64)
    return bound.lower[row].astype(np.float64), np.where(upper >= UNBOUNDED, np.inf, upper)


def fitted(
    composition: Composition, released: sp.csr_array, households: TopLevel, persons: TopLevel
) -> tuple[sp.csr_array, Sequence[int]]:
    """The households of the top level, changed where no persons could keep what is known of them.

    Returns:
        The histograms `(n, n_cells)`, and the rows for which none are found.
    """
    if not persons.binding:
        return released, []
    dense, missing = released.toarray(), []
    for row in range(len(dense)):
        found = fitting_households(composition, dense[row], row, households, persons)
        if found is None:
            missing.append(row)
        else:
            dense[row] = found
    return sp.csr_array(dense), missing


#: Persons squared: the least variance of a sum, where it is known exactly, so that matrices stay well conditioned.
LEAST_VARIANCE = 0.01


def counted_of(composition: Composition) -> MemberSums | None:
    """Of the joins' answers for which members are to be expected; None where there is none."""
    rows, least, excess = [], [], []
    others = composition.others
    for m in composition.memberships:
        persons = composition.persons.answers_in(m.persons)
        kinds = composition.households.answers_in(m.households)
        for a in np.flatnonzero(m.inside & ~np.isnan(m.expected).any(axis=1)):
            rows.append((persons == a).astype(np.float64))
            least.append(m.least[a][kinds].astype(np.float64))
            excess.append(np.zeros(len(kinds)) if others else m.expected[a][kinds] - least[-1])
    if not rows:
        return None
    independent = _independent(np.array(rows))
    sums, members, beyond = (np.array(each)[independent] for each in (rows, least, excess))
    every = np.arange(len(sums))
    expected, limited = every[:0] if others else every, every[others | (beyond > 0).any(axis=1)]
    return MemberSums(
        persons=composition.persons,
        sums=sums,
        households=composition.households,
        of_sum=np.concatenate([expected, limited]),
        at_most=np.repeat([False, True], [len(expected), len(limited)]),
        least=np.concatenate([members[expected], members[limited]]),
        excess=np.concatenate([beyond[expected], np.zeros_like(beyond[limited])]),
        others=others,
    )


def implied_by(counted: MemberSums, problem: Problem, basis: Basis, level: int, estimate: LevelEstimate) -> Implied:
    """The sums from the persons' upward pass of a level.

    Args:
        counted: what the sums are.
        problem: of the persons, with the values of its measurements.
        basis: of that problem, which can state the sums' query.
        level: of it.
        estimate: of the level.
    """
    rows = np.arange(len(estimate.classes))
    values = estimated_answers(problem, basis, level, estimate, counted.persons, rows) @ counted.sums.T
    covariance = counted.sums @ basis.answer_covariances(estimate.info.covariance, counted.persons) @ counted.sums.T
    variances = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), LEAST_VARIANCE)
    if estimate.info.blind.any():
        blind = counted.sums @ basis.answer_covariances(estimate.info.unmeasured, counted.persons) @ counted.sums.T
        variances[np.diagonal(blind, axis1=1, axis2=2) > BLIND] = np.inf
    values, variances = values[:, counted.of_sum], variances[estimate.classes][:, counted.of_sum]
    return Implied(counted, values, variances, np.ones_like(values))


def _independent(rows: FloatArray) -> list[int]:
    """The rows that are no sums of rows before them."""
    kept: list[int] = []
    for i in range(len(rows)):
        if np.linalg.matrix_rank(rows[[*kept, i]]) > len(kept):
            kept.append(i)
    return kept

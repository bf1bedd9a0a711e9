"""What is known of each level of a wide schema: of the lower levels on few sums, of the upper ones as if measured.

The levels from `first` on measure few sums (`space`). Their upward pass is the usual one (`postprocess.linear.upward`)
on these sums. Above, at the *wide* levels, whose queries have hundreds of thousands of answers and among them the
detail, no matrix over cells is made. A geounit c there has the precision and linear term

    H_c = H + W N_c W',   eta_c = sum_q w_q A_q'y_cq + W t_c,       H = sum_q w_q A_q'A_q,

with weights w_q that are the same for all geounits of the level, and N_c `(r, r)`, t_c `(r,)` of its own. With
V = H^-1, K = W'V W, S_c = N_c (I + K N_c)^-1 and g_c = W'V eta_c, Woodbury's identity gives covariance and estimate,

    V_c = V - V W S_c W'V,    W'V_c W = K - K S_c K,    W'b_c = g_c - K S_c g_c,

and, for C children, with S the mean of the S_c, the inverse of the sum of their covariances and what it makes of the
sum b_+ of their estimates, in the same form again:

    J_p = H / C + W T W',   T = S (I - K S)^-1 / C,
    J_p b_+ = sum_q (w_q / C) A_q'(sum_c y_cq) + W ( sum_c (t_c - S_c g_c) / C + T sum_c (g_c - K S_c g_c) ).

So the children's wide queries count for their parent as one more measurement, of their sums and of C times the
variance, and what their few sums say is added in W. This is exact. Where the parents of a level have different numbers
of children, and are themselves children, their weights have to be alike: C is then the largest of the level, which
gives away a little of what the smaller ones know, and leaves their estimates unbiased.

V W is worked out on the functions that are constant on the *pieces*, the products of all groups that the queries make
of the values of an attribute. H takes these functions to such functions, since every query keeps an attribute whole or
has groups that are unions of pieces; and W is made of them. For 42 x 2 x 116 x 2 x 63 cells they are 29 x 2 x 40 x 2.

Structural zeros are not used here: estimates that do not know of them are unbiased, and the solution has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from geography.spine import Level, Spine
from postprocess.algebra import symmetrise
from postprocess.arrays import FloatArray, IntArray
from postprocess.linear.upward import LevelEstimate, estimates_of, level_terms, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Constraints, MeasuredAnswers, Problem
from postprocess.sums.space import MOST_SUMS, Space, SumsBasis, is_whole, kronecker, narrow_from

#: Pieces above which V W is not worked out: a matrix of two thirds of a gigabyte.
MOST_PIECES = 9000


@dataclass(frozen=True, eq=False)
class SumsLevel:
    """What is known of the geounits of one level.

    Attributes:
        measured: queries with many answers, with the sums of what the children's say; empty at the lower levels.
        classes: `(n,)` the class of each geounit.
        joint: `(n_classes, r, r)` N; at the lower levels the precision M.
        term: `(n, r)` t; at the lower levels all of the linear term.
        covariance: `(n_classes, r, r)` W'V_c W.
        best: `(n, r)` W'b_c.
        unmeasured: `(n_classes, r, r)` projectors on the sums that nothing is measured of; None where there are none.
    """

    measured: tuple[MeasuredAnswers, ...]
    classes: IntArray
    joint: FloatArray
    term: FloatArray
    covariance: FloatArray
    best: FloatArray
    unmeasured: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Pieces:
    """The functions that are constant on products of pieces of the attributes' values.

    Attributes:
        cells: cell -> piece, as a query.
    """

    cells: Marginal

    @classmethod
    def of(cls, queries: Sequence[Marginal], space: Space) -> Pieces:
        """The coarsest pieces for some queries and the sums of a space."""
        groups = []
        for j, values in enumerate(space.cells.groups):
            if any(is_whole(query, j) for query in space.queries):
                groups.append(np.arange(len(values), dtype=np.int64))
                continue
            grouped = [query.groups[j] for query in (*queries, *space.queries) if not is_whole(query, j)]
            rows = np.stack([np.zeros(len(values), dtype=np.int64), *grouped])
            groups.append(np.unique(rows, axis=1, return_inverse=True)[1].ravel().astype(np.int64))
        return cls(Marginal("pieces", tuple(groups)))

    @cached_property
    def sizes(self) -> tuple[FloatArray, ...]:
        """Values in each piece of each attribute."""
        return tuple(np.bincount(group).astype(np.float64) for group in self.cells.groups)

    def precision(self, measured: Sequence[tuple[Marginal, float]]) -> FloatArray:
        """Sum of w A'A over (query, w), on these functions: `(d, d)`, in the basis of the normalised pieces."""
        out = np.zeros((self.cells.size, self.cells.size))
        for query, weight in measured:
            groups = enumerate(self._groups(query))
            out += weight * kronecker(
                [np.eye(part.shape[1]) if is_whole(query, j) else part.T @ part for j, part in groups]
            )
        return out

    def basis(self, space: Space) -> FloatArray:
        """W on these functions, `(d, r)`."""
        return np.vstack([kronecker(self._groups(query)) for query in space.queries]).T @ space.q

    def _groups(self, query: Marginal) -> list[FloatArray]:
        """The sums of each attribute's groups over these functions, `(groups, pieces)`."""
        firsts = [np.unique(group, return_index=True)[1] for group in self.cells.groups]
        return [
            (np.arange(n)[:, None] == group[first][None, :]) * np.sqrt(size)
            for n, group, first, size in zip(query.sizes, query.groups, firsts, self.sizes, strict=True)
        ]

    def coordinates(self, cells: FloatArray) -> FloatArray:
        """The part of a vector over all cells `(n_cells,)` in these functions: `(d,)`."""
        sums = np.bincount(self.cells.cell_answer, cells, minlength=self.cells.size)
        return sums / np.sqrt(kronecker(self.sizes))


class KnownSums:
    """The upward pass of a problem whose lower levels measure few sums.

    Args:
        problem: with the values of its measurements; without bounds, bypassed geounits, joins and shares.
        most: answers of the queries of all lower levels together.
    """

    def __init__(self, problem: Problem, most: int = MOST_SUMS) -> None:
        self.problem = problem
        queries = [[measured.marginal for measured in level] for level in problem.measured]
        self.first = narrow_from(queries, most)
        self.space = Space.of([query for level in queries[self.first :] for query in level])
        self.basis = SumsBasis.of_space(self.space)

    @cached_property
    def levels(self) -> list[SumsLevel]:
        """Every level, top first."""
        lower = self._lower()
        above = max(self.first - 1, 0)
        out = [
            self._level_of(lower[0], number, estimate)
            for number, estimate in enumerate(lower[1])
            if number or not self.first
        ]
        if not self.first:
            return out
        children = lower[1][0].children
        joint = np.zeros((1, self.basis.n_asymmetric, self.basis.n_asymmetric))
        term = np.zeros((len(self.problem.spine.levels[above]), self.basis.n_asymmetric))
        classes = np.zeros(len(term), dtype=np.int64)
        if children is not None:
            classes, joint, term = lower[1][0].classes, children.precision[:, 0], children.term
        carried: tuple[MeasuredAnswers, ...] = ()
        for level in range(above, -1, -1):
            wide = _Wide(self, level, _together(self.problem.measured[level], carried), classes, joint, term)
            out.insert(0, wide.level)
            if level and self.problem.estimator == "full":
                carried, classes, joint, term = wide.carried()
            elif level:
                n = len(self.problem.spine.levels[level - 1])
                carried, classes = (), np.zeros(n, dtype=np.int64)
                joint, term = np.zeros((1, *joint.shape[1:])), np.zeros((n, term.shape[1]))
        return out

    def _lower(self) -> tuple[Problem, list[LevelEstimate]]:
        """The problem of the lower levels and of the one above them on the sums, and its upward pass."""
        above, problem = max(self.first - 1, 0), self.problem
        spine = problem.spine
        if above:
            top = spine.levels[above]
            spine = Spine((Level(top.name, top.geocodes, np.full(len(top), -1)), *spine.levels[above + 1 :]), part=True)
        measured = list(problem.measured[above:])
        if self.first:
            measured[0] = ()
        shape = (self.basis.n_asymmetric,)
        on_sums = replace(
            problem,
            spine=spine,
            shape=shape,
            measured=tuple(measured),
            constraints=Constraints(np.zeros(shape, dtype=bool), tuple(() for _ in measured)),
            passes=(),
            rounding=(),
            kinds=(),
            completed=(),
        )
        return on_sums, upward_pass(on_sums, self.basis)

    def _level_of(self, problem: Problem, number: int, estimate: LevelEstimate) -> SumsLevel:
        info = estimate.info
        n = len(estimate.classes)
        best, _ = estimates_of(problem, self.basis, number, estimate, np.arange(n))
        return SumsLevel(
            measured=(),
            classes=estimate.classes,
            joint=info.precision[:, 0],
            term=level_terms(problem, self.basis, number, estimate),
            covariance=info.covariance[:, 0],
            best=best.reshape(n, -1),
            unmeasured=info.unmeasured[:, 0] if info.blind.any() else None,
        )


def _together(own: Sequence[MeasuredAnswers], carried: Sequence[MeasuredAnswers]) -> tuple[MeasuredAnswers, ...]:
    """Measurements of a level with those that its children make of it: one of each query."""
    out: dict[tuple[bytes, ...], MeasuredAnswers] = {}
    for one in (*own, *carried):
        key = one.marginal.key
        if key not in out:
            out[key] = one
            continue
        before = out[key]
        weights = 1.0 / before.variance, 1.0 / one.variance
        values = (weights[0] * before.values + weights[1] * one.values) / sum(weights)
        out[key] = MeasuredAnswers(before.marginal, values, 1.0 / sum(weights))
    return tuple(out.values())


class _Wide:
    """A level above those of few sums; arguments as in `SumsLevel`."""

    def __init__(
        self,
        known: KnownSums,
        level: int,
        measured: tuple[MeasuredAnswers, ...],
        classes: IntArray,
        joint: FloatArray,
        term: FloatArray,
    ) -> None:
        self.known, self.number, self.measured = known, level, measured
        self.classes, self.joint, self.term = classes, joint, term
        pieces = Pieces.of([one.marginal for one in measured], known.space)
        on_pieces = pieces.basis(known.space)
        precision = pieces.precision([(one.marginal, 1.0 / one.variance) for one in measured])
        factor = cho_factor(precision, lower=True, overwrite_a=True, check_finite=False)
        self.on_pieces = cho_solve(factor, on_pieces, check_finite=False)
        del precision, factor
        self.k = 0.5 * (on_pieces.T @ self.on_pieces + self.on_pieces.T @ on_pieces)
        identity = np.eye(len(self.k))
        self.s = symmetrise(np.stack([n @ np.linalg.inv(identity + self.k @ n) for n in joint]))
        self.g = np.stack(
            [self.on_pieces.T @ pieces.coordinates(self.own_term(row)) + self.k @ term[row] for row in range(len(term))]
        )

    def own_term(self, row: int) -> FloatArray:
        """The sum of w A'y of a geounit, `(n_cells,)`."""
        out = np.zeros(self.known.problem.n_cells)
        for one in self.measured:
            out += (one.values[row] / one.variance)[one.marginal.cell_answer]
        return out

    @property
    def level(self) -> SumsLevel:
        """What is known of it."""
        smaller = self.k @ self.s @ self.k
        best = self.g - np.einsum("nij,nj->ni", (self.k @ self.s)[self.classes], self.g)
        return SumsLevel(self.measured, self.classes, self.joint, self.term, self.k - smaller, best)

    def carried(self) -> tuple[tuple[MeasuredAnswers, ...], IntArray, FloatArray, FloatArray]:
        """What the level above learns: measurements, and the classes, N and t of its geounits."""
        spine = self.known.problem.spine
        offsets = spine.child_offsets(self.number - 1)
        counts = np.diff(offsets)
        n_parents, most = len(counts), int(counts.max())
        measured = tuple(
            MeasuredAnswers(one.marginal, _added(one.values, offsets), one.variance * most) for one in self.measured
        )
        identity, taken = np.eye(len(self.k)), np.einsum("nij,nj->ni", self.s[self.classes], self.g)
        parents = spine.levels[self.number].parents
        remaining, best = np.zeros((n_parents, len(self.k))), np.zeros((n_parents, len(self.k)))
        np.add.at(remaining, parents, self.term - taken)
        np.add.at(best, parents, self.g - taken @ self.k)
        joint, term = np.zeros((n_parents, *self.k.shape)), np.zeros_like(best)
        for parent, count in enumerate(counts):
            mean = self.s[self.classes[offsets[parent] : offsets[parent + 1]]].mean(axis=0)
            joint[parent] = mean @ np.linalg.inv(identity - self.k @ mean) / count
            term[parent] = remaining[parent] / count + joint[parent] @ best[parent]
        return measured, np.arange(n_parents), symmetrise(joint), term


def _added(values: np.ndarray, offsets: IntArray) -> np.ndarray:
    """Sums of the rows of each parent's children, in 64 bits."""
    kind = np.float64 if values.dtype.kind == "f" else np.int64
    return np.stack([values[a:b].sum(axis=0, dtype=kind) for a, b in pairwise(offsets)])


def unfit(
    shape: Sequence[int], levels: Sequence[tuple[str, Sequence[Marginal]]], passes: Sequence[Marginal]
) -> list[str]:
    """Why a schema's levels cannot be estimated on few sums; empty where they can.

    Args:
        shape: values of each attribute.
        levels: name and queries of each level, top first.
        passes: queries that are solved before the detail.
    """
    first = narrow_from([queries for _, queries in levels])
    if first == len(levels):
        lowest = {query.key: query.size for query in levels[-1][1]}
        return [f"level {levels[-1][0]} measures {sum(lowest.values()):,} answers of each geounit"]
    why = []
    cells = int(np.prod(np.array(shape, dtype=object)))
    wide = [name for name, queries in levels[: max(first, 1)] if not any(query.size == cells for query in queries)]
    if wide:
        why.append(f"the detail is not measured at {', '.join(wide)}")
    space = Space.of([query for _, queries in levels[first:] for query in queries])
    if not space.queries:
        return [*why, "nothing is measured at the lower levels"]
    if wide:
        return why
    pieces = Pieces.of([query for _, queries in levels[:first] for query in queries], space)
    if pieces.cells.size > MOST_PIECES:
        why.append(
            f"the groups of the attributes' values make {pieces.cells.size:,} pieces; at most {MOST_PIECES:,} fit"
        )
    why += [
        f"pass {query.name!r} is no sum of what {levels[-1][0]} measures"
        for query in passes
        if not space.determines(query)
    ]
    return why

"""Simulated runs: measured anew with public noise from the released histograms, and estimated again.

The released histograms stand in for the truth: the parametric bootstrap of post-processed counts. Below a cut, a run
measures and solves some subtrees alone; of the others only the linear term at the cut is drawn (`summarised`). Above
it, everything is estimated, and the children of some geounits are solved (`visited`).

Which geounits are simulated, and in how many runs: enough for the precision of the margins, and no more.

In a simulated run the children of a geounit are solved or left out. At every level each geounit is *visited* by as many
runs as its level's rate says, give or take one, so that all have the same chance and errors need no weights:

- a geounit can be visited only where its parent is, so rates do not rise from the top down;
- siblings take turns in an order that the public seed draws.

A level's rate is such that every notable size of its published numbers (`NOTABLE`) is seen in `ERRORS` errors, and more
where that is cheap. Below a level of few geounits all is visited a few times (`SPREAD`): the sample is then not all in
one run, with one draw of the errors above it and as long as the others together. Everything here follows from the spine
and the release, never from a machine.

What the levels above a cut learn of the subtrees below it, in a simulated run: measured, or drawn at once.

Above a level, a subtree counts only by the precision H of its top's estimate and by the linear term eta. From
measurements of a histogram x, eta has the mean H x and the covariance H. So where a subtree is not simulated, eta is
drawn from the normal distribution of these moments, block by block: eta = H x + (sum_B C_B (x) P_B) z, with
C_B C_B' = H_B off the known and the unmeasured directions, and z standard normal. The estimate b = V eta then is
N(x, V) there. The measured eta is a sum of many independent noises, and normal as nearly as they make it.

Of randomised reports, V is that of an average answer. What the leaves below say is the sum of their debiased counts y,
which depends on the answers there alone: so y is drawn from its own distribution, and eta = H y.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from postprocess.algebra import Basis, chunks
from postprocess.arrays import BoolArray, FloatArray, IntArray, adding_up, successive, wide_enough
from postprocess.downward.batch import Pass
from postprocess.downward.level import above_origin, downward_level, only_below, origin_of
from postprocess.downward.simulated_margins import (
    CHUNK_NUMBERS,
    LARGE,
    SIZE_CLASSES,
    ErrorCounts,
    OwnErrors,
    PublishedTable,
    count_errors,
    size_class,
)
from postprocess.downward.subtrees import cut_level
from postprocess.linear.downward import AnswerVariances
from postprocess.linear.information import Information, factors_off
from postprocess.linear.upward import (
    CHUNK_CELLS,
    ChildrenSum,
    LevelEstimate,
    level_terms,
    upward_pass,
)
from postprocess.marginal import Marginal
from postprocess.problem import MeasuredAnswers, Problem

#: Relative standard error of a margin.
PRECISION = 0.05
#: Errors behind it: the 90 % quantile of the absolute value of n normal numbers has the relative standard error
#: sqrt(0.9 0.1 / n) / (2 phi(z) z) = 0.885 / sqrt(n), with z = 1.645 and the density phi of a standard normal.
ERRORS = math.ceil((0.885 / PRECISION) ** 2)
#: Numbers of a size that a level publishes, from which on the size is notable; below the cut also one number for so
#: many leaves of the spine. Rarer sizes are seen as often as the others, and pooled by the rule of margins.
NOTABLE, NOTABLE_LEAVES = 500, 1000
#: Simulated runs at least, where the spec allows them.
LEAST_RUNS = 4
#: Runs at least that visit the children of a level of fewer geounits than that, where this is at most so many times the
#: work on the sample below them.
SPREAD, FEW, WORTH = 2.0, 100, 2.0
#: Seconds of work on a level that are always worth it.
CHEAP = 0.25
#: Seconds of a core for a geounit, for a cell of one, per square and per cube of the cells of a family, for each child,
#: and per cube of all cells at the top.
PER_GEOUNIT, PER_CELL, PER_SQUARE, PER_CUBE, PER_TOP = 1.1e-4, 1.5e-7, 2.5e-7, 0.8e-9, 2.0e-10
#: Leaf cells of the subtrees that a simulated run works on at a time; no machine sets it, since ties depend on it.
GROUP_CELLS = 1 << 25
#: Rates are compared in this many parts.
_PARTS = 1 << 20


@dataclass(frozen=True)
class Rates:
    """How often the geounits of each level are simulated.

    Attributes:
        runs: simulated runs.
        visits: per level, the runs that simulate a geounit, on average; `runs` at the top.
        cut: the level whose subtrees are simulated whole or not at all; None where every run simulates everything.
    """

    runs: int
    visits: tuple[float, ...]
    cut: int | None

    @property
    def shares(self) -> tuple[float, ...]:
        """Per level, the share of the visited geounits whose children are visited, too; 1 at the leaves."""
        return (*(low / high for high, low in zip(self.visits, self.visits[1:], strict=False)), 1.0)


def work_of(spine: Spine, n_cells: int, filled: Sequence[FloatArray | IntArray]) -> FloatArray:
    """About the seconds of a core that it takes to simulate each level once, `(n_levels,)`.

    Args:
        spine: the geounits.
        n_cells: of the schema.
        filled: per level but the last, how many cells of each geounit are not empty, `(n,)`.
    """
    work = np.array([len(level) * (PER_GEOUNIT + PER_CELL * n_cells) for level in spine.levels])
    work[0] += PER_TOP * float(n_cells) ** 3
    for level in range(spine.n_levels - 1):
        k = np.asarray(filled[level], dtype=np.float64)
        children = np.diff(spine.child_offsets(level))
        of_child = PER_SQUARE * k * k * np.minimum(k, 100.0) / 100.0 + PER_CUBE * k**3
        work[level + 1] += float((children * of_child).sum())
    return work


def sizes_of(marginal: Marginal, variances: AnswerVariances, released: sp.csr_array) -> IntArray:
    """How many of a table's released numbers are of each size class, and, last, how many are large: `(n_classes + 1,)`.

    Args:
        marginal: the table's query.
        variances: of the level's answers.
        released: the level's histograms, `(n, n_cells)`.
    """
    limits = LARGE * np.sqrt(variances.by_query[marginal.key])
    out = np.zeros(len(SIZE_CLASSES) + 1, dtype=np.int64)
    for rows in chunks(len(variances.classes), marginal.size, CHUNK_NUMBERS):
        answers = marginal.answer_csr(released[rows])
        with np.errstate(invalid="ignore"):
            large = answers > limits[variances.classes[rows]]
        kind = np.where(large, len(SIZE_CLASSES), size_class(answers))
        out += np.bincount(kind.ravel(), minlength=len(out))
    return out


def needed_of(sizes: Sequence[IntArray], leaves: int) -> float:
    """Simulations of a level that its tables need.

    Args:
        sizes: of each table, from `sizes_of`.
        leaves: of the spine, where the level is below the cut; else 0.
    """
    notable = max(NOTABLE, leaves // NOTABLE_LEAVES)
    least = min((int(n) for table in sizes for n in table if n >= notable), default=0)
    return ERRORS / least if least else 0.0


def rates_of(spine: Spine, needed: Sequence[float], work: FloatArray, most: int) -> Rates:
    """How often each level is simulated.

    Args:
        spine: the geounits.
        needed: simulations of each level that its tables need.
        work: of each level, from `work_of`.
        most: runs at most.
    """
    cut = cut_level(spine)
    if cut is None:
        runs = math.ceil(min(most, max(LEAST_RUNS, *needed, CHEAP / float(work.sum()))))
        return Rates(runs, (float(runs),) * spine.n_levels, None)
    seconds = [float(of_level) for of_level in work[: cut + 1]]
    seconds += [float(work[cut + 1 :].sum())] * (spine.n_levels - cut - 1)
    least = [float(need) for need in needed]
    least[cut + 1 :] = [max(least[cut + 1 :])] * (spine.n_levels - cut - 1)
    for level in range(spine.n_levels - 2, -1, -1):
        least[level] = max(least[level], least[level + 1])
    runs = math.ceil(min(most, max(LEAST_RUNS, least[0], CHEAP / seconds[0])))
    visits = [float(runs)]
    for need, of_level in zip(least[1:], seconds[1:], strict=True):
        visits.append(min(visits[-1], max(need, CHEAP / of_level)))
    return Rates(runs, _spread(spine, cut, visits, work), cut)


def most_visits(leaves: int, n_cells: int) -> float:
    """Simulations of a leaf below the cut, at most, whatever its tables need and however few cells are filled.

    Args:
        leaves: of the spine.
        n_cells: of the schema.
    """
    needed = ERRORS / max(NOTABLE, leaves // NOTABLE_LEAVES)
    return max(needed, CHEAP / (leaves * (PER_GEOUNIT + PER_CELL * n_cells)))


def _spread(spine: Spine, cut: int, visits: Sequence[float], work: FloatArray) -> tuple[float, ...]:
    """Visits of each level, raised where few geounits are above and this is cheap beside the sample below it."""
    out = list(visits)
    for level in range(1, cut + 1):
        more = min(SPREAD, out[0]) - out[level]
        below = float(np.dot(visits[level + 1 :], work[level + 1 :]))
        if len(spine.levels[level - 1]) >= FEW or more * float(work[level]) > WORTH * below:
            break
        out[level] += max(0.0, more)
    return tuple(out)


def visited(spine: Spine, rates: Rates, key: int) -> list[BoolArray]:
    """Per level but the last, `(runs, n)`: whether a run solves the children of a geounit.

    Args:
        spine: the geounits.
        rates: how often.
        key: 128 bits that follow from the public seed.
    """
    generator = np.random.Generator(np.random.Philox(key=key))
    present = np.ones((rates.runs, len(spine.levels[0])), dtype=bool)
    out: list[BoolArray] = []
    for number in range(spine.n_levels - 1):
        level = spine.levels[number]
        if number:
            present = out[-1][:, level.parents]
        chosen = present
        share = min(_PARTS, math.ceil(rates.shares[number] * _PARTS))
        if share < _PARTS:
            place, siblings = _turns(level.parents, generator)
            start = (2 * place + 1) * _PARTS // (2 * siblings)
            visits = np.cumsum(present, axis=0, dtype=np.int64)
            # A geounit is taken where its count of turns goes up; those of siblings do so evenly apart.
            due = (visits * share + start) // _PARTS > ((visits - 1) * share + start) // _PARTS
            chosen = present & due
        out.append(chosen)
    return out


def _turns(parents: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Of each geounit its place in a random order of its siblings, from 0, and how many they are, both `(n,)`."""
    order = np.lexsort((generator.random(len(parents)), parents))
    _, starts, counts = np.unique(parents, return_index=True, return_counts=True)
    place = np.empty(len(parents), dtype=np.int64)
    place[order] = np.arange(len(parents)) - np.repeat(starts, counts)
    return place, np.repeat(counts, counts)


def summarised(at_cut: LevelEstimate) -> LevelEstimate:
    """A level's estimate for its matrices and for what is fixed, as it is sent with a run, which is large enough.

    Without what its children say, which is drawn anew in each run; and with the unmeasured directions of the first
    class alone where no class has any.
    """
    info = at_cut.info
    if not info.blind.any():
        info = replace(info, unmeasured=info.unmeasured[:1])
    return replace(at_cut, info=info, children=None)


def factors_of(info: Information) -> FloatArray:
    """C with C C' = H off the known and the unmeasured directions, and 0 on these: `(n_classes, n_blocks, a, a)`."""
    out, unmeasured = np.empty_like(info.precision), np.broadcast_to(info.unmeasured, info.known.shape)
    for rows in chunks(len(out), out[0].size):
        excluded = info.known[rows] + unmeasured[rows]
        kept = np.eye(excluded.shape[-1]) - excluded
        out[rows] = factors_off(kept @ info.precision[rows] @ kept, excluded)
    return out


def drawn_terms(
    basis: Basis, at_cut: LevelEstimate, factors: FloatArray, counts: sp.csr_array, generator: np.random.Generator
) -> FloatArray:
    """Linear terms `(n, n_cells)` of a level's geounits, as new measurements of the histograms `counts` would give.

    Args:
        basis: of the release.
        at_cut: the level's estimate, for its matrices.
        factors: of `factors_of`.
        counts: `(n, n_cells)`.
        generator: of public random numbers; it gives n_cells to each geounit, in order.
    """
    out = np.empty(counts.shape)
    for rows in chunks(out.shape[0], out.shape[1], CHUNK_CELLS):
        classes = at_cut.classes[rows]
        mean = basis.apply(at_cut.info.precision, basis.fold(counts[rows].toarray().astype(np.float64)), classes)
        normal = basis.fold(generator.standard_normal((len(classes), counts.shape[1])))
        out[rows] = basis.unfold(mean + basis.apply(factors, normal, classes))
    return out


def reported_terms(
    basis: Basis, at_cut: LevelEstimate, counts: sp.csr_array, reported: Callable[[int, IntArray], FloatArray]
) -> FloatArray:
    """The same, as new reports of the persons in `counts` would give.

    Args:
        basis: of the release.
        at_cut: the level's estimate, for its matrices.
        counts: `(n, n_cells)`.
        reported: (first row, answers `(n, n_cells)`) -> debiased counts of new reports.
    """
    out = np.empty(counts.shape)
    for rows in chunks(out.shape[0], out.shape[1], CHUNK_CELLS):
        answers = counts[rows].toarray()
        drawn = adding_up(reported(rows.start, np.rint(answers).astype(np.int64)), answers.sum(axis=1))
        out[rows] = basis.unfold(basis.apply(at_cut.info.precision, basis.fold(drawn), at_cut.classes[rows]))
    return out


def with_terms(at_cut: LevelEstimate, terms: FloatArray) -> LevelEstimate:
    """A level's estimate whose linear terms, of its own measurements and of its children, are `terms` together."""
    return replace(at_cut, children=ChildrenSum(terms[:0], at_cut.info.precision[:0], terms))


#: Added to the number of a level, for what is drawn of public shares, beside what is drawn of households.
_SHARES = 1 << 16
#: Likewise, for the members of open-ended households.
_EXCESS = 1 << 24
#: Fresh reports of some leaves: (replicate, first row, answers `(n, size)`) -> the counts that are made of them.
DrawReports = Callable[[int, int, IntArray], FloatArray]
#: Fresh noise of some rows of a level's query: (replicate, level, query number, first row, answers `(n, size)`) ->
#: whole numbers `(n, size)`; most noise does not depend on the answers.
DrawNoise = Callable[[int, int, int, int, IntArray], IntArray]


@dataclass(frozen=True, eq=False)
class Stretch:
    """Successive levels that a run simulates, of the whole spine or of some subtrees.

    Attributes:
        problem: without the values of its measurements.
        rows: per level, the rows in the whole release.
        released: per level, the histograms.
        solved: per level but the last, which geounits have their children solved.
        variances: per level, of the answers that are counted; None where no table is published.
    """

    problem: Problem
    rows: tuple[IntArray, ...]
    released: tuple[sp.csr_array, ...]
    solved: tuple[BoolArray, ...]
    variances: tuple[AnswerVariances | None, ...]


@dataclass(frozen=True, eq=False)
class Simulated:
    """One simulated run.

    Attributes:
        replicate: its number.
        basis: of the release.
        passes: of the release.
        upper: the levels down to the cut, or all of them where there is none.
        silent: as `upward.silent_of` gives for the whole release.
        at_cut: the estimate of the cut's level, of `summarised`; None where there is no cut, and where levels
            do not learn from those below.
        drawn_by: 128 bits that follow from the public seed and the run, for what is drawn of the subtrees below the cut
            that it does not simulate.
        groups: subtrees below the cut, some at a time.
        tables: whose errors are counted.
        nothing: of each table, no errors yet.
        key: 128 bits that follow from the public seed and the run, for what is measured among other universes.
        reported: draws reports in place of noise, where counts are made from reports.
        leaves: the level whose counts are made from reports, if any are; others are measured with noise.
        own: of counts that are made from reports.
    """

    replicate: int
    basis: Basis
    passes: tuple[Pass, ...]
    upper: Stretch
    silent: tuple[BoolArray, ...]
    at_cut: LevelEstimate | None
    drawn_by: int
    groups: tuple[Stretch, ...]
    tables: tuple[PublishedTable, ...]
    nothing: tuple[ErrorCounts, ...]
    key: int = 0
    reported: DrawReports | None = None
    leaves: int = 0
    own: OwnErrors | None = None


def simulate_run(run: Simulated, draw: DrawNoise) -> list[ErrorCounts]:
    """The errors of one simulated run, table by table."""
    errors = list(run.nothing)
    excess = _excess(run.upper, run.key)
    tops = excess[-1] if excess else None
    estimates = [_estimated(group, run, draw, tops) for group in run.groups[:1]] if len(run.groups) == 1 else []
    at_cut = None
    if run.at_cut is not None:
        terms = _terms_at_cut(run, run.at_cut)
        for number, group in enumerate(run.groups):
            problem, of_group = estimates[number] if estimates else _estimated(group, run, draw, tops)
            terms[group.rows[0]] = level_terms(problem, run.basis, 0, of_group[0])
        at_cut = with_terms(run.at_cut, terms)
    problem = _measured_anew(run.upper, excess, draw, run, drawn=at_cut is not None)
    upward = upward_pass(problem, run.basis, at_cut, run.silent)
    counts = _solved_down(run.upper, problem, upward, run, None, errors)
    for number, group in enumerate(run.groups):
        problem, of_group = estimates[number] if estimates else _estimated(group, run, draw, tops)
        _solved_down(group, problem, of_group, run, counts[group.rows[0]], errors)
    return errors


def _terms_at_cut(run: Simulated, at_cut: LevelEstimate) -> FloatArray:
    """The linear terms of all subtrees below the cut, drawn at once."""
    counts, reported = run.upper.released[-1], run.reported
    if reported is None or _measured_above_leaves(run):
        generator = np.random.Generator(np.random.Philox(key=run.drawn_by))
        factors = factors_of(at_cut.info)
        return drawn_terms(run.basis, at_cut, factors, counts, generator)
    # Negative, so that no leaf has the same numbers.
    own = -1 - run.replicate
    return reported_terms(run.basis, at_cut, counts, lambda first, answers: reported(own, first, answers))


def _measured_above_leaves(run: Simulated) -> bool:
    """Whether counts at the cut, or between it and the leaves, are not made from reports."""
    return bool(run.upper.problem.measured[-1]) or any(any(group.problem.measured[:-1]) for group in run.groups)


def _estimated(
    group: Stretch, run: Simulated, draw: DrawNoise, tops: FloatArray | None
) -> tuple[Problem, list[LevelEstimate]]:
    """Subtrees measured anew, and their upward pass; `tops` as in `_excess`, of all geounits at the cut."""
    excess = _excess(group, run.key, None if tops is None else tops[group.rows[0]])
    problem = _measured_anew(group, excess, draw, run)
    return problem, upward_pass(problem, run.basis)


def _count(
    errors: list[ErrorCounts],
    run: Simulated,
    stretch: Stretch,
    number: int,
    simulated: sp.csr_array,
    rows: IntArray,
    origin: IntArray | None,
) -> None:
    """Add the errors of some geounits of a level to those of each of its tables, by sizes above the level's origin."""
    variances, released = stretch.variances[number], stretch.released[number]
    if variances is None or not len(rows):
        return
    if origin is not None:
        released, simulated = above_origin(released, origin), above_origin(simulated, origin)
    if len(rows) < released.shape[0]:
        released, simulated = released[rows], simulated[rows]
        variances = replace(variances, classes=variances.classes[rows])
    for i, table in enumerate(run.tables):
        if table.level == stretch.problem.first_level + number:
            errors[i] += count_errors(table, variances, released, simulated, run.own, errors[i].unit)


def _solved_down(
    stretch: Stretch,
    problem: Problem,
    upward: Sequence[LevelEstimate],
    run: Simulated,
    tops: sp.csr_array | None,
    errors: list[ErrorCounts],
) -> sp.csr_array:
    """Solve the levels of a stretch from the top down, count their errors, and return the last one's histograms.

    Args:
        stretch: the levels.
        problem: theirs, measured anew.
        upward: of the problem.
        run: which the stretch is part of.
        tops: the histograms of its top level, where they are solved already; None where that is the spine's.
        errors: to which those of the stretch are added.
    """
    above = tops
    for number in range(0 if tops is None else 1, problem.spine.n_levels):
        level = problem.spine.levels[number]
        rows = np.arange(len(level))
        parents = above
        if number and parents is not None and not (flags := stretch.solved[number - 1]).all():
            parents = _only(parents, flags)
            rows = np.flatnonzero(flags[level.parents])
        here = problem if len(rows) == len(level) else only_below(problem, number, stretch.solved[number - 1])
        # A sample is compared in the run itself.
        unchecked = np.zeros(len(problem.spine.levels[max(number - 1, 0)]), dtype=bool)
        above, _ = downward_level(
            here, run.basis, number, upward[number], parents, checked=unchecked, passes=run.passes
        )
        _count(errors, run, stretch, number, above, rows, origin_of(here, number))
    assert above is not None
    return above


def _only(counts: sp.csr_array, rows: BoolArray) -> sp.csr_array:
    """The histograms of some rows; the others are empty, and nobody is below them."""
    sizes = np.diff(counts.indptr)
    kept = np.repeat(rows, sizes)
    starts = np.concatenate([[0], np.cumsum(np.where(rows, sizes, 0))])
    return sp.csr_array((counts.data[kept], counts.indices[kept], starts), shape=counts.shape)


def _excess(stretch: Stretch, key: int, tops: FloatArray | None = None) -> list[FloatArray]:
    """Per level, the members of open-ended households beyond the least; empty where nothing is measured of them.

    They are drawn from the top down, so that subtrees that are not simulated are not needed.

    Args:
        stretch: the levels.
        key: of the run.
        tops: those of its top level, where they are drawn already; None where that is the spine's.
    """
    problem, found = stretch.problem, list[FloatArray]()
    for number, implied in enumerate(problem.implied):
        released = stretch.released[number]
        if number:
            place = (_EXCESS + problem.first_level + number, key)
            parents = problem.spine.levels[number].parents
            found.append(implied.excess_below(released, parents, found[-1], stretch.rows[number], place))
        else:
            found.append(implied.excess_at_top(released) if tops is None else tops)
    return found


def _measured_anew(
    stretch: Stretch, excess: Sequence[FloatArray], draw: DrawNoise, run: Simulated, *, drawn: bool = False
) -> Problem:
    """The released histograms' answers with fresh noise, some geounits at a time, in the smallest sufficient type.

    Args:
        stretch: the levels that are measured.
        excess: as `_excess` gives.
        draw: gives the noise.
        run: of which this is a part.
        drawn: the last level has drawn terms, and is not measured.
    """
    problem = stretch.problem.in_64_bits()
    measured: list[tuple[MeasuredAnswers, ...]] = []
    for number, queries in enumerate(problem.measured):
        if drawn and number == problem.spine.n_levels - 1:
            measured.append(())
            continue
        rows, kinds, level = stretch.rows[number], problem.kinds_of(number), problem.first_level + number
        reported = run.reported if level == run.leaves else None
        new = []
        for i, query in enumerate(queries):
            shape = (len(rows), query.marginal.size)
            values: NDArray[Any] = np.zeros(shape, dtype=np.int16 if reported is None else np.float64)
            for first, last in successive(rows, max(1, CHUNK_NUMBERS // query.marginal.size)):
                answers = query.marginal.answer_csr(stretch.released[number][first:last])
                if reported is not None:
                    values[first:last] = reported(run.replicate, int(rows[first]), answers)
                    continue
                part = answers + draw(run.replicate, level, i, int(rows[first]), answers)
                if query.marginal.answered:
                    part[:, ~query.marginal.asked] = 0
                if kinds is not None:
                    part[kinds[first:last] < 0] = 0
                values = values.astype(wide_enough(values.dtype, part), copy=False)
                values[first:last] = part
            new.append(replace(query, values=values))
        measured.append(tuple(new))
    implied = [
        of_level.measured_anew(released, beyond, rows, (problem.first_level + number, run.key))
        for number, (of_level, released, beyond, rows) in enumerate(
            zip(problem.implied, stretch.released, excess, stretch.rows, strict=False)
        )
    ]
    shares = [
        ()
        if not number
        else tuple(
            one.around(
                stretch.released[number],
                level.parents,
                rows,
                (_SHARES + 64 * i + problem.first_level + number, run.key),
            )
            for i, one in enumerate(of_level)
        )
        for number, (of_level, level, rows) in enumerate(
            zip(problem.shares, problem.spine.levels, stretch.rows, strict=False)
        )
    ]
    return replace(problem, measured=tuple(measured), implied=tuple(implied), shares=tuple(shares))

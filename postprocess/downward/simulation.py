"""A simulated run: measured anew with public noise from the released histograms, and estimated again.

The released histograms stand in for the truth: the parametric bootstrap of post-processed counts. Below a cut, a run
measures and solves some subtrees alone; of the others only the linear term at the cut is drawn (`summaries`). Above it,
everything is estimated, and the children of some geounits are solved (`samples`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray, successive, wide_enough
from postprocess.downward.level import downward_level
from postprocess.downward.origin import above_origin, only_below, origin_of
from postprocess.downward.passes import Pass
from postprocess.downward.reported_errors import OwnErrors, count_reported
from postprocess.downward.simulated_margins import CHUNK_NUMBERS, ErrorCounts, PublishedTable, count_errors
from postprocess.downward.subtrees import in_64_bits
from postprocess.downward.summaries import drawn_terms, factors_of, measured_terms, reported_terms, with_terms
from postprocess.linear.downward import AnswerVariances
from postprocess.linear.upward import LevelEstimate, upward_pass
from postprocess.problem import MeasuredAnswers, Problem

#: Added to the number of a level, for what is drawn of public shares, beside what is drawn of households.
_SHARES = 1 << 16
#: Likewise, for the members of open-ended households.
_EXCESS = 1 << 24
#: Fresh reports of some leaves: (replicate, first row, answers `(n, size)`) -> the counts that are made of them.
DrawReports = Callable[[int, int, IntArray], FloatArray]
#: Fresh noise of some rows of a level's query: (replicate, level, query number, first row, shape) -> whole numbers.
DrawNoise = Callable[[int, int, int, int, tuple[int, int]], IntArray]


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
        at_cut: the estimate of the cut's level, of `summaries.summarised`; None where there is no cut, and where levels
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
            terms[group.rows[0]] = measured_terms(problem, run.basis, of_group[0])
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
            if run.own is None:
                errors[i] += count_errors(table, run.basis, variances, released, simulated)
            else:
                errors[i] += count_reported(table, run.basis, variances, released, simulated, run.own)


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


def _reported_anew(
    query: MeasuredAnswers, released: sp.csr_array, rows: IntArray, replicate: int, reported: DrawReports
) -> MeasuredAnswers:
    """The query with the counts from new reports of the released answers."""
    values = np.zeros((len(rows), query.marginal.size))
    for first, last in successive(rows, max(1, CHUNK_NUMBERS // query.marginal.size)):
        answers = query.marginal.answer_csr(released[first:last])
        values[first:last] = reported(replicate, int(rows[first]), answers)
    return replace(query, values=values)


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
    problem = in_64_bits(stretch.problem)
    measured: list[tuple[MeasuredAnswers, ...]] = []
    for number, queries in enumerate(problem.measured):
        if drawn and number == problem.spine.n_levels - 1:
            measured.append(())
            continue
        rows, kinds = stretch.rows[number], problem.kinds_of(number)
        new = []
        for i, query in enumerate(queries):
            if run.reported is not None and problem.first_level + number == run.leaves:
                new.append(_reported_anew(query, stretch.released[number], rows, run.replicate, run.reported))
                continue
            size = query.marginal.size
            values: NDArray[np.signedinteger] = np.zeros((len(rows), size), dtype=np.int16)
            for first, last in successive(rows, max(1, CHUNK_NUMBERS // size)):
                shape = (last - first, size)
                noise = draw(run.replicate, problem.first_level + number, i, int(rows[first]), shape)
                part = noise + query.marginal.answer_csr(stretch.released[number][first:last])
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

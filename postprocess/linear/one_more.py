"""A further measurement of a level, with exactly known variance, beside those of a release: what all say together.

The further answers enter both linear passes as the release's own do, so that the result is the generalised least
squares of all of them, with all invariants and zeros. They may be of some groups of a query only (`Marginal.answered`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray
from postprocess.linear.downward import unbiased_estimates, variances_of
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import MeasuredAnswers, Problem

#: Of a measurement that was not made.
_NOT_MADE = float("inf")


@dataclass(frozen=True, eq=False)
class LinearAnswers:
    """Linear unbiased estimates of a query's answers at a level: values and variances, both `(n, size)`.

    A variance is 0 where zeros and invariants fix an answer, and NaN where the measurements do not determine it.
    """

    values: FloatArray
    variances: FloatArray


def with_one_more(problem: Problem, level: int, further: MeasuredAnswers) -> Problem:
    """The problem with one more measurement, of every geounit of a level.

    Where only children are bypassed, those that were not measured become geounits measured without any precision: the
    further answers are of them, too.

    Args:
        problem: with estimator "full".
        level: number of the level.
        further: values `(n_geounits, size)`, of the same variance everywhere.
    """
    measured, kinds = list(problem.measured), [problem.kinds_of(number) for number in range(problem.spine.n_levels)]
    for number, of_level in enumerate(kinds):
        if of_level is None:
            continue
        silent = 1 + max(int(of_level.max(initial=0)), *(len(one.others) for one in measured[number]), 0)
        kinds[number] = np.where(of_level < 0, silent, of_level)
        measured[number] = tuple(
            replace(one, others=(*one.others, *[_NOT_MADE] * (silent - len(one.others)))) for one in measured[number]
        )
        if number == level:
            further = replace(further, others=(further.variance,) * silent)
    measured[level] = (*measured[level], further)
    return replace(problem, measured=tuple(measured), kinds=tuple(kinds) if problem.kinds else ())


def linear_answers(problem: Problem, level: int, query: Marginal) -> LinearAnswers:
    """The best linear unbiased estimates of a query's answers at a level, from all measurements of a problem.

    Args:
        problem: with the values of its measurements, estimator "full".
        level: number of the level.
        query: whose answers; all of them, whatever was measured of it.
    """
    basis: Basis = basis_of(problem)
    estimates = upward_pass(problem, basis)
    above: FloatArray | None = None
    for number, variances in enumerate(variances_of(problem, estimates)):
        best = np.empty((len(problem.spine.levels[number]), problem.n_cells if number < level else query.size))
        for rows, cells in unbiased_estimates(problem, basis, estimates, number, above):
            best[rows] = cells if number < level else query.answer(cells)
        if number == level:
            return LinearAnswers(best, variances.of_answers(basis, replace(query, answered=())))
        above = best
    raise ValueError(f"level must be below {problem.spine.n_levels}, got {level}")

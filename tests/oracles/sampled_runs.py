"""Simulated runs of a problem, sampled as asked, without files; and their errors, number by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis
from postprocess.downward.passes import passes_of
from postprocess.downward.samples import Rates, visited
from postprocess.downward.simulated_margins import PublishedTable
from postprocess.downward.simulation import DrawNoise, Simulated, Stretch, Summary
from postprocess.downward.subtrees import Cut, above_cut, chosen_subtrees, without_values
from postprocess.downward.summaries import summarised
from postprocess.linear.downward import AnswerVariances, LevelVariances
from postprocess.linear.upward import basis_of, silent_of, upward_pass
from postprocess.problem import Problem


@dataclass(frozen=True)
class Seen:
    """Stands in for `ErrorCounts`: every released answer with its error.

    Attributes:
        pairs: (released answers, errors), flat, of each time that errors were counted.
    """

    pairs: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.pairs + other.pairs)

    @property
    def released(self) -> np.ndarray:
        return np.concatenate([released for released, _ in self.pairs])

    @property
    def errors(self) -> np.ndarray:
        return np.concatenate([errors for _, errors in self.pairs])


def see(table: PublishedTable, _: Basis, __: AnswerVariances, released: sp.csr_array, simulated: sp.csr_array) -> Seen:
    """Stands in for `count_errors`."""
    answers = table.marginal.answer(released.toarray())
    return Seen(((answers.ravel(), (table.marginal.answer(simulated.toarray()) - answers).ravel()),))


def sampled_runs(  # a problem, its release, and how it is sampled
    problem: Problem,
    released: Sequence[sp.csr_array],
    tables: Sequence[PublishedTable],
    variances: Sequence[LevelVariances],
    rates: Rates,
    key: int,
    choose: Callable[[list[np.ndarray]], list[np.ndarray]] = lambda flags: flags,
) -> list[Simulated]:
    """The runs.

    Args:
        problem: whose values are not used.
        released: per level.
        tables: whose errors are seen.
        variances: per level.
        rates: how often each level is simulated; it has a cut.
        key: of the sample and of the summaries.
        choose: changes the sample, as a fault.
    """
    assert rates.cut is not None
    basis = basis_of(problem)
    at_cut = summarised(upward_pass(problem, basis)[rates.cut])
    flags = choose(visited(problem.spine, rates, key))
    upper = above_cut(problem, Cut(rates.cut, ()))
    upper = replace(upper, measured=tuple(without_values(queries) for queries in upper.measured))
    answers = [
        of_level.of_queries(basis, [table.marginal for table in tables if table.level == level])
        for level, of_level in enumerate(variances)
    ]
    runs = []
    for run in range(rates.runs):
        tops = np.flatnonzero(flags[rates.cut][run])
        groups: list[Stretch] = []
        for some in np.array_split(tops, 2) if len(tops) > 1 else [tops]:
            if len(some):
                part, rows = chosen_subtrees(problem, rates.cut, some)
                own = zip(answers[rates.cut :], rows, strict=True)
                groups.append(
                    Stretch(
                        part,
                        tuple(rows),
                        tuple(released[rates.cut + i][r] for i, r in enumerate(rows)),
                        tuple(np.ones(len(r), dtype=bool) for r in rows[:-1]),
                        tuple(of.of_rows(r) for of, r in own),
                    )
                )
        levels = range(rates.cut + 1)
        runs.append(
            Simulated(
                replicate=run,
                basis=basis,
                passes=passes_of(problem),
                upper=Stretch(
                    upper,
                    tuple(np.arange(len(problem.spine.levels[level])) for level in levels),
                    tuple(released[: rates.cut + 1]),
                    tuple(flags[level][run] for level in range(rates.cut)),
                    tuple(answers[: rates.cut + 1]),
                ),
                silent=tuple(silent_of(problem)[: rates.cut + 1]),
                summary=Summary(at_cut, 1000 * key + run),
                groups=tuple(groups),
                tables=tuple(tables),
                nothing=tuple(Seen() for _ in tables),  # type: ignore[misc]
            )
        )
    return runs


def rounded_normal(problem: Problem, key: int) -> DrawNoise:
    """Noise with the variances of the problem, which depends on the position in the level alone."""

    def draw(replicate: int, level: int, query: int, first: int, shape: tuple[int, int]) -> np.ndarray:
        deviation = problem.measured[level][query].variance ** 0.5
        rows = [
            np.random.default_rng([key, replicate, level, query, first + i]).normal(0, deviation, shape[1])
            for i in range(shape[0])
        ]
        return np.rint(np.array(rows)).astype(np.int64).reshape(shape)

    return draw

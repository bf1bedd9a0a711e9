"""A plan of districts beside a release: its numbers, and the variances of their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.fitness.district_plan import DistrictPlan
from features.fitness.districts import Majority, PlanFitness, judged_plan, majorities
from pipeline.reading.question import Question
from pipeline.reading.reader import Reader
from pipeline.reading.sums import together


@dataclass(frozen=True, eq=False)
class Group:
    """A group that may have the majority, and among whom.

    Attributes:
        name: in words.
        members, among: questions whose conditions say who is counted; all members are among the others.
    """

    name: str
    members: Question
    among: Question

    def counts(self, leaves: sp.csr_array) -> NDArray[np.int64]:
        """Members and people among whom they are `(n_leaves, 2)`, of histograms of leaves."""
        return np.stack([leaves @ _cells(question) for question in (self.members, self.among)], axis=1)


def plan_fitness(
    release: Reader, plan: DistrictPlan, groups: Sequence[Group], truth: sp.csr_array | None = None
) -> PlanFitness:
    """Judge a plan; `truth` is the true histogram of the leaves, if known."""
    leaves = release.histogram(release.spine.leaf_level.name)
    inside = [plan.district == number for number in range(len(plan.names))]
    everybody = release.query("total")
    variances = np.array([_variances(release, district, everybody, everybody)[0] for district in inside])
    whole = _variances(release, np.ones(release.spine.n_leaves, dtype=np.bool_), everybody, everybody)[0]
    found: list[Majority] = []
    for group in groups:
        parts = [_variances(release, district, group.members, group.among) for district in inside]
        # Var(m - t / 2) = Var m - Cov(m, t) + Var t / 4
        of_excess = np.array([max(0.0, left - both + right / 4) for left, right, both in parts])
        true = None if truth is None else _pair(plan.sums(group.counts(truth)))
        numbers = _pair(plan.sums(group.counts(leaves)))
        found += majorities(group.name, plan.names, numbers, of_excess, true)
    return judged_plan(
        plan.source,
        plan.names,
        _people(plan, leaves),
        variances,
        whole,
        None if truth is None else _people(plan, truth),
        found,
    )


def _pair(numbers: NDArray[np.generic]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    whole = np.asarray(numbers, dtype=np.int64)
    return whole[:, 0], whole[:, 1]


def _people(plan: DistrictPlan, leaves: sp.csr_array) -> NDArray[np.int64]:
    return np.asarray(plan.sums(np.asarray(leaves.sum(axis=1), dtype=np.int64).ravel()), dtype=np.int64)


def _cells(question: Question) -> NDArray[np.int64]:
    """`(n_cells,)`: 1 for each cell that is counted."""
    counted = np.ones(1, dtype=np.int64)
    for allowed in question.allowed:
        counted = (counted[:, None] * allowed[None, :].astype(np.int64)).ravel()
    return counted


def _variances(release: Reader, inside: NDArray[np.bool_], left: Question, right: Question) -> tuple[float, ...]:
    """Variances of two numbers in an area, and their covariance."""
    moments = release.half_widths.moments_of_leaves(
        inside.astype(np.float64), together(left.allowed, 1), together(right.allowed, 1)
    )
    return tuple(float(one[0, 0]) for one in (moments.left, moments.right, moments.both))

"""The intermediate results of one universe's estimation."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from pipeline.estimation.join_queries import with_join_queries
from pipeline.estimation.measurement_files import SourceFiles
from pipeline.estimation.problem import stated_problem, with_values
from pipeline.execution.job import Job
from pipeline.model.universe import Universe
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray
from postprocess.downward.level import checked_parents
from postprocess.downward.passes import Pass, passes_of
from postprocess.linear.upward import LevelEstimate, basis_of, upward_pass
from postprocess.problem import Problem


class Computed:
    """The intermediate results of one universe's estimation, each computed at first use.

    Args:
        job: the run.
        universe: that is estimated.
        full: by the full estimator, whichever the spec names.
    """

    def __init__(self, job: Job, universe: Universe, *, full: bool = False) -> None:
        self.job = job
        self.universe = universe
        self.full = full

    @cached_property
    def stated(self) -> Problem:
        """The problem without the values of its measurements; ReleaseError where a file is not what the spec says."""
        stated = with_join_queries(stated_problem(self.job, self.universe), self.job.spec.joins(), self.universe)
        return replace(stated, estimator="full") if self.full else stated

    @cached_property
    def problem(self) -> Problem:
        """Read from public/; ReleaseError where a file is not what the spec says."""
        return with_values(self.stated, self.job, self.universe)

    @cached_property
    def basis(self) -> Basis:
        """The basis of the stated problem."""
        return basis_of(self.stated)

    @cached_property
    def upward(self) -> list[LevelEstimate]:
        """The upward pass of the whole spine, top level first."""
        return upward_pass(self.problem, self.basis)

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """The passes of every level, the detail last."""
        return passes_of(self.stated)

    @cached_property
    def checked(self) -> list[BoolArray]:
        """Per level, which parents cvxpy solves again."""
        return checked_parents(self.job.spine, self.stated.seed)

    def combined(self) -> tuple[Problem, list[LevelEstimate]]:
        """The problem of the levels that are solved one by one, and their estimates from the upward pass."""
        return self.problem, self.upward

    def parts(self) -> list[tuple[int, Problem, SourceFiles, Basis]]:
        """Of each part below a cut its number, problem without values, files of measurements, and the basis."""
        return []

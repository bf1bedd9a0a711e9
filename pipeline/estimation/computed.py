"""The intermediate results of one universe's estimation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from weakref import proxy

from pipeline.estimation.constraints import Known
from pipeline.estimation.knowledge import Results
from pipeline.estimation.measurement_files import SourceFiles
from pipeline.estimation.problem import stated_problem, with_values
from pipeline.execution.job import Job
from pipeline.model.universe import Universe
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray
from postprocess.downward.batch import Pass, passes_of
from postprocess.downward.level import checked_parents
from postprocess.linear.upward import LevelEstimate, basis_of, upward_pass
from postprocess.problem import Problem


class Computed:
    """The intermediate results of one universe's estimation, each computed at first use.

    Args:
        job: the run.
        universe: that is estimated.
        results: gives the intermediate results of another universe, by its name; by default computed at once.
        full: by the full estimator, whichever the spec names.
    """

    def __init__(
        self, job: Job, universe: Universe, results: Callable[[str], Results] | None = None, *, full: bool = False
    ) -> None:
        self.job = job
        self.universe = universe
        self.full = full
        self._results = results or partial(_computed_at_once, job)

    @cached_property
    def known(self) -> Known:
        """What is known of the universe besides its measurements."""
        # A proxy, so that what is computed is freed at once, and not when cycles are collected.
        return Known.of(self.job, self.universe, proxy(self), self._results)

    @cached_property
    def stated(self) -> Problem:
        """The problem without the values of its measurements; ReleaseError where a file is not what the spec says."""
        stated = stated_problem(self.job, self.universe, self.known)
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
        """Per level, which parents' children are solved again."""
        return checked_parents(self.job.spine, self.stated.seed)

    def combined(self) -> tuple[Problem, list[LevelEstimate]]:
        """The problem of the levels that are solved one by one, and their estimates from the upward pass."""
        return self.problem, self.upward

    def forget(self) -> None:
        """Free the values of the measurements and what follows from them; they are computed again where needed."""
        for name in ("problem", "upward"):
            self.__dict__.pop(name, None)

    def parts(self) -> list[tuple[int, Problem, SourceFiles, Basis]]:
        """Of each part below a cut its number, problem without values, files of measurements, and the basis."""
        return []


def _computed_at_once(job: Job, universe: str) -> Results:
    return Computed(job, next(one for one in job.universes if one.name == universe))

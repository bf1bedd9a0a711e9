"""Margins of error beside the numbers of the tables: new runs are simulated from the released histograms.

The simulations see public data only, and their noise comes from the public seed: they cost no budget, and anyone can
repeat them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from flows.estimation.constraints import marginal_of
from flows.estimation.margin_packing import packed_errors, unpacked_errors
from flows.estimation.whole_spine import Estimation
from flows.execution.batches import run_kept
from pipeline.model.allocation import allocations
from pipeline.model.universe import Table
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from postprocess.downward.intervals import Intervals
from postprocess.downward.simulated_margins import ErrorCounts, PublishedTable
from postprocess.downward.simulation import DrawNoise, simulate
from postprocess.linear.downward import AnswerVariances, variances_of
from postprocess.problem import Measured, Problem


@dataclass(frozen=True, eq=False)
class PublicNoise:
    """Noise of simulated runs: the distributions of the real one, drawn from a public seed.

    Attributes:
        seed: public.
        universe: its name; universes and replicates do not share noise.
        noise: per level, of each query in the order of the problem, for each kind of geounit.
        kinds: per level, as in `Problem`.
    """

    seed: int
    universe: str
    noise: tuple[tuple[tuple[NoiseSpec, ...], ...], ...]
    kinds: tuple[NDArray[np.int8] | None, ...]

    def draw(self, replicate: int, level: int, query: int, first: int, shape: tuple[int, int]) -> NDArray[np.int64]:
        """Noise `(n, size)` on a query's answers in the geounits of a level from `first` on, in one simulated run.

        It depends on the position in the level, and not on how many geounits are requested at a time.
        """
        place = json.dumps(["spinewise simulation 1", self.seed, self.universe, replicate, level, query])
        public_key = hashlib.sha256(place.encode()).digest()
        drawn = [
            sampler_for(noise).draw(public_key, first * shape[1], shape[0] * shape[1]).reshape(shape)
            for noise in self.noise[level][query]
        ]
        if (kinds := self.kinds[level]) is not None:
            own = kinds[first : first + shape[0]]
            for kind, noise_of_kind in enumerate(drawn[1:], start=1):
                drawn[0][own == kind] = noise_of_kind[own == kind]
        return drawn[0]


@dataclass(frozen=True, eq=False)
class Simulation:
    """One simulated run, as it is sent to a worker."""

    problem: Problem
    released: tuple[sp.csr_array, ...]
    tables: tuple[PublishedTable, ...]
    variances: tuple[AnswerVariances, ...]
    noise: PublicNoise
    replicate: int


def run_simulation(task: Simulation) -> list[ErrorCounts]:
    """The errors of one simulated run in each table."""
    draw: DrawNoise = task.noise.draw
    return simulate(task.problem, task.released, task.tables, task.variances, draw, task.replicate)


class Margins:
    """The margins of error of one universe's tables; simulated once, then looked up table by table."""

    def __init__(self, estimation: Estimation) -> None:
        self.estimation = estimation
        self.errors: dict[tuple[str, int], ErrorCounts] = {}
        self._variances: tuple[AnswerVariances, ...] | None = None
        self._intervals: dict[tuple[str, int], Intervals] = {}

    @property
    def replicates(self) -> int:
        """Simulated runs; 0 where no margins are published."""
        publish = self.estimation.job.spec.publish
        return publish.replicates if publish.margins else 0

    @cached_property
    def tables(self) -> tuple[PublishedTable, ...]:
        """Each table at each of its levels."""
        spine = self.estimation.job.spine
        return tuple(
            PublishedTable(table.name, spine.index_of(level), marginal_of(table.query))
            for table in self.estimation.universe.tables
            for level in table.levels
        )

    @property
    def variances(self) -> tuple[AnswerVariances, ...]:
        """Per level, the variances of its tables' answers; computed at first use, one level at a time."""
        if self._variances is None:
            levels = variances_of(self.estimation.problem, self.estimation.upward)
            self._variances = tuple(
                estimate.of_queries(
                    self.estimation.basis, [table.marginal for table in self.tables if table.level == level]
                )
                for level, estimate in enumerate(levels)
            )
        return self._variances

    def simulate(self) -> None:
        """Simulate all runs, and add up their errors."""
        job, problem = self.estimation.job, self.estimation.problem
        noise = PublicNoise(problem.seed, self.estimation.universe.name, *self._noise())
        released = tuple(self.estimation.released(level) for level in range(job.spine.n_levels))
        bare = replace(problem, measured=_without_values(problem.measured))
        tasks = [
            Simulation(bare, released, self.tables, self.variances, noise, replicate)
            for replicate in range(self.replicates)
        ]
        self.errors.clear()  # those of an earlier attempt that failed
        step = f"simulate {self.estimation.universe.name}".rstrip()
        runs = run_kept(
            job.workers, job.batches, step, run_simulation, tasks,
            named=lambda task: str(task.replicate), packed=packed_errors, unpacked=unpacked_errors, done=self._advance,
        )  # fmt: skip
        for run_errors in runs:
            for table, errors in zip(self.tables, run_errors, strict=True):
                key = (table.name, table.level)
                if key in self.errors:
                    self.errors[key].add(errors)
                else:
                    self.errors[key] = errors

    def _advance(self, _: Simulation) -> None:
        self.estimation.job.progress.advance(sum(len(level) for level in self.estimation.job.spine.levels))

    def _noise(
        self,
    ) -> tuple[tuple[tuple[tuple[NoiseSpec, ...], ...], ...], tuple[NDArray[np.int8] | None, ...]]:
        """Noise and kinds, as `PublicNoise` has them."""
        universe = self.estimation.universe
        allotted = allocations(universe, self.estimation.job.spine)
        noise = tuple(
            tuple(allocation.noises(universe, measured) for measured in allocation.strategy.queries)
            for allocation in allotted
        )
        return noise, tuple(allocation.kinds for allocation in allotted)

    def of(
        self, table: Table, level: int, counts: NDArray[np.int64], rows: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The ends of the 90 % intervals of the released counts `(n, size)` of a level's `rows`, in persons.

        NaN where the measurements do not determine a number; None if no margins are published.
        """
        if not self.replicates:
            return None
        if (table.name, level) not in self._intervals:
            published = PublishedTable(table.name, level, marginal_of(table.query))
            errors, variances = self.errors[table.name, level], self.variances[level]
            intervals = Intervals.of(published, self.estimation.basis, variances, errors)
            self._intervals = {(table.name, level): intervals}  # tables are written one after the other
        return self._intervals[table.name, level].ends(counts, rows)

    def close(self) -> None:
        """Free what was computed."""
        self.errors.clear()
        self._intervals.clear()
        self._variances = None


def _without_values(measured: Sequence[Sequence[Measured]]) -> tuple[tuple[Measured, ...], ...]:
    """The same queries and variances; a simulated run has values of its own."""
    nothing = np.zeros((0, 0), dtype=np.int8)
    return tuple(tuple(replace(measurement, values=nothing) for measurement in level) for level in measured)

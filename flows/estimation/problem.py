"""From the public files of a run to the problem that post-processing solves. Nothing restricted is read here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flows.estimation.constraints import carried_constraints, declared_constraints, marginal_of
from flows.estimation.measurement_files import MeasuredFile, differing
from flows.execution.job import Job
from geography.spine import Level
from pipeline.errors import ReleaseError
from pipeline.model.allocation import allocations
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.release.facilities import read_public_facilities
from pipeline.release.layout import UniverseDirectory
from pipeline.release.measurements import exact_header, header_of, open_measurement
from postprocess.problem import Problem


def problem_of(job: Job, universe: Universe) -> Problem:
    """The problem that the public files of one universe state; as `stated_problem`, with all measurements."""
    return with_values(stated_problem(job, universe), job, universe)


def with_values(problem: Problem, job: Job, universe: Universe) -> Problem:
    """A stated problem, or its upper levels, with all values of its measurements.

    Raises:
        ReleaseError: a file is missing or damaged, or is not what the spec says.
    """
    files = measured_files(job, universe)[: problem.spine.n_levels]
    measured = tuple(
        tuple(one.read(level.geocodes) for one in queries)
        for level, queries in zip(problem.spine.levels, files, strict=True)
    )
    return replace(problem, measured=measured)


def stated_problem(job: Job, universe: Universe) -> Problem:
    """The same without the values of the measurements, which are read where they are needed.

    Raises:
        ReleaseError: a file is missing or damaged, or is not what the spec says.
    """
    folder = job.folder(universe)
    facilities = [
        read_public_facilities(folder.constraint(number), bound, job.spine.level(bound.level).geocodes)
        for number, bound in enumerate(universe.bounds)
    ]
    invariants = {
        (name, query.name): _exact(folder, job.spine.level(name), query) for name, query in universe.invariants
    }
    declared = declared_constraints(universe, job.spine, facilities, invariants)
    settings = job.spec.postprocess
    bounded = {bound.query.terms: bound.query for bound in universe.bounds}
    return Problem(
        spine=job.spine,
        shape=universe.schema.shape,
        measured=tuple(tuple(one.without_values() for one in files) for files in measured_files(job, universe)),
        constraints=carried_constraints(job.spine, declared),
        passes=tuple(marginal_of(query) for query in universe.passes),
        estimator=settings.estimator,
        solver=settings.solver,
        seed=settings.seed,
        rounding=tuple(marginal_of(query) for query in bounded.values()),
        kinds=tuple(one.kinds for one in allocations(universe, job.spine)),
    )


def measured_files(job: Job, universe: Universe) -> tuple[tuple[MeasuredFile, ...], ...]:
    """The files of all measurements of a universe, per level."""
    folder = job.folder(universe)
    return tuple(
        tuple(
            MeasuredFile(
                folder.measurement(level.name, one.query.name),
                header_of(universe, allocation, one),
                marginal_of(one.query),
                allocation.kinds,
            )
            for one in allocation.strategy.queries
        )
        for level, allocation in zip(job.spine.levels, allocations(universe, job.spine), strict=True)
    )


def _exact(folder: UniverseDirectory, level: Level, query: Query) -> NDArray[np.int64]:
    path = folder.invariant(level.name, query.name)
    with open_measurement(path) as file:
        if (wrong := differing(file.header, exact_header(level.name, query))) is not None:
            raise ReleaseError(f"{path} is not what the spec says: {wrong}")
        found = file.read()
    if not np.array_equal(found.geocodes, level.geocodes):
        raise ReleaseError(f"{path} does not have the geounits of level {level.name!r}, in the spine's order")
    if (found.values < 0).any():
        raise ReleaseError(f"{path} is damaged: it has a negative count")
    return found.values

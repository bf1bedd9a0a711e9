"""From the public files of a run to the problem that post-processing solves. Nothing restricted is read here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from geography.spine import Level, Spine
from pipeline.errors import ReleaseError
from pipeline.estimation.constraints import (
    Known,
    carried_constraints,
    declared_constraints,
    facility_bounds,
)
from pipeline.estimation.measurement_files import MeasurementSource, positive_sources
from pipeline.model.draw import Draw, by_level, everywhere, kinds_of
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.release.measurements import exact_header, header_of, open_measurement
from pipeline.release.published_files import UniverseFiles
from postprocess.arrays import IntArray
from postprocess.bounds.declare import declare
from postprocess.marginal import Marginal
from postprocess.positive import PositiveAnswers
from postprocess.problem import Constraints, GroupBounds, MeasuredAnswers, Problem

if TYPE_CHECKING:
    from pipeline.execution.job import Job


def with_values(problem: Problem, files: Sequence[Sequence[MeasurementSource]]) -> Problem:
    """A stated problem, or its upper levels, with all values of its measurements, whose `files` are of all levels.

    Raises:
        ReleaseError: a file is missing or damaged, or is not what the spec says.
    """
    measured = tuple(
        tuple(file.read(level.geocodes) for file in queries)
        for level, queries in zip(problem.spine.levels, files, strict=False)
    )
    return replace(problem, measured=measured)


def stated_problem(job: Job, universe: Universe, known: Known) -> Problem:
    """The same without the values of the measurements, which are read where they are needed.

    Args:
        job: the run.
        universe: that is estimated.
        known: all that is known of it.

    Raises:
        ReleaseError: a file is missing or damaged, or is not what the spec says.
    """
    invariants = invariants_of(job.folder(universe), universe, job.spine)
    declared = declared_constraints(universe, job.spine, known.declared(), invariants)
    settings = job.spec.postprocess
    problem = replace(
        _problem(universe, job.spine, sizes_of(job, universe), lambda draw: header_of(draw).variances),
        constraints=carried_constraints(job.spine, declared),
        estimator=settings.estimator,
        solver=settings.solver,
        seed=settings.seed,
        completed=_completed(universe) if settings.complete == "proportional" else (),
    )
    return known.stated(problem)


def _problem(
    universe: Universe, spine: Spine, sizes: IntArray | None, variances: Callable[[Draw], Sequence[float]]
) -> Problem:
    """What is measured of a universe, without values, and nothing that is known.

    Args:
        sizes: as `Source.sizes` gives.
        variances: of a draw for each kind of geounit, from the spec and not from files, whose floats are others'.
    """
    nothing = np.zeros((0, 0), dtype=np.int8)
    drawn = by_level(universe.draws(spine, sizes), spine.level_names)

    def measured(draw: Draw) -> MeasuredAnswers:
        variance, *others = variances(draw)
        return MeasuredAnswers(universe.source.measured(draw.query), nothing, variance, tuple(others))

    def positive(draw: Draw) -> PositiveAnswers:
        query = universe.source.measured(draw.query)
        return PositiveAnswers(query, sp.csr_array((0, query.size)), variances(draw)[0])

    return Problem(
        spine=spine,
        shape=universe.schema.shape,
        measured=tuple(tuple(measured(draw) for draw in everywhere(level)) for level in drawn),
        constraints=Constraints(universe.structural_zeros, tuple(() for _ in drawn)),
        passes=universe.passes,
        kinds=tuple(kinds_of(level) for level in drawn),
        positive=tuple(tuple(positive(draw) for draw in level if draw.where_positive) for level in drawn),
    )


def with_positive(problem: Problem, job: Job, universe: Universe, level: int, released: sp.csr_array | None) -> Problem:
    """The problem with the answers of a level that are drawn only where the released level above it is positive.

    Args:
        problem: of the whole spine.
        job: the run.
        universe: that is estimated.
        level: number of the level that is to be solved.
        released: the histograms of the level above; None at the top, of which all answers are drawn.

    Raises:
        ReleaseError: a file is missing or damaged, or has others than these answers.
    """
    if released is None or not problem.positive_of(level):
        return problem
    positive = list(problem.positive)
    sources = positive_sources(job.folder(universe), universe, job.spine)[level]
    positive[level] = tuple(source.read(job.spine, released) for source in sources)
    return replace(problem, positive=tuple(positive))


def _completed(universe: Universe) -> tuple[Marginal, ...]:
    """All queries that are measured, or known exactly, at some level."""
    queries = [draw.query for draw in universe.draws() if draw.own]
    return (*queries, *(query for _, query in universe.invariants))


def unmeasured_problem(
    universe: Universe,
    spine: Spine,
    facilities: Iterable[IntArray],
    estimator: str,
    invariants: Mapping[tuple[str, str], IntArray] | None = None,
) -> Problem:
    """The problem of a release without answers: what is measured, what is known, and where.

    Without the values of invariants, which only the records have before a run, they stand for what is known exactly at
    their level and above.

    Args:
        facilities: of each of the universe's bounds, `(n_geounits, n_columns)`.
        invariants: (level, query) -> published answers `(n_geounits, size)`, of a finished release.
    """
    if invariants is None:
        constraints = _constraints_without_values(universe, spine, facilities)
    else:
        constraints = carried_constraints(
            spine, declared_constraints(universe, spine, facility_bounds(universe, facilities), invariants)
        )
    return replace(
        _problem(universe, spine, sizes_in(universe, invariants), lambda _: (1.0,)),
        constraints=constraints,
        estimator=estimator,
        further=tuple(query for fact in universe.facts for query in fact.distinguished()),
    )


def _constraints_without_values(universe: Universe, spine: Spine, facilities: Iterable[IntArray]) -> Constraints:
    """What is known before a run: the zeros, the bounds, and that invariants will be."""
    bounded = facility_bounds(universe, facilities)
    carried = carried_constraints(spine, declare(spine, universe.structural_zeros, (), bounded))
    bounds = [list(level) for level in carried.bounds]
    for name, query in universe.invariants:
        for number in range(spine.index_of(name) + 1):
            known: IntArray = np.ones((len(spine.levels[number]), query.size), dtype=np.int64)
            bounds[number].append(GroupBounds(f"invariant {query.name}", query, known, known))
    return Constraints(universe.structural_zeros, tuple(tuple(level) for level in bounds))


def measurement_files(job: Job, universe: Universe) -> tuple[tuple[MeasurementSource, ...], ...]:
    """The files of all measurements of a universe, per level."""
    return measurements_in(job.folder(universe), universe, job.spine, sizes_of(job, universe))


def measurements_in(
    folder: UniverseFiles, universe: Universe, spine: Spine, sizes: IntArray | None
) -> tuple[tuple[MeasurementSource, ...], ...]:
    """The same of a universe's folder, with the sizes that `Source.sizes` gives."""
    return tuple(
        tuple(
            MeasurementSource(
                folder.readable(folder.measurement(draw.level, draw.query.name)),
                header_of(draw),
                universe.source.measured(draw.query),
                draw.kinds,
                universe.source.to_counts(draw.level, sizes),
            )
            for draw in everywhere(level)
        )
        for level in by_level(universe.draws(spine, sizes), spine.level_names)
    )


def sizes_of(job: Job, universe: Universe) -> IntArray | None:
    """See `Source.sizes`: by the published invariants."""
    return universe.source.sizes(lambda: invariants_of(job.folder(universe), universe, job.spine))


def sizes_in(universe: Universe, invariants: Mapping[tuple[str, str], IntArray] | None) -> IntArray | None:
    """The same from the values of invariants; None where there are none."""
    return None if invariants is None else universe.source.sizes(lambda: invariants)


def stored_in_leaves(job: Job, universe: Universe) -> tuple[IntArray, IntArray]:
    """The stored numbers of the one query of the leaves, `(n_leaves, size)`, and the sizes, `(n_leaves,)`."""
    sizes = sizes_of(job, universe)
    assert sizes is not None, "numbers of records are known of sources that need them alone"
    (source,) = measurement_files(job, universe)[-1]
    found = replace(source, to_counts=None).read(job.spine.levels[-1].geocodes)
    return found.values.astype(np.int64), sizes


def invariants_of(folder: UniverseFiles, universe: Universe, spine: Spine) -> dict[tuple[str, str], IntArray]:
    """(level, query) -> the published answers of each invariant; errors as `exact_answers`."""
    return {(name, query.name): exact_answers(folder, spine.level(name), query) for name, query in universe.invariants}


def exact_answers(folder: UniverseFiles, level: Level, query: Query) -> IntArray:
    """The published answers `(n, size)` of an invariant; ReleaseError where its file is not what the spec says."""
    path = folder.readable(folder.invariant(level.name, query.name))
    with open_measurement(path, len(level), exact_header(level.name, query)) as file:
        measurement = file.read()
    if not np.array_equal(measurement.geocodes, level.geocodes):
        raise ReleaseError(f"{path} does not have the geounits of level {level.name!r}, in the spine's order")
    if (measurement.values < 0).any():
        raise ReleaseError(f"{path} is damaged: it has a negative count")
    return measurement.values

"""From the public files of a run to the problem that post-processing solves. Nothing restricted is read here."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from flows.constraints import carried_constraints, declared_constraints, marginal_of
from flows.inputs import read_public_facilities
from flows.job import Job
from geography.spine import Level
from pipeline.errors import ReleaseError
from pipeline.layout import UniverseDirectory
from pipeline.measurements import MeasurementFile, MeasurementHeader, open_measurement
from pipeline.privacy.budget import NoiseSpec, noise_for
from pipeline.query import Query
from pipeline.strategy import LevelStrategy, MeasuredQuery
from pipeline.universe import Universe
from postprocess.problem import Measured, Problem

#: Answers read at a time, as int64, before they are kept in the smallest type that holds them.
_READ_AT_ONCE = 1 << 22


def problem_of(job: Job, universe: Universe) -> Problem:
    """The problem that the public files of one universe state.

    Raises:
        ReleaseError: a file is missing or damaged, or is not what the spec says.
    """
    folder = job.folder(universe)
    measured = tuple(
        tuple(_measured(folder, universe, level, strategy, one) for one in strategy.queries)
        for level, strategy in zip(job.spine.levels, universe.strategy.levels, strict=True)
    )
    facilities = [
        read_public_facilities(
            folder.constraint(number), bound, job.spine.levels[job.spine.index_of(bound.level)].geocodes
        )
        for number, bound in enumerate(universe.bounds)
    ]
    invariants = {
        (name, query.name): _exact(folder, job.spine.levels[job.spine.index_of(name)], query)
        for name, query in universe.invariants
    }
    declared = declared_constraints(universe, job.spine, facilities, invariants)
    settings = job.spec.postprocess
    bounded = {bound.query.terms: bound.query for bound in universe.bounds}
    return Problem(
        spine=job.spine,
        shape=universe.schema.shape,
        measured=measured,
        constraints=carried_constraints(job.spine, declared),
        passes=tuple(marginal_of(query) for query in universe.passes),
        estimator=settings.estimator,
        solver=settings.solver,
        seed=settings.seed,
        rounding=tuple(marginal_of(query) for query in bounded.values()),
    )


def noise_of(universe: Universe, level: LevelStrategy, measured: MeasuredQuery) -> NoiseSpec:
    """The noise that the spec puts on one query at one level."""
    return noise_for(universe.framework, universe.budget, level.share, measured.share, universe.neighbours)


def header_of(universe: Universe, level: LevelStrategy, measured: MeasuredQuery) -> MeasurementHeader:
    """What the file of one measurement says of itself."""
    noise = noise_of(universe, level, measured)
    query = measured.query
    return MeasurementHeader(level.level, query.name, query.size, noise.mechanism, noise.scale, noise.variance)


def exact_header(level: str, query: Query) -> MeasurementHeader:
    """What the file of an invariant says of itself."""
    return MeasurementHeader(level, query.name, query.size, "exact", Fraction(0), 0.0)


def _measured(
    folder: UniverseDirectory, universe: Universe, level: Level, strategy: LevelStrategy, one: MeasuredQuery
) -> Measured:
    path = folder.measurement(level.name, one.query.name)
    header = header_of(universe, strategy, one)
    with open_measurement(path) as file:
        if (wrong := _differing(file.header, header)) is not None:
            raise ReleaseError(f"{path} is not what the spec says: {wrong}")
        values = read_compact(file)
        if not np.array_equal(file.geocodes(), level.geocodes):
            raise ReleaseError(f"{path} does not have the geounits of level {level.name!r}, in the spine's order")
    # The variance is recomputed from the spec, as the file's was: a float that another machine wrote is not relied on.
    return Measured(marginal_of(one.query), values, header.variance)


def _exact(folder: UniverseDirectory, level: Level, query: Query) -> NDArray[np.int64]:
    path = folder.invariant(level.name, query.name)
    with open_measurement(path) as file:
        if (wrong := _differing(file.header, exact_header(level.name, query))) is not None:
            raise ReleaseError(f"{path} is not what the spec says: {wrong}")
        found = file.read()
    if not np.array_equal(found.geocodes, level.geocodes):
        raise ReleaseError(f"{path} does not have the geounits of level {level.name!r}, in the spine's order")
    if (found.values < 0).any():
        raise ReleaseError(f"{path} is damaged: it has a negative count")
    return found.values


def _differing(found: MeasurementHeader, expected: MeasurementHeader) -> str | None:
    """What differs between two headers but the variance, which follows from the scale."""
    for field in ("level", "query", "size", "mechanism", "scale"):
        if getattr(found, field) != getattr(expected, field):
            return f"its {field} is {getattr(found, field)}, and {getattr(expected, field)} is expected"
    return None


def read_compact(file: MeasurementFile) -> NDArray[np.signedinteger]:
    """All values of a measurement, `(n, size)`, in the smallest signed type that holds them."""
    size = file.header.size
    values: NDArray[np.signedinteger] = np.empty((len(file), size), dtype=np.int8)
    step = max(1, _READ_AT_ONCE // size)
    for start in range(0, len(file), step):
        part = file.read(start, min(start + step, len(file))).values
        values = values.astype(_wide_enough(values.dtype, int(part.min()), int(part.max())), copy=False)
        values[start : start + len(part)] = part
    return values


def _wide_enough(dtype: np.dtype[np.signedinteger], least: int, most: int) -> np.dtype[np.signedinteger]:
    """`dtype`, or the next signed type that holds `least` and `most`."""
    while not np.iinfo(dtype).min <= least <= most <= np.iinfo(dtype).max:
        dtype = np.dtype(f"i{2 * dtype.itemsize}")
    return dtype

"""From the public files of a run to the problem that post-processing solves. Nothing restricted is read here."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flows.constraints import carried_constraints, declared_constraints, marginal_of
from flows.inputs import read_public_facilities
from flows.job import Job
from geography.spine import Level
from pipeline.allocation import Allocation, allocations
from pipeline.errors import ReleaseError
from pipeline.layout import UniverseDirectory
from pipeline.measurements import MeasurementFile, MeasurementHeader, open_measurement
from pipeline.query import Query
from pipeline.strategy import MeasuredQuery
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
    allotted = allocations(universe, job.spine)
    measured = tuple(
        tuple(_measured(folder, universe, level, allocation, one) for one in allocation.strategy.queries)
        for level, allocation in zip(job.spine.levels, allotted, strict=True)
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
        kinds=tuple(one.kinds for one in allotted),
    )


def header_of(universe: Universe, allocation: Allocation, measured: MeasuredQuery) -> MeasurementHeader:
    """What the file of one measurement says of itself."""
    noise, *others = allocation.noises(universe, measured)
    query, level = measured.query, allocation.strategy.level
    return MeasurementHeader(
        level,
        query.name,
        query.size,
        noise.mechanism,
        noise.scale,
        noise.variance,
        tuple((other.scale, other.variance) for other in others),
    )


def exact_header(level: str, query: Query) -> MeasurementHeader:
    """What the file of an invariant says of itself."""
    return MeasurementHeader(level, query.name, query.size, "exact", Fraction(0), 0.0)


def _measured(
    folder: UniverseDirectory, universe: Universe, level: Level, allocation: Allocation, one: MeasuredQuery
) -> Measured:
    path = folder.measurement(level.name, one.query.name)
    header = header_of(universe, allocation, one)
    with open_measurement(path) as file:
        if (wrong := _differing(file.header, header)) is not None:
            raise ReleaseError(f"{path} is not what the spec says: {wrong}")
        values = read_compact(file)
        if not np.array_equal(file.geocodes(), allocation.measured(level.geocodes)):
            raise ReleaseError(f"{path} does not have the geounits of level {level.name!r}, in the spine's order")
        if allocation.kinds is not None:
            values = _spread(path, file, values, header, allocation.kinds)
    # The variance is recomputed from the spec, as the file's was: a float that another machine wrote is not relied on.
    return Measured(marginal_of(one.query), values, header.variance, tuple(variance for _, variance in header.others))


def _spread(
    path: Path,
    file: MeasurementFile,
    values: NDArray[np.signedinteger],
    header: MeasurementHeader,
    kinds: NDArray[np.int8],
) -> NDArray[np.signedinteger]:
    """The values of all geounits of a level, `(n, size)`, zeros where one above is measured instead."""
    measured = kinds >= 0
    if not np.allclose(file.variances(), np.array(header.variances)[kinds[measured]], rtol=1e-9, atol=0.0):
        raise ReleaseError(f"{path} is damaged: its variances are not those that the spec gives its geounits")
    out: NDArray[np.signedinteger] = np.zeros((len(kinds), header.size), dtype=values.dtype)
    out[measured] = values
    return out


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
    scales = [[str(scale) for scale, _ in header.others] for header in (found, expected)]
    if scales[0] != scales[1]:
        return (
            f"its scales where levels are bypassed are {', '.join(scales[0])}, and {', '.join(scales[1])} are expected"
        )
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

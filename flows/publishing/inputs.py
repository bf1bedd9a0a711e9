"""The public inputs that a release is computed from beside measurements and invariants, as files under public/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.execution.job import Job
from pipeline.model.allocation import allocation_of, allocations
from pipeline.model.universe import Universe
from pipeline.release.facilities import write_facilities, write_shares
from pipeline.release.measurements import MeasurementWriter, header_of
from pipeline.release.spine import write_names, write_spine
from pipeline.report.polygons import Area, write_areas
from pipeline.storage.files import write_json

#: Number of facilities in each geounit, for each bound of a universe.
Facilities = Mapping[str, Sequence[NDArray[np.int64]]]
#: Polygons of the geounits, for each level that has some.
Polygons = Mapping[str, Sequence[Area]]


def write_public_inputs(job: Job, facilities: Facilities, polygons: Polygons) -> None:
    """Publish the inputs beside measurements and invariants, from the spine to the counts of a central release.

    Args:
        job: the run.
        facilities: of each universe, of each of its bounds.
        polygons: of each level that has some.
    """
    write_spine(job.run.spine, job.run.staging, job.spine)
    for name, names in job.names.items():
        write_names(job.run.names(name), job.run.staging, name, job.spine.level(name).geocodes, names)
    for level, areas in polygons.items():
        write_areas(job.run.polygons(level), job.run.staging, areas)
    for universe in job.universes:
        for number, bound in enumerate(universe.bounds):
            geocodes = job.spine.level(bound.level).geocodes
            target = job.folder(universe).constraint(number)
            write_facilities(target, job.run.staging, bound, geocodes, facilities[universe.name][number])
        for share, numbers in zip(universe.shares, job.shares.get(universe.name, ()), strict=True):
            geocodes = job.spine.level(share.level).geocodes
            write_shares(job.folder(universe).shares(share.name), job.run.staging, share, geocodes, numbers)
        _write_given(job, universe)
    if job.central_release is not None:
        write_json(job.run.central, job.central_release.model_dump(mode="json"), job.run.staging)


def _write_given(job: Job, universe: Universe) -> None:
    """Publish the counts of another release in the form of measurements, which they are."""
    for name, query in universe.source.given(universe.strategy):
        allocation = allocation_of(allocations(universe, job.spine), name)
        (measured,) = allocation.strategy.queries
        header = header_of(universe, allocation, measured)
        target = job.folder(universe).measurement(name, query.name)
        with MeasurementWriter.open(target, job.run.staging, header) as writer:
            writer.write(job.spine.level(name).geocodes, job.central[name])

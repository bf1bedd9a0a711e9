"""The public inputs that a release is computed from beside measurements and invariants, as files under public/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from flows.execution.job import Job
from pipeline.release.facilities import write_facilities, write_shares
from pipeline.release.spine import write_names, write_spine
from pipeline.report.polygons import Area, write_areas

#: Number of facilities in each geounit, for each bound of a universe.
Facilities = Mapping[str, Sequence[NDArray[np.int64]]]
#: Polygons of the geounits, for each level that has some.
Polygons = Mapping[str, Sequence[Area]]


def write_public_inputs(job: Job, facilities: Facilities, polygons: Polygons) -> None:
    """Publish the inputs beside measurements and invariants: spine, names, polygons, facilities, numbers of shares.

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

"""The public inputs of a run, opened: spec, universes, spine, facilities of bounds and polygons."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.estimation.determined import published_tables
from pipeline.execution.batch_store import Batches
from pipeline.execution.job import Job
from pipeline.execution.progress import Progress
from pipeline.execution.workers import Workers
from pipeline.inputs.facilities import read_facilities
from pipeline.inputs.geography import left_out_remark, read_spine
from pipeline.inputs.names import read_names
from pipeline.inputs.shares import read_shares
from pipeline.model.area_names import AreaNames
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease
from pipeline.publishing.inputs import Facilities, Polygons
from pipeline.publishing.report import read_polygons
from pipeline.release.facilities import read_public_facilities, read_public_shares
from pipeline.release.layout import RunDirectory
from pipeline.release.provenance import CentralRelease
from pipeline.release.spine import names_fingerprint
from pipeline.report.polygons import fingerprint, read_public_areas
from pipeline.runs.central import read_central, read_public_central
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256, write_bytes


@dataclass(frozen=True, eq=False)
class PublicSide:
    """What a run is computed from beside records and measurements; nothing confidential.

    Attributes:
        spec: the release spec.
        universes: what it resolves to, the release's own first.
        spine: the geography.
        facilities: of each universe, of each of its bounds.
        polygons: of each level that has some.
        names: of each level that has some.
        remarks: what the measurements do not determine, a sentence each; public.
        shares: of each universe, of each of its public shares the numbers.
        central: level -> noisy counts of a central release, where the spec uses some.
        central_release: which one that is.
    """

    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine
    facilities: Facilities
    polygons: Polygons
    remarks: tuple[str, ...] = ()
    names: AreaNames = field(default_factory=dict)
    shares: Mapping[str, Sequence[NDArray[np.float64]]] = field(default_factory=dict)
    central: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    central_release: CentralRelease | None = None

    def job(self, run: RunDirectory, workers: Workers, progress: Progress, batches: Batches | None = None) -> Job:
        """What the steps of a run have in common."""
        job = Job(run, self.spec, self.universes, self.spine, workers, progress, batches or Batches())
        job = replace(job, names=self.names, shares=self.shares)
        return replace(job, central=self.central, central_release=self.central_release)

    def keep_remarks(self, run: RunDirectory) -> None:
        """Keep the remarks for the end of the run, in place of those of a run before."""
        run.remarks.unlink(missing_ok=True)
        if self.remarks:
            text = "".join(f"{line}\n" for line in self.remarks)
            write_bytes(run.remarks, text.encode(), run.staging, private=True)

    def identity(self) -> dict[str, str]:
        """What makes it the same run, but for the key: hashes by the names that a refusal shows."""
        identity = {f"the spec's {part}": json_sha256(content) for part, content in self.spec.public_dict().items()}
        identity["the geography"] = self.spine.fingerprint()
        identity["the facilities of the bounds"] = json_sha256(
            [[name, [_hash(bound) for bound in counts]] for name, counts in sorted(self.facilities.items())]
        )
        if any(self.shares.values()):
            identity["the public numbers of shares"] = json_sha256(
                [[name, [_hash(one) for one in numbers]] for name, numbers in sorted(self.shares.items())]
            )
        if self.central:
            identity["the central counts"] = json_sha256([[level, _hash(one)] for level, one in self.central.items()])
        if self.central_release is not None:
            identity["the central release"] = json_sha256(self.central_release.model_dump(mode="json"))
        identity["the polygons"] = json_sha256({level: fingerprint(areas) for level, areas in self.polygons.items()})
        if self.names:
            identity["the names"] = json_sha256({name: names_fingerprint(names) for name, names in self.names.items()})
        return identity


def open_listed(spec: ReleaseSpec, universes: Sequence[Universe]) -> PublicSide:
    """The public side of a run, from the files that the spec names; without tables that nothing determines.

    Raises:
        InputError: a file cannot be read, or does not fit.
        SpineError: the areas are not a tree.
    """
    spine = read_spine(spec.geography)
    facilities = {universe.name: [read_facilities(bound, spine) for bound in universe.bounds] for universe in universes}
    shares = {universe.name: [read_shares(share, spine) for share in universe.shares] for universe in universes}
    central, central_release = read_central(universes[0], spine, example=spec.purpose == "example")
    polygons = read_polygons(spec.report, spine)
    names = read_names(spec.geography, spine)
    spec, kept, remarks = published_tables(spec, universes, spine, facilities)
    if left_out := left_out_remark(spec.geography):
        remarks = (left_out, *remarks)
    return PublicSide(spec, kept, spine, facilities, polygons, remarks, names, shares, central, central_release)


def open_published(release: PublishedRelease, universes: Sequence[Universe]) -> PublicSide:
    """The public side of a finished release, from its public files.

    Args:
        universes: the release's, with their records.

    Raises:
        ReleaseError: a file is missing or damaged, or is not what the spec says.
    """
    run, spine = release.run, release.spine
    facilities = {
        universe.name: [
            read_public_facilities(
                run.universe(universe.name).constraint(number),
                bound,
                spine.level(bound.level).geocodes,
            )
            for number, bound in enumerate(universe.bounds)
        ]
        for universe in universes
    }
    polygons = {level: read_public_areas(run.polygons(level)) for level in release.spec.report.polygons}
    shares = {
        universe.name: [
            read_public_shares(run.universe(universe.name).shares(share.name), share, spine.level(share.level).geocodes)
            for share in universe.shares
        ]
        for universe in universes
    }
    side = PublicSide(release.spec, tuple(universes), spine, facilities, polygons, names=release.names, shares=shares)
    central, central_release = read_public_central(run, universes[0])
    return replace(side, central=central, central_release=central_release)


def _hash(numbers: NDArray[np.generic]) -> str:
    return hashlib.sha256(np.ascontiguousarray(numbers).data).hexdigest()

"""A finished release as its readers have it: from public files alone, checked against their hashes first."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp

from flows.inputs import read_public_spine
from geography.spine import Level, Spine
from pipeline.errors import ReleaseError
from pipeline.histograms import read_histogram
from pipeline.layout import RunDirectory
from pipeline.manifest import Manifest, check_public_files, read_manifest
from pipeline.spec import ReleaseSpec
from pipeline.universe import Universe


@dataclass(frozen=True, eq=False)
class PublishedRelease:
    """A release's public side.

    Attributes:
        universes: as the manifest's spec resolves to, the release's own first.
    """

    run: RunDirectory
    manifest: Manifest
    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine

    def histogram(self, universe: Universe, level: Level) -> sp.csr_array:
        """The released histogram of a level, `(n, n_cells)`."""
        return read_histogram(self.run.universe(universe.name).histogram(level.name), level.geocodes, universe.schema)


def read_published(run: RunDirectory) -> PublishedRelease:
    """The release in a run's directory.

    Raises:
        ReleaseError: a public file is missing, changed or too much; the message names the first.
    """
    if problems := check_public_files(run):
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ReleaseError(f"{run.root}: {problems[0]}{more}")
    manifest = read_manifest(run.manifest)
    spec = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest))
    return PublishedRelease(
        run, manifest, spec, spec.universes(), read_public_spine(run.spine, spec.geography.level_names)
    )

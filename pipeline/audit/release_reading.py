"""A finished release as an audit sees it: what its spec says, what is published, and the truth beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.build import spine_from_table
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.files import open_parquet, reading
from pipeline.histograms import read_histogram
from pipeline.layout import RunDirectory
from pipeline.manifest import Manifest, read_manifest
from pipeline.privacy.budget import NoiseSpec
from pipeline.query import Query
from pipeline.spec import ReleaseSpec
from pipeline.universe import Universe

__all__ = ["Expected", "FinishedRelease", "expected_measurements", "read_release"]


@dataclass(frozen=True, eq=False)
class FinishedRelease:
    """A release with its restricted/ folder.

    Attributes:
        universes: as the manifest's spec resolves to, the release's own first.
    """

    run: RunDirectory
    manifest: Manifest
    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine

    def truth(self, universe: Universe, level: str) -> sp.csr_array:
        """The confidential histogram of a level, `(n, n_cells)`; ReleaseError where it is not kept."""
        geocodes = self.spine.levels[self.spine.index_of(level)].geocodes
        return read_histogram(self.run.universe(universe.name).true_histogram(level), geocodes, universe.schema)

    def released(self, universe: Universe, level: str) -> sp.csr_array:
        """The released histogram of a level, `(n, n_cells)`."""
        geocodes = self.spine.levels[self.spine.index_of(level)].geocodes
        return read_histogram(self.run.universe(universe.name).histogram(level), geocodes, universe.schema)

    def expected(self) -> Iterator[Expected]:
        """Every measurement that the spec calls for."""
        return expected_measurements(self.run, self.universes)

    def geocodes(self, level: str) -> NDArray[np.str_]:
        return self.spine.levels[self.spine.index_of(level)].geocodes


@dataclass(frozen=True, eq=False)
class Expected:
    """A measurement that the spec calls for.

    Attributes:
        noise: computed from the spec's fractions by the formula in docs/privacy.md, not by the code that measures.
        cost: rho or epsilon, exact.
    """

    universe: Universe
    level: str
    query: Query
    noise: NoiseSpec
    cost: Fraction
    path: Path

    @property
    def name(self) -> str:
        """ "units block status"."""
        return " ".join(part for part in (self.universe.name, self.level, self.query.name) if part)


def read_release(run: RunDirectory) -> FinishedRelease:
    """The release in a run's directory.

    Raises:
        InputError: there is no finished release; ReleaseError: it is damaged.
    """
    if not run.manifest.is_file():
        raise InputError(f"{run.root}: no finished release is here; {run.manifest} is missing")
    manifest = read_manifest(run.manifest)
    spec = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest))
    with open_parquet(run.spine) as file, reading(run.spine):
        spine = spine_from_table(file.read(), spec.geography.level_names)
    return FinishedRelease(run, manifest, spec, spec.universes(), spine)


def expected_measurements(run: RunDirectory, universes: Sequence[Universe]) -> Iterator[Expected]:
    """Every measurement of every universe.

    A record that changes moves two answers of a query at a level by one each, and one that is added or removed moves
    one. So sigma^2 = D / (2 rho) with D = 2 or 1, and b = D / epsilon, rho or epsilon being the total times the level's
    and the query's share.
    """
    for universe in universes:
        moved = {"change-one": 2, "add-remove": 1}[universe.neighbours]
        for level in universe.strategy.levels:
            for one in level.queries:
                cost = universe.budget * level.share * one.share
                if universe.framework == "zcdp":
                    noise = NoiseSpec("discrete_gaussian", Fraction(moved, 2) / cost)
                else:
                    noise = NoiseSpec("discrete_laplace", moved / cost)
                path = run.universe(universe.name).measurement(level.level, one.query.name)
                yield Expected(universe, level.level, one.query, noise, cost, path)

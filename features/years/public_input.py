"""The releases of a series before one of them, as a public input of it: where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from features.years.chain import check_areas, predecessors
from features.years.part import SeriesPart
from pipeline.inputs.public_input import InputScope, PublicInput
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.published_files import PublishedFiles
from pipeline.spec.release_spec import ReleaseSpec

__all__ = ["PREDECESSORS", "PredecessorsInput"]


class PredecessorsInput(PublicInput[Path | None]):
    """The folder with the releases before, which are of the same areas.

    What a release needs of them is in its spec, by their hash, and in its own numbers; so they are not published again.
    """

    key = "predecessors"
    after = "bounds"
    for_measuring = True

    def read(self, scope: InputScope) -> Path | None:
        """The folder that the run was given; InputError where the releases there are of other areas."""
        part = scope.spec.part(SeriesPart)
        if part is None or part.series is None or part.folder is None:
            return None
        base = scope.spec.name.removesuffix(f"-{part.series.period}")
        for one in predecessors(part.folder, base, part.series)[-1:]:
            check_areas(one, scope.spine, scope.spec.source)
        return part.folder

    def again(self, scope: InputScope, files: PublishedFiles) -> Path | None:
        """The folder that the release is in."""
        return files.run.root.parent

    def write(self, scope: InputScope, run: RunDirectory, found: Path | None) -> None:
        """There is nothing to write."""

    def files(self, spec: ReleaseSpec, universes: Sequence[Universe], run: RunDirectory) -> tuple[Path, ...]:
        """None."""
        return ()

    def identity(self, found: Path | None) -> Mapping[str, str]:
        """That of the spec, which has the hash of the release before."""
        return {}


PREDECESSORS = PredecessorsInput()

"""Counts that a central release has measured, as a public input of a release from reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from features.local.central import (
    CentralCounts,
    central_differences,
    central_problems,
    read_central,
    read_public_central,
    write_central,
)
from features.local.files import CENTRAL_COUNTS, CENTRAL_RELEASE
from pipeline.inputs.public_input import InputScope, PublicInput, sha256_of_numbers
from pipeline.metadata.products import ReleaseScope, files_of
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.published_files import PublishedFiles
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256


class CentralInput(PublicInput[CentralCounts]):
    """Noisy counts that another release has published, used beside reports; central.json says where they are from."""

    key = "central"
    part = "central"
    after = "bounds"
    for_measuring = True

    def read(self, scope: InputScope) -> CentralCounts:
        """See `central.read_central`."""
        found: list[CentralCounts] = [({}, None)]
        with scope.noted():
            found.append(read_central(scope.universes[0], scope.spine, example=scope.spec.purpose == "example"))
        return found[-1]

    def again(self, scope: InputScope, files: PublishedFiles) -> CentralCounts:
        """See `PublicInput.again`."""
        return read_public_central(files.run, files.unchanged, scope.universes[0])

    def write(self, scope: InputScope, run: RunDirectory, found: CentralCounts) -> None:
        """See `PublicInput.write`."""
        write_central(run, scope.universes, scope.spine, found)

    def files(self, spec: ReleaseSpec, universes: Sequence[Universe], run: RunDirectory) -> tuple[Path, ...]:
        """See `PublicInput.files`."""
        return files_of(ReleaseScope(spec, universes, run), CENTRAL_COUNTS, CENTRAL_RELEASE)

    def identity(self, found: CentralCounts) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        counts, release = found
        hashes = {}
        if counts:
            hashes["the central counts"] = json_sha256(
                [[level, sha256_of_numbers(one)] for level, one in counts.items()]
            )
        if release is not None:
            hashes["the central release"] = json_sha256(release.model_dump(mode="json"))
        return hashes

    def problems(self, scope: InputScope, run: RunDirectory, *, official: bool) -> list[str]:
        """See `PublicInput.problems`."""
        return central_problems(run, scope.universes[0], official=official)

    def differences(self, scope: InputScope, run: RunDirectory, origin: Path, status: str) -> list[str]:
        """See `pipeline.inputs.public_input.OfRelease`."""
        return central_differences(run, scope.universes[0], scope.spine, origin, status)


CENTRAL: Final = CentralInput()

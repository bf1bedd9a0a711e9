"""Public numbers by which areas are expected to share answers, as a public input of a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.shares.files import SHARES, path_of, read_public_shares, read_shares, write_shares
from features.shares.public_share import shares_of
from pipeline.inputs.public_input import InputScope, PublicInput, sha256_of_files, sha256_of_numbers
from pipeline.metadata.products import ReleaseScope, files_of
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.published_files import PublishedFiles
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256

#: Of each universe, of each of its public shares: the numbers, `(n_geounits, n_columns)`.
ShareNumbers = Mapping[str, Sequence[NDArray[np.float64]]]


class SharesInput(PublicInput[ShareNumbers]):
    """Public numbers by which areas are expected to share answers."""

    key = "shares"
    part = "shares"
    after = "bounds"
    public_only = (
        "the numbers of [postprocess.shares] are published as they are, without noise, so they must be public already"
    )

    def __init__(self, *, named: bool) -> None:
        self._named = named

    def read(self, scope: InputScope) -> ShareNumbers:
        """See `read_shares`."""
        found: dict[str, list[NDArray[np.float64]]] = {universe.name: [] for universe in scope.universes}
        for universe in scope.universes:
            for share in shares_of(universe):
                with scope.noted():
                    found[universe.name].append(read_shares(share, scope.spine))
        return found

    def again(self, scope: InputScope, files: PublishedFiles) -> ShareNumbers:
        """See `PublicInput.again`."""
        return {
            universe.name: [
                read_public_shares(
                    files.unchanged(path_of(files.run.universe(universe.name), share.name)),
                    share,
                    scope.spine.level(share.level).geocodes,
                )
                for share in shares_of(universe)
            ]
            for universe in scope.universes
        }

    def write(self, scope: InputScope, run: RunDirectory, found: ShareNumbers) -> None:
        """See `PublicInput.write`."""
        for universe in scope.universes:
            for share, numbers in zip(shares_of(universe), found[universe.name], strict=True):
                target = path_of(run.universe(universe.name), share.name)
                geocodes = scope.spine.level(share.level).geocodes
                write_shares(target, run.staging, share, geocodes, numbers)

    def files(self, spec: ReleaseSpec, universes: Sequence[Universe], run: RunDirectory) -> tuple[Path, ...]:
        """See `PublicInput.files`."""
        return files_of(ReleaseScope(spec, universes, run), SHARES)

    def identity(self, found: ShareNumbers) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        hashes = [[name, [sha256_of_numbers(one) for one in numbers]] for name, numbers in sorted(found.items())]
        return {"the public numbers of shares": json_sha256(hashes)} if any(found.values()) else {}

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """See `PublicInput.is_named`."""
        return self._named

    def sha256(self, spec: ReleaseSpec, universe: Universe, run: RunDirectory) -> str:
        """See `PublicInput.sha256`."""
        return sha256_of_files(self.files(spec, (universe,), run))

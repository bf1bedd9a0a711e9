"""The files of public shares, one row a geounit: that which a spec names, and that which a release publishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from features.shares.public_share import PublicShare, shares_of
from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.execution.job import Job
from pipeline.inputs.area_numbers import read_area_numbers
from pipeline.inputs.public_input import InputScope, PublicInput, sha256_of_numbers
from pipeline.metadata.contents import ProductFile
from pipeline.metadata.products import Product, ReleaseScope
from pipeline.model.universe import Universe
from pipeline.release.facilities import read_numbers_of_level
from pipeline.release.form import REAL, TEXT, Form
from pipeline.release.layout import RunDirectory, UniverseDirectory, file_name
from pipeline.release.published_files import PublishedFiles
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray
from postprocess.shares.shared import Shared


def path_of(folder: UniverseDirectory, name: str) -> Path:
    """Where a universe's public numbers of a share are: geocode, a column for each of the spec's file."""
    return folder.public / "shares" / f"{file_name('shares', name)}.parquet"


def _files(of: ReleaseScope) -> Iterator[ProductFile]:
    for universe in of.universes:
        for share in shares_of(universe):
            yield ProductFile(path_of(of.run.universe(universe.name), share.name), universe.name, share.level, share)


SHARES: Final = Product(
    "shares/NAME.parquet",
    "geocode, the public numbers by which areas share (postprocess.shares)",
    "input",
    _files,
    after="constraints/bound-N.parquet",
)


def read_shares(share: PublicShare, spine: Spine) -> FloatArray:
    """The public numbers of the geounits of the file's level, `(n_geounits, n_columns)`: distinct columns, in order.

    Raises:
        InputError: the file cannot be read, or does not have one row with a number from 0 for each geounit.
    """
    where, upto = f"postprocess.shares.{share.name}", spine.down_to(share.level)
    return read_area_numbers(where, share.file, share.geocode, share.distinct_columns, upto)


def _form(share: PublicShare) -> Form:
    labels, places = share.query.answer_labels(), share.distinct_columns
    header = {
        "kind": "shares",
        "name": share.name,
        "level": share.level,
        "levels": list(share.levels),
        "query": share.query.name,
        "columns": list(places),
        "answers": [[labels[answer], 1 + places.index(column)] for answer, column in share.columns.items()],
    }
    columns = {"geocode": TEXT, **{f"number_{number + 1}": REAL for number in range(len(places))}}
    return Form(f"a file of the shares {share.name!r}", header, columns)


def write_shares(
    target: Path, staging: Path, share: PublicShare, geocodes: NDArray[np.str_], numbers: FloatArray
) -> None:
    """Write the numbers of each geounit of the file's level."""
    with _form(share).writer(target, staging) as out:
        out.add(geocodes, *numbers.T)


def read_public_shares(path: Readable, share: PublicShare, geocodes: NDArray[np.str_]) -> FloatArray:
    """The numbers written by `write_shares`; ReleaseError where they are of others."""
    numbers = read_numbers_of_level(path, _form(share), geocodes).astype(np.float64)
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise ReleaseError(f"{path} is damaged: it has a number that is negative, or none")
    return numbers


def stated_shares(job: Job, universe: Universe, shares: Sequence[PublicShare]) -> tuple[tuple[Shared, ...], ...]:
    """Per level of the spine, what the published numbers of a universe's shares say.

    Raises:
        ReleaseError: a file is missing or damaged.
    """
    folder = job.folder(universe)
    numbers = [
        read_public_shares(job.readable(path_of(folder, share.name)), share, job.spine.level(share.level).geocodes)
        for share in shares
    ]
    return shares_by_level(shares, numbers, job.spine)


def shares_by_level(
    shares: Sequence[PublicShare], numbers: Sequence[FloatArray], spine: Spine
) -> tuple[tuple[Shared, ...], ...]:
    """Per level of the spine, the shares that are used there.

    Args:
        shares: of a universe.
        numbers: of each, `(n, n_columns)` at the level of its file.
        spine: the geounits.
    """
    levels: list[list[Shared]] = [[] for _ in spine.levels]
    for share, own in zip(shares, numbers, strict=True):
        query, answers = share.query, np.array(list(share.columns), dtype=np.int64)
        place = [share.distinct_columns.index(column) for column in share.columns.values()]
        of_level = own
        for level in range(spine.index_of(share.level), 0, -1):
            parents = spine.levels[level].parents
            if spine.level_names[level] in share.levels:
                levels[level].append(Shared.of(share.name, query, answers, of_level[:, place], parents))
            above = np.zeros((len(spine.levels[level - 1]), of_level.shape[1]))
            np.add.at(above, parents, of_level)
            of_level = above
    return tuple(tuple(level) for level in levels)


#: Of each universe, of each of its public shares: the numbers, `(n_geounits, n_columns)`.
ShareNumbers = Mapping[str, Sequence[FloatArray]]


class SharesInput(PublicInput[ShareNumbers]):
    """Public numbers by which areas are expected to share answers."""

    key = "shares"
    part = "shares"
    products = (SHARES,)
    after = "bounds"
    public_only = (
        "the numbers of [postprocess.shares] are published as they are, without noise, so they must be public already"
    )

    def __init__(self, *, named: bool) -> None:
        self._named = named

    def read(self, scope: InputScope) -> ShareNumbers:
        """See `read_shares`."""
        found: dict[str, list[FloatArray]] = {universe.name: [] for universe in scope.universes}
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

    def identity(self, found: ShareNumbers) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        hashes = [[name, [sha256_of_numbers(one) for one in numbers]] for name, numbers in sorted(found.items())]
        return {"the public numbers of shares": json_sha256(hashes)} if any(found.values()) else {}

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """See `PublicInput.is_named`."""
        return self._named

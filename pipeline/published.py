"""A finished release as its readers see it, from public files alone: the only way to open one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import scipy.sparse as sp

from geography.spine import LeftOut, Level, Spine
from pipeline.errors import ChangedFileError, InputError
from pipeline.model.area_names import AreaNames
from pipeline.model.link import Link
from pipeline.model.universe import Universe
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, check_public_files, read_manifest
from pipeline.release.published_files import PublishedFiles
from pipeline.release.spine import read_public_names, read_public_spine
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.slots import installed_slots
from pipeline.storage.paths import Readable


@dataclass(frozen=True, eq=False)
class PublishedRelease(PublishedFiles):
    """A release's public side.

    Attributes:
        universes: as the manifest's spec resolves to, the release's own first.
    """

    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """What its universes have in common."""
        return self.spec.links(self.universes)

    @cached_property
    def names(self) -> AreaNames:
        """The names of areas, of each level that has some; ReleaseError where a file is damaged."""
        return published_names(self.run, self.unchanged, self.spec, self.spine)

    def histogram(self, universe: Universe, level: Level) -> sp.csr_array:
        """The released histogram of a level, `(n, n_cells)`."""
        path = self.unchanged(self.run.universe(universe.name).histogram(level.name))
        return read_histogram(path, level.geocodes, universe.schema, signed=universe.measure.signed)


def published_names(
    run: RunDirectory, readable: Callable[[Path], Readable], spec: ReleaseSpec, spine: Spine
) -> AreaNames:
    """The names of areas that a release has published, by level; ReleaseError where a file is damaged.

    Args:
        readable: gives a file to be read, see `UniverseFiles`.
    """
    return {
        level: read_public_names(readable(run.names(level)), level, spine.level(level).geocodes, tuple(section.name))
        for level, section in (spec.geography.names or {}).items()
    }


def release_at(folder: Path) -> RunDirectory:
    """The release in `folder`, which is a run's directory or the public/ folder of one.

    Raises:
        InputError: there is no finished release; a dangling link and a name that is not UTF-8 are called so.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        name = ascii(str(folder))
        raise InputError(f"{name}: the folder's name is not UTF-8; rename it, or reach it by a link") from None
    if folder.is_symlink() and not folder.exists():
        raise InputError(f"{folder}: is a link to {folder.readlink()}, which is not there")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; the directory of a release is needed")
    run = _run_of(folder)
    if not run.manifest.is_file():
        raise InputError(f"{folder}: no finished release is here; {run.manifest} is missing")
    return run


def _run_of(folder: Path) -> RunDirectory:
    """The directory that `folder` is, or whose public/ it is, also as "." within it."""
    whole = folder.absolute()
    if whole.name == "public" and not (whole / "public").exists():
        whole = whole.parent
    return RunDirectory(whole.resolve())


def publication_at(folder: Path) -> RunDirectory:
    """The answer in `folder`, or else the release: the directory of one, or the public/ folder of one.

    Raises:
        InputError: there is neither.
    """
    run = _run_of(folder)
    return run if run.is_answer else release_at(folder)


def open_finished(folder: Path, *, check_hashes: bool) -> PublishedRelease:
    """The finished release in `folder`, see `release_at`; its spec and spine are read, the rest on demand.

    Args:
        folder: a run's directory, or its public/ folder.
        check_hashes: compare every public file with its hash in the manifest first, and not only the spine.

    Raises:
        InputError: there is no finished release.
        ReleaseError: a file is damaged; of hashes that differ, the message names the first file.
    """
    run = release_at(folder)
    if check_hashes and (problems := check_public_files(run)):
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ChangedFileError.of(f"{run.root}: {problems[0]}{more}", "release", run.root)
    manifest = read_manifest(run.manifest)
    spec = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest)).as_released(manifest.files)
    files = PublishedFiles(run, manifest)
    if check_hashes:
        files.compared.update(run.public / name for name in manifest.files)
    spine = read_public_spine(files.unchanged(run.spine), spec.geography.level_names)
    if spec.geography.within is not None:
        spine = replace(spine, left_out=LeftOut())  # records elsewhere are known by not being here
    release = PublishedRelease(run, manifest, spec, spec.universes(), spine)
    release.compared.update(files.compared)
    return release


def refuse_unwritten(run: RunDirectory, manifest: Manifest) -> None:
    """Refuse to make a release again that has files which this installation does not write.

    Raises:
        InputError: it has some; the message names the first, and the feature that it is of.
    """
    for file, feature in installed_slots().unwritten.items():
        if file in manifest.files:
            raise InputError(
                f"{run.public / file}: is of {feature}, which this installation is without; there is no folder "
                f"features/{feature}"
            )

"""The public files of a release as their readers open them: each is compared with its hash before it is read, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.release.layout import RunDirectory, UniverseDirectory
from pipeline.release.manifest import Manifest, check_public_file
from pipeline.storage.paths import Readable


@dataclass(frozen=True)
class UniverseFiles(UniverseDirectory):
    """The files of one universe, to be read.

    Attributes:
        readable: gives one of its public files to be read, when it is needed: of a finished release the file as its
            manifest states it, of a run its own.
    """

    readable: Callable[[Path], Readable]


@dataclass(frozen=True, eq=False)
class PublishedFiles:
    """The public files of a finished release.

    Attributes:
        run: its directory.
        manifest: which has read itself whole.
        compared: files that were compared already.
    """

    run: RunDirectory
    manifest: Manifest
    compared: set[Path] = field(default_factory=set, init=False, repr=False)

    def unchanged(self, path: Path) -> Readable:
        """A public file that is to be read: hashed when it is first asked for.

        Raises:
            ChangedFileError: the file is missing, or not what the manifest says.
        """
        if path not in self.compared:
            check_public_file(self.run, self.manifest, path)
            self.compared.add(path)
        return Readable(path)

    def files_of(self, universe: str) -> UniverseFiles:
        """The files of a universe; "" is the release's own."""
        folder = self.run.universe(universe)
        return UniverseFiles(folder.public, folder.restricted, self.unchanged)

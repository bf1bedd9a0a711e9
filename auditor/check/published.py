"""What is published of a release, as far as it can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from auditor.reading.counts import Counts
from auditor.reading.files import Files, Places
from auditor.reading.spec import PublicSpec, PublicUniverse
from auditor.reading.spine import Level
from auditor.reading.values import Stated


@dataclass(frozen=True, eq=False)
class PublicRelease:
    """A release.

    Attributes:
        files: reads it, and takes what is wrong.
        places: of its files.
        manifest: what it states of itself.
        spec: what it is to be.
        levels: of its spine, top first, with names.
        counts: universe -> level -> histogram, of those that can be read.
    """

    files: Files
    places: Places
    manifest: Stated
    spec: PublicSpec
    levels: tuple[Level, ...]
    counts: Mapping[str, dict[str, Counts]]

    def level(self, name: str) -> Level:
        """The level of this name."""
        return next(level for level in self.levels if level.name == name)

    def histogram(self, universe: PublicUniverse, level: Level) -> Path:
        """The file of the histogram of a level."""
        return self.places.of(universe.name, "histograms", level.name)

    def records(self, universe: PublicUniverse) -> int | None:
        """How many records the histogram of the leaves has; None where it cannot be read."""
        leaves = self.counts[universe.name].get(self.levels[-1].name)
        return None if leaves is None else int(leaves.counts.sum())

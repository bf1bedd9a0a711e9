"""What pages about a release are made from, and what of a universe they show: all of it public, no table read yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from geography.spine import Spine
from pipeline.model.area_names import AreaNames
from pipeline.model.link import Link
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.universe import Universe
from pipeline.pages.words import Words
from pipeline.release.layout import RunDirectory
from pipeline.release.receipts import Receipt
from pipeline.release.status import Status
from pipeline.spec.provenance_section import OriginSection
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.paths import Readable, unchecked


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseFacts:
    """The public facts of a release.

    Attributes:
        run: whose public/ holds tables and polygons.
        notes: step -> what its solvers report, as the manifest has it.
        receipts: of the run's charges.
        names: of areas, of each level that has some.
        origins: public input, by its name in [provenance] -> where it is from.
    """

    run: RunDirectory
    spec: ReleaseSpec
    status: Status
    universes: tuple[Universe, ...]
    spine: Spine
    notes: Mapping[str, Mapping[str, object]]
    receipts: tuple[Receipt, ...]
    names: AreaNames = field(default_factory=dict)
    origins: Mapping[str, OriginSection] = field(default_factory=dict)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """What its universes have in common."""
        return self.spec.links(self.universes)

    @property
    def texts(self) -> Texts:
        """The texts and numbers of the page."""
        return texts_in(self.spec.report.language)

    def words(self, universe: str) -> Words:
        """What its levels and tables are called in the page."""
        return Words(self.spec.labels(universe))

    def readable(self, path: Path) -> Readable:
        """A public file of the run whose report it is, to be read: see `Job.readable`."""
        return unchecked(path)

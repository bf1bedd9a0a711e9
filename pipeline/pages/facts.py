"""What pages about a release are made from, and what of a universe they show: all of it public, no table read yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

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
from pipeline.storage.readable import Readable, unchecked


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


@runtime_checkable
class Shown(Protocol):
    """A fact that the report shows, where it says how numbers are estimated.

    Attributes:
        template: the package and the name of a template with the macro `estimated(view, level_title)`; the latter is
            what a level is called for people.
    """

    template: tuple[str, str]

    def view(self, facts: ReleaseFacts) -> object:
        """What the macro is given."""


@runtime_checkable
class HasSection(Protocol):
    """Keys of a feature with a section of their own on the report.

    Attributes:
        section: the package and the name of a template with the macros `contents()`, the entry in the list of contents,
            and `section(view, level_title, level_titles)`; these say what one level, and several, are called.
    """

    section: ClassVar[tuple[str, str]]

    def shown(self, facts: ReleaseFacts) -> object | None:
        """What the section is given; None where there is none. ReleaseError where a file is damaged."""

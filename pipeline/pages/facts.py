"""What pages about a release are made from, and what of a universe they show: all of it public, no table read yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from geography.spine import Spine
from pipeline.model.area_names import AreaNames
from pipeline.model.labels import Labels
from pipeline.model.link import Link
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.universe import Universe
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


@dataclass(frozen=True)
class Words:
    """The words of one universe.

    Attributes:
        labels: that the spec states.
    """

    labels: Labels

    def level(self, name: str) -> str:
        """A level."""
        return self.labels.levels.get(name, _spoken(name))

    def table(self, name: str) -> str:
        """A table."""
        return self.labels.tables.get(name, _spoken(name))

    def answers(self, query: Query) -> list[str]:
        """The answers of a query, in their order."""
        labels = self.labels.columns(query)
        return [labels.get(name, _spoken(name)) for name in query.answer_labels()]


def _spoken(name: str) -> str:
    return name.replace("_", " ")


@dataclass(frozen=True)
class Called:
    """What a table at a level, its numbers and its areas are called for people; what is not stated has its own name.

    Attributes:
        table, level: titles, "" where none is stated.
        labels: column -> label.
        names: geocode -> name.
    """

    table: str = ""
    level: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def area(self, geocode: str) -> str:
        """The geocode, with its name if it has one."""
        return f"{self.names[geocode]} ({geocode})" if self.names.get(geocode) else geocode

    def number(self, column: str) -> str:
        """The label of a number of the table."""
        return self.labels.get(column, column)

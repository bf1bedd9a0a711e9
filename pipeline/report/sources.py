"""What a report is made from: all of it public, none of it read yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.model.area_names import AreaNames
from pipeline.model.labels import Labels
from pipeline.model.links.link import Link
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.universe import Table, Universe
from pipeline.privacy.accounting.statement_models import PrivacyAccount, Statement
from pipeline.release.layout import RunDirectory
from pipeline.release.privacy_statement import PrivacyStatement
from pipeline.release.receipts import Receipt
from pipeline.release.status import Status
from pipeline.report.moments import PackedMoments
from pipeline.report.table_numbers import PackedTable
from pipeline.spec.provenance_section import OriginSection
from pipeline.spec.release_spec import ReleaseSpec


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


@dataclass(frozen=True, eq=False)
class ReportSources:
    """The public inputs of a report.

    Attributes:
        run: whose public/ holds tables and polygons.
        statements, accounts: of each universe, in their order.
        joint: what one person's change costs over all universes.
        households: the same of a household, for each joined companion.
        notes: step -> what its solvers report, as the manifest has it.
        receipts: of the run's charges.
        names: of areas, of each level that has some.
        origins: public input, by its name in [provenance] -> where it is from.
        exact: universe, level, table -> which answers are certain, `(n_classes, size)` for classes of alike geounits,
            and the class of each geounit; the rule is that of `pipeline.reading.margins.HalfWidths.exact_of_level`.
            None where there are too many classes to work it out.
        moments: universe, level, table -> how the errors of its numbers go together in and between areas; None as well.
        whole: universe -> half the width of the 90 % interval of all areas and cells together, by the linear estimate;
            None as well.
        packed: universe, level, table -> the numbers of a table; None for those that are read part by part.
    """

    run: RunDirectory
    spec: ReleaseSpec
    status: Status
    universes: tuple[Universe, ...]
    spine: Spine
    statements: tuple[PrivacyStatement, ...]
    accounts: tuple[PrivacyAccount, ...]
    joint: Statement
    households: tuple[Statement, ...]
    notes: Mapping[str, Mapping[str, object]]
    receipts: tuple[Receipt, ...]
    exact: Callable[[str, int, Table], tuple[NDArray[np.bool_], NDArray[np.int64]] | None]
    moments: Callable[[str, int, Table], PackedMoments | None]
    packed: Callable[[str, int, Table], PackedTable | None]
    whole: Callable[[str], float | None]
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

    def table_file(self, universe: Universe, table: Table, level: str) -> Path:
        """The file of a table at a level."""
        return self.run.universe(universe.name).table(table.name, level)

    def polygons_file(self, level: str) -> Path:
        """The file of the polygons of a level."""
        return self.run.polygons(level)

"""Links: what two universes of a release have in common, of which one is released first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from pipeline.model.schema import NumberColumn
    from pipeline.model.universe import Table, Universe


class LinkedTable(Protocol):
    """A published table of the records of two linked universes together; it has no margins of error."""

    @property
    def name(self) -> str:
        """Of the table."""

    @property
    def place(self) -> int:
        """Its number among those that the spec states."""

    @property
    def query(self) -> str:
        """What is counted, as text."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Of its columns of counts."""

    @property
    def levels(self) -> tuple[str, ...]:
        """At which it is published, top first."""

    @property
    def note(self) -> str:
        """Why it has no margins, as a marked text."""

    def file(self, public: Path, level: str) -> Path:
        """Where it is at a level, below the folder of a release's public files."""


class Link(ABC):
    """Two universes, of which one is released first, and the other is known by it.

    A link states facts, without files. What is made of them is asked by protocols of those who make it:
    `pipeline.estimation.constraints`, `pipeline.publishing.steps`, `pipeline.runs.request`, `pipeline.reading.release`.
    """

    @property
    def tables(self) -> Sequence[LinkedTable]:
        """Tables of the records of both together."""
        return ()

    @property
    @abstractmethod
    def of(self) -> str:
        """The universe that is released after; "" is the release's own."""

    @property
    @abstractmethod
    def by(self) -> str:
        """The universe that is released first."""

    @property
    def same_records(self) -> bool:
        """Whether both are of the same records, of which `by` has the number."""
        return False

    def records(self, table: Table, level: str) -> Table | None:  # noqa: ARG002
        """The table of `by` with the denominators of a table of `of` at a level; None where there is none.

        Args:
            table: of the universe `of`.
            level: of both tables.
        """
        return None

    def left_out(self, table: Table, level: str) -> str:  # noqa: ARG002
        """Why a table of `of` is left out at a level, as a table of `by` is that its intervals need; "" for no reason.

        Args:
            table: of the universe `of`.
            level: of both tables.
        """
        return ""

    def unfit(self, *, margins: bool) -> Iterator[tuple[Table, str]]:  # noqa: ARG002
        """Tables of `of` that cannot be published with those of `by`, and why; each is refused with the spec.

        Args:
            margins: whether intervals are published.
        """
        return iter(())

    def together(self, otherwise: int) -> int | None:  # noqa: ARG002
        """The most records of `of` that change together with one of `by`; None where there is no such group.

        Args:
            otherwise: the number where nothing limits it.
        """
        return None

    def numbers(self, universe: str) -> tuple[NumberColumn, ...]:  # noqa: ARG002
        """The columns that the link adds to the microdata of a universe."""
        return ()

    @property
    def moves_top(self) -> bool:
        """Whether all cells of the top level are solved for, since the one released first makes room for the other."""
        return False


class HasTables(Protocol):
    """A link, as far as its tables go."""

    @property
    def tables(self) -> Sequence[LinkedTable]:
        """See `Link.tables`."""


class StatedLinks(Protocol):
    """What a feature states of links in a spec, resolved."""

    @property
    def universes(self) -> tuple[Universe, ...]:
        """Those of the spec, with the tables that the links need where it states none."""

    def links(self, universes: Sequence[Universe]) -> tuple[Link, ...]:
        """The links between some universes of the release, which may have other tables."""


def tables_of(links: Iterable[HasTables]) -> tuple[LinkedTable, ...]:
    """The tables of all links, in the order of the spec."""
    return tuple(sorted((table for link in links for table in link.tables), key=lambda table: table.place))


def released_in_order(universes: Sequence[Universe], links: Sequence[Link]) -> tuple[Universe, ...]:
    """Universes in the order in which they are released: those by which others are known come first.

    The release's own comes as early as it can, and universes that are known by others as late; else they are in their
    own order.

    Args:
        universes: of a release, its own first.
        links: between them.
    """
    found: list[Universe] = []

    def put(universe: Universe) -> None:
        before = {link.by for link in links if link.of == universe.name}
        for other in universes:
            if other.name in before:
                put(other)
        if universe not in found:
            found.append(universe)

    after = {link.of for link in links}
    for universe in (*universes[:1], *(one for one in universes if one.name not in after), *universes):
        put(universe)
    return tuple(found)


def counted_by(universe: str, links: Iterable[Link]) -> str:
    """The universe that has the number of the records which a universe is of: of sums that of their counts, else it."""
    return next((link.by for link in links if link.of == universe and link.same_records), universe)


Kind = TypeVar("Kind", bound=Link)


def links_of_kind(links: Iterable[Link], kind: type[Kind]) -> tuple[Kind, ...]:
    """The links of one kind, for what is about them alone."""
    return tuple(link for link in links if isinstance(link, kind))


@runtime_checkable
class LinksToCounts(Protocol):
    """A measure by which a companion has something in common with the release's own universe."""

    def link(self, universe: Universe, own: Universe) -> Link:
        """What it is.

        Args:
            universe: the companion.
            own: the release's own, which is released first.
        """


def links_of_measures(universes: Sequence[Universe]) -> tuple[Link, ...]:
    """What companions have by what they measure in common with the release's own universe, where that is given."""
    return tuple(
        universe.measure.link(universe, own)
        for own in universes
        if not own.name
        for universe in universes
        if isinstance(universe.measure, LinksToCounts)
    )

"""Links: what two universes of a release have in common, of which one is released first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from pipeline.model.area_names import Areas
    from pipeline.model.schema import NumberColumn
    from pipeline.model.universe import Table, Universe

# Nouns of rooms above, which cannot be imported here; whoever asks has their types.
Job: TypeAlias = Any  #: of `pipeline.execution.job`
Step: TypeAlias = Any  #: of `pipeline.execution.steps`
Knowledge: TypeAlias = Any  #: of `pipeline.estimation.constraints`
Results: TypeAlias = Any  #: of `pipeline.estimation.constraints`
PublishedRelease: TypeAlias = Any  #: of `pipeline.published`
Reader: TypeAlias = Any  #: of `pipeline.reading.reader`


@dataclass(frozen=True, eq=False)
class LinkedTable(ABC):
    """A published table of the records of two linked universes together; it has no margins of error.

    Attributes:
        name: of the table.
        place: its number among those that the spec states.
        levels: at which it is published, top first.
    """

    name: str
    place: int
    levels: tuple[str, ...]

    @property
    @abstractmethod
    def query(self) -> str:
        """What is counted, as text."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """Of its columns of counts."""

    @property
    @abstractmethod
    def note(self) -> str:
        """Why it has no margins, as a marked text."""

    @abstractmethod
    def file(self, public: Path, level: str) -> Path:
        """Where it is at a level, below the folder of a release's public files, in the form of a table."""


class Link(ABC):
    """Two universes, of which one is released first, and the other is known by it.

    A link states facts, without files, and nothing but for what a kind of link says otherwise. What is made of them, a
    feature imports when it is asked: by checks, estimation, publishing, readers and a plan.

    Attributes:
        members: whether records of `of` are members of records of `by`, as persons of households: the records of both
            are written together, and readers have the sizes of those of `by`.
        records_step: of such a link, what the step is called that writes these where no microdata are published.
    """

    members: ClassVar[bool] = False
    records_step: ClassVar[str] = ""

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

    def records(self, table: Table, level: str) -> Table | None:
        """The table of `by` with the denominators of a table of `of` at a level; None where there is none.

        Args:
            table: of the universe `of`.
            level: of both tables.
        """
        return None

    def left_out(self, table: Table, level: str) -> str:
        """Why a table of `of` is left out at a level, as a table of `by` is that its intervals need; "" for no reason.

        Args:
            table: of the universe `of`.
            level: of both tables.
        """
        return ""

    def unfit(self, *, margins: bool) -> Iterator[tuple[Table, str]]:
        """Tables of `of` that cannot be published with those of `by`, and why; each is refused with the spec.

        Args:
            margins: whether intervals are published.
        """
        return iter(())

    def together(self, otherwise: int) -> int | None:
        """The most records of `of` that change together with one of `by`; None where there is no such group.

        Args:
            otherwise: the number where nothing limits it.
        """
        return None

    def numbers(self, universe: str) -> tuple[NumberColumn, ...]:
        """The columns that the link adds to the microdata of a universe."""
        return ()

    @property
    def moves_top(self) -> bool:
        """Whether all cells of the top level are solved for, since the one released first makes room for the other."""
        return False

    def checks(self) -> Sequence[Callable[[], object]]:
        """What can be checked before any file is read; each raises InputError if it fails."""
        return ()

    def knowledge_after(self, job: Job) -> Knowledge | None:
        """What estimation knows by the link of `of`, which is released after; None for nothing."""
        return None

    def knowledge_first(self, job: Job, results: Callable[[], Results]) -> Knowledge | None:
        """What estimation knows by the link of `by`, which is released first; None for nothing.

        Args:
            job: the run.
            results: gives the intermediate results of `of`.
        """
        return None

    def steps(self, job: Job, level: int) -> Sequence[Step]:
        """The steps that publish what follows from the tables of both, at a level, once these are written."""
        return ()

    @staticmethod
    def write_records(job: Job, links: Sequence[Any], counts: sp.csr_array) -> None:
        """Of members: write the records of `of` and of those that it is linked with, and the tables of all links.

        Args:
            job: the run.
            links: all of the universe `of`, of this kind.
            counts: the released histogram of the leaves of `of`, `(n, n_cells)`; those of `by` are written.

        Raises:
            ReleaseError: a released histogram is not there, or a file cannot be written.
            SolverError: the records of a leaf do not go together; the message names it.
        """
        raise NotImplementedError

    def sizes_at(self, release: PublishedRelease, of: Reader, level: str) -> pd.DataFrame:
        """Of members: the average sizes of the records of `by`, of every geounit of a level.

        See `pipeline.reading.release.Release.household_sizes`.

        Args:
            release: whose files are read.
            of: the numbers of the universe `of`.
            level: of the spine.

        Raises:
            InputError: the link does not tell who the members are, or there is no such size.
        """
        raise NotImplementedError

    def sizes_over(self, release: PublishedRelease, of: Reader, by: Reader, areas: Areas) -> pd.DataFrame:
        """The same over areas, see `pipeline.reading.release.Release.household_sizes_over`; `by`: its numbers."""
        raise NotImplementedError

    def average_size(self, level: str) -> object | None:
        """Of members: what the average size of a level is made of; None where it is not published."""
        return None

    def means(
        self, release: PublishedRelease, table: str, level: str, geocodes: NDArray[np.str_]
    ) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """Of the same records: the columns of sums and means of a table at a level, by their names; NaN for null.

        Args:
            release: whose file is read.
            table: of `of`, published at the level.
            level: of the spine.
            geocodes: of its geounits.

        Raises:
            ReleaseError: the file is missing, damaged or changed, or is of other geounits.
        """
        raise NotImplementedError

    def foretold(self, errors: Mapping[str, Any], records: Sequence[int]) -> Iterable[Mapping[str, Any]]:
        """The fields of a `features.plan.kinds.AmountRow` of each published table of sums at each level.

        Args:
            errors: what the plan expects of each universe.
            records: that means are of.
        """
        return ()


@dataclass(frozen=True, eq=False)
class StatedLinks(ABC):
    """What a feature states of links in a spec, resolved.

    Attributes:
        universes: those of the spec, with the tables that the links need where it states none.
    """

    universes: tuple[Universe, ...]

    @abstractmethod
    def links(self, universes: Sequence[Universe]) -> tuple[Link, ...]:
        """The links between some universes of the release, which may have other tables."""


def tables_of(links: Iterable[Link]) -> tuple[LinkedTable, ...]:
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


def links_of_measures(universes: Sequence[Universe]) -> tuple[Link, ...]:
    """What companions have by what they measure in common with the release's own universe, where that is given."""
    linked = (one.measure.link(one, own) for own in universes if not own.name for one in universes)
    return tuple(link for link in linked if link is not None)

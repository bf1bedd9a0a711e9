"""What a record adds to the number of its cell, and who is protected: how far one change moves the numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pipeline.model.record_source import RecordSource
from pipeline.model.schema import AmountAttribute, ChosenEnd
from pipeline.privacy.budget import Neighbours

if TYPE_CHECKING:
    from pipeline.model.texts.catalogue import Texts


@dataclass(frozen=True)
class ProtectedUnit:
    """Whose change is protected.

    Attributes:
        records: that the change of one person alters at most; see `budget.budget_of_one`. 1 where a total is bounded,
            since all records of a unit move sums as one of them would.
        left_out: whether a keyed choice leaves records of a unit with very many of them out.
    """

    records: int = 1
    left_out: bool = False


#: One record is of one person.
ONE_RECORD = ProtectedUnit()


class Measure(ABC):
    """What one record adds to its cell; no files, no secrets."""

    #: Whether numbers are numbers of records, so that they have percentages of people, ranks and targets.
    counts: bool = True
    #: Whether a companion is of the release's own records.
    own_records: bool = False
    #: Where the upper end of an amount, or of a clip, is from; None where no question chose it.
    chosen: ChosenEnd | None = None

    @property
    def unit(self) -> Fraction | None:
        """Of the published whole numbers; None for numbers of records."""
        return None

    @property
    def signed(self) -> bool:
        """Whether numbers may be below 0; then they have no percentages and no shares."""
        return False

    @property
    def amounts(self) -> tuple[AmountAttribute, ...]:
        """The amounts that are read with each record."""
        return ()

    @property
    def total(self) -> bool:
        """Whether sums are bounded of all records of a unit together, in place of each record's alone."""
        return False

    @abstractmethod
    def reach(self, neighbours: Neighbours) -> int:
        """How far one record's change moves numbers, whole units: as if each that moves did so by this much.

        Of a total, the change of all records of a unit.
        """

    @abstractmethod
    def content(self) -> list[object]:
        """What the distribution of the noise, and the noise itself, depends on, as JSON; [] for plain counts."""

    @abstractmethod
    def layout(self) -> list[object]:
        """What tells apart fingerprints of records that are counted otherwise, as JSON; [] for plain counts."""

    @abstractmethod
    def reading(self, source: RecordSource) -> RecordSource:
        """The source, read with what is measured."""

    @abstractmethod
    def heading(self, texts: Texts, what: str) -> str:
        """What a table of `what` shows, in the language of `texts`."""

    @abstractmethod
    def counted(self, texts: Texts) -> str:
        """What one of the published whole numbers stands for, in the language of `texts`."""

    @property
    def remark(self) -> str:
        """What is said above a table of its numbers on the terminal; "" for nothing."""
        return ""

    def link(self, universe: Any, own: Any) -> Any | None:  # noqa: ARG002
        """The `pipeline.model.link.Link` of a companion with the release's own universe; None where there is none.

        Args:
            universe: the companion.
            own: the release's own, which is released first.
        """
        return None

    @abstractmethod
    def too_many(self) -> tuple[str, str, str]:
        """What is counted, the key of the spec that states it, and how there would be fewer; for a refusal."""


@dataclass(frozen=True)
class Counts(Measure):
    """Records count one each."""

    def reach(self, neighbours: Neighbours) -> int:  # noqa: ARG002
        """1: one record's change moves numbers by one."""
        return 1

    def content(self) -> list[object]:
        """Nothing beyond the attributes."""
        return []

    def layout(self) -> list[object]:
        """Nothing beyond the attributes."""
        return []

    def reading(self, source: RecordSource) -> RecordSource:
        """The source itself."""
        return source

    def heading(self, texts: Texts, what: str) -> str:  # noqa: ARG002
        """What is counted, without a unit."""
        return what

    def counted(self, texts: Texts) -> str:
        """Persons."""
        return texts("persons")

    def too_many(self) -> tuple[str, str, str]:
        """Records."""
        return "records", "input", "count fewer"


#: Plain numbers of records.
COUNTS = Counts()

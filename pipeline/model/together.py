"""Universes of the same records that are estimated together: what a feature states of them, without files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.model.schema import Attribute, NumberColumn
    from pipeline.model.strategy import Earlier


class Together(ABC):
    """All universes of a release, which count the same records, each by some of their attributes, in one order.

    Each is measured, charged and published as any universe; their noise is independent, so costs add up.
    """

    @abstractmethod
    def record_attributes(self, universe: str) -> tuple[Attribute, ...]:
        """The attributes of the microdata that stand in the folder of a universe; none where it has no such file."""

    def record_numbers(self, universe: str) -> tuple[NumberColumn, ...]:  # noqa: ARG002
        """The columns of numbers that these microdata have behind the attributes."""
        return ()

    @property
    def words(self) -> str:
        """What the statement of the release's own universe says besides, without numbers; "" for nothing."""
        return ""

    def remark(self, terms: Collection[str]) -> str:  # noqa: ARG002
        """What is said of the microdata where a table of some attributes is shown; "" for nothing."""
        return ""

    @property
    def earlier(self) -> Earlier | None:
        """What was drawn from the records before they were measured; the release's own universe has its cost."""
        return None

    @property
    def undecided(self) -> str:
        """What of the universes a run decides from the records, in a sentence; "" where all is stated."""
        return ""

    @abstractmethod
    def home(self, terms: Collection[str]) -> str:
        """The universe that has all of some attributes, the first one.

        Raises:
            InputError: none has; the message says what would have to be measured.
        """

    @abstractmethod
    def estimation(self, job: Any) -> Any:
        """Of all universes of a run, a `pipeline.estimation.together.JointEstimation`; nothing is read yet."""

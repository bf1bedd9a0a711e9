"""What levels, tables and answers are called in a page: their labels, or else their names with blanks."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.model.labels import Labels
from pipeline.model.query import Query


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

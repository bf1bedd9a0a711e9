"""What levels, tables, their numbers and areas are called in a page: by the labels of the spec, else by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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

"""What levels, attributes, values and tables are called for people, in one language; counts never depend on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pipeline.model.query import Query
from pipeline.model.schema import Schema

T = TypeVar("T")


def in_language(texts: Mapping[str, T], language: str) -> T:
    """The text in a language, or else in its base language, in the one not stated (""), or the first.

    Args:
        texts: language -> text; not empty.
        language: a tag such as "es-MX"; "" for no preference.
    """
    for key in (language, language.partition("-")[0], ""):
        if key in texts:
            return texts[key]
    return next(iter(texts.values()))


def beside(name: str, label: str) -> str:
    """A name, by which options call something, with its label where that is another one.

    >>> beside("race", "Race"), beside("tr", "Census tract")
    ('race', 'tr (Census tract)')
    """
    return name if name.casefold() == label.casefold() else f"{name} ({label})"


def listed(names: Iterable[str], label: Callable[[str], str]) -> str:
    """Names with their labels beside them, as a list."""
    return ", ".join(beside(name, label(name)) for name in names)


@dataclass(frozen=True)
class Labels:
    """The labels that a spec states; where it states none, names stand for themselves.

    Attributes:
        records: what is counted, "" where it is not stated.
        levels, attributes, tables: name -> label.
        values: attribute or recode -> value or group -> label.
    """

    records: str = ""
    levels: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.records or self.levels or self.attributes or self.values or self.tables)

    def level(self, name: str) -> str:
        """The label of a level."""
        return self.levels.get(name, name)

    def attribute(self, name: str) -> str:
        """The label of an attribute or recode."""
        return self.attributes.get(name, name)

    def value(self, term: str, value: str) -> str:
        """The label of a value of an attribute, or of a group of a recode."""
        return self.values.get(term, {}).get(value, value)

    def table(self, name: str) -> str:
        """The title of a table."""
        return self.tables.get(name, name)

    def answers(self, query: Query) -> tuple[str, ...]:
        """A label for each answer of a query, in the order of `Query.answer_labels`."""
        stated = [labels for labels in query.labels if labels]
        labelled = [
            [self.value(term, value) for value in values] for term, values in zip(query.terms, stated, strict=True)
        ]
        return tuple(" * ".join(one) for one in itertools.product(*labelled)) if labelled else query.answer_labels()

    def columns(self, query: Query) -> dict[str, str]:
        """Column of a table -> label of its answer, for those that have another one."""
        pairs = zip(query.answer_labels(), self.answers(query), strict=True)
        return {column: label for column, label in pairs if column != label}

    def rows(self, schema: Schema, tables: Sequence[str]) -> list[tuple[str, str, str]]:
        """Every label that is stated: (kind, name, label), "attribute race", "value race = white", "table race"."""
        rows = [("records", "", self.records)] if self.records else []
        rows += [("level", name, label) for name, label in self.levels.items()]
        rows += [("attribute", term, self.attributes[term]) for term in schema.terms if term in self.attributes]
        rows += [
            ("value", f"{term} = {value}", label)
            for term in schema.terms
            for value, label in self.values.get(term, {}).items()
        ]
        return rows + [("table", name, self.tables[name]) for name in tables if name in self.tables]

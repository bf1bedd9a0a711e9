"""Which attribute of a table is cumulated, and the queries whose answers the cumulative numbers are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.model.universe import Table, TableFact
from postprocess.arrays import IntArray

if TYPE_CHECKING:
    from pipeline.model.labels import Labels
    from pipeline.model.texts.catalogue import Texts
    from pipeline.release.layout import UniverseDirectory
    from pipeline.spec.problems import Problems

#: The label of the records that have a value or one before it, as `spinewise query --show cumulative` has it.
UP_TO: Final = "up to {value}"
#: Of the other records, which are in no file.
_ABOVE: Final = "above"
#: Ways to read the first number in a label, with the letters after it: "under_5", "10k_25k"; a minus before it, as of
#: "-10..-1", and marks between thousands, as of "$1,000 to $2,499", may be part of it or not.
_NUMBERS: Final = tuple(
    re.compile(rf"({minus}(?:{digits}))([^\W\d_]*)")
    for minus in ("", r"(?:(?<!\S)[-\u2212\u2013])?")
    for digits in (r"\d+", *(rf"\d{{1,3}}(?:[{marks}]\d{{3}})+(?!\d)|\d+" for marks in (r",'\u2019\s", r",.'\u2019\s")))
)
_MARKS: Final = re.compile(r"[^\d-]")
_MINUS: Final = re.compile(r"[\u2212\u2013]")


@dataclass(frozen=True)
class Cumulated(TableFact):
    """A table that is also published cumulatively.

    Attributes:
        term: the attribute or recode of the table's query that is cumulated.
        axis: the number of its attribute in the schema.
    """

    term: str
    axis: int

    @classmethod
    def of(cls, stated: bool | str, query: Query, schema: Schema, problems: Problems) -> Cumulated | None:
        """What the key `cumulative` of a table states; None where it does not fit the query, which is noted."""
        axes = {term: _axis(term, schema) for term in query.terms}
        several = [term for term, axis in axes.items() if query.sizes[axis] > 1]
        key = "cumulative"
        if isinstance(stated, str):
            if stated not in axes:
                problems.add(key, f"{stated!r} is not in the query {query.name!r}; name one of {_listed(query.terms)}")
                return None
            term = stated
        elif len(several) != 1:
            one = f'say which, {key} = "NAME" with one of {_listed(several)} whose values are in their order'
            needed = one if several else "an attribute with several values is needed"
            problems.add(key, f"the query {query.name!r} has {len(several)} attributes with several values; {needed}")
            return None
        else:
            (term,) = several
        if (why := _disorder(term, query, axes[term], schema)) is not None:
            problems.add(key, why)
            return None
        return cls(term, axes[term])

    def query(self, table: Table) -> Query:
        """The table's query with the labels of cumulative numbers: "up to 18_64" in place of "18_64"."""
        labels = list(table.query.labels)
        labels[self.axis] = tuple(UP_TO.format(value=value) for value in labels[self.axis])
        return replace(table.query, labels=tuple(labels))

    def titles(self, table: Table, labels: Labels, texts: Texts) -> tuple[str, ...]:
        """For each value what people call those who have it or one before it; of the last value that is everybody."""
        values = [labels.value(self.term, value) for value in table.query.labels[self.axis]]
        return (*(texts("up to {value}", value=value) for value in values[:-1]), texts("all values"))

    def tabulated(self, table: Table) -> tuple[Table, ...]:
        """See `TableFact.tabulated`: one query of two groups for each value but the first, whose numbers the table has.

        The first group has the value and those before it; of the last value it is everybody, and there is no second.
        """
        return tuple(self.cut(table, value) for value in range(1, table.query.sizes[self.axis]))

    def cut(self, table: Table, value: int) -> Table:
        """The table of those who have a value, by its number, or one before it, and of all others."""
        query, last = table.query, value == table.query.sizes[self.axis] - 1
        groups, labels = list(query.groups), list(query.labels)
        label = UP_TO.format(value=labels[self.axis][value])
        groups[self.axis] = (groups[self.axis] > value).astype(np.int64)
        labels[self.axis] = () if last else (label, _ABOVE)
        terms = tuple(term for term in query.terms if not last or term != self.term)
        name = f"{table.name}: {label}"  # which no published table can have
        one = replace(query, name=name, groups=tuple(groups), labels=tuple(labels), terms=terms)
        return Table(name, one, table.levels)

    def split(self, table: Table, numbers: NDArray[np.generic]) -> NDArray[np.generic]:
        """Numbers `(n, size)` of a table as `(n, before, values, after)`: those of the cumulated attribute apart."""
        sizes = table.query.sizes
        before, after = (int(np.prod(part)) for part in (sizes[: self.axis], sizes[self.axis + 1 :]))
        return numbers.reshape(len(numbers), before, sizes[self.axis], after)

    def file(self, files: UniverseDirectory, table: Table, level: str) -> Path:
        """Where the cumulative numbers of a table at a level are, in the form of a table."""
        from pipeline.release.layout import file_name

        folder = files.public / "cumulative" / file_name("table", table.name)
        return folder / f"{file_name('level', level)}.parquet"

    def answers_in_file(self, table: Table) -> Iterator[tuple[Query, IntArray]]:
        """See `TableFact.answers_in_file`: the cuts, and for each answer its column or -1."""
        columns = self.split(table, np.arange(table.query.size)[None])[0]
        for value in range(1, columns.shape[1]):
            one = self.cut(table, value).query
            own = columns[:, [value], :]
            yield one, (own if one.size == own.size else np.concatenate([own, np.full_like(own, -1)], axis=1)).ravel()


def cumulated_in(table: Table) -> Cumulated | None:
    """How a table is cumulated; None where it is not."""
    return next((fact for fact in table.facts if isinstance(fact, Cumulated)), None)


def _axis(term: str, schema: Schema) -> int:
    recode = schema.recode(term)
    return schema.names.index(term if recode is None else recode.attribute)


def _listed(terms: Sequence[str]) -> str:
    return ", ".join(terms) or "none"


def _disorder(term: str, query: Query, axis: int, schema: Schema) -> str | None:
    """Why the values or groups of a term are in no order; None where nothing speaks against it.

    Groups have to be ranges of the attribute's values, in the order of these. Numbers in labels must not fall in every
    way to read them, where they are in the same unit: "10_14" before "5_9" is no order, "100k" before "1m" may be.
    """
    labels, group = query.labels[axis], query.groups[axis]
    attribute = schema.attributes[axis]
    if len(labels) < 2:
        return f"{term!r} has one value; an attribute with several values, in their order, is needed"
    if (falls := np.flatnonzero(np.diff(group) < 0)).size:
        value, before = attribute.values[int(falls[0]) + 1], attribute.values[int(falls[0])]
        return (
            f"the groups of {term!r} are in no order: {labels[group[falls[0] + 1]]!r} has {value!r}, which stands "
            f"after {before!r} of {labels[group[falls[0]]]!r}; groups that are ranges of the values, in their order, "
            "are needed"
        )
    fallen = [_fall(labels, number) for number in _NUMBERS]
    if fallen[0] is not None and all(fallen):
        before, label = fallen[0]
        return (
            f"the values of {term!r} are in no order: {label!r} stands after {before!r}; values in their order are "
            "needed"
        )
    return None


def _fall(labels: Sequence[str], number: re.Pattern[str]) -> tuple[str, str] | None:
    """Two labels one after the other whose numbers, in the same unit and read so, fall; None where none do."""
    numbers = [(label, found) for label in labels if (found := number.search(label)) is not None]
    for (before, one), (label, other) in pairwise(numbers):
        first, second = (int(_MARKS.sub("", _MINUS.sub("-", found[1]))) for found in (one, other))
        if one[2].casefold() == other[2].casefold() and second < first:
            return before, label
    return None

"""Public numbers by which answers are expected to be shared among areas: as values, and as a spec states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.model.universe import PublicFact, Universe
from pipeline.spec.fields import File, FilledTable, Misfit, Section
from pipeline.spec.problems import Problems, dotted


@dataclass(frozen=True, eq=False)
class PublicShare:
    """Some answers of a query, and the public file with a number for every area.

    Attributes:
        name: what the spec calls it.
        level: the level that the file has numbers for; above it they are added up.
        levels: at which they are used.
        file: CSV or Parquet with one row a geounit of `level`.
        geocode: the file's column of geocodes.
        query: whose answers are shared.
        columns: answer's number -> the file's column, in the order of the answers.
    """

    name: str
    level: str
    levels: tuple[str, ...]
    file: Path
    geocode: str
    query: Query
    columns: Mapping[int, str]

    @property
    def distinct_columns(self) -> tuple[str, ...]:
        """The columns, each once."""
        return tuple(dict.fromkeys(self.columns.values()))


@dataclass(frozen=True, eq=False)
class Shares(PublicFact):
    """The public shares in use of a universe; one at least."""

    shares: tuple[PublicShare, ...]

    def distinguished(self) -> tuple[Query, ...]:
        """See `PublicFact.distinguished`: those whose answers are shared."""
        return tuple(share.query for share in self.shares)

    @property
    def names(self) -> tuple[str, ...]:
        """See `PublicFact.names`."""
        return tuple(share.name for share in self.shares)


def shares_of(universe: Universe) -> tuple[PublicShare, ...]:
    """The public shares in use of a universe."""
    return tuple(share for one in universe.facts if isinstance(one, Shares) for share in one.shares)


class SharesSection(Section):
    """Public numbers, such as housing units, by which answers are expected to be shared among the areas of a parent."""

    file: File = Field(description="the CSV or Parquet file, one row per geounit of `level`, relative to the spec")
    level: str = Field(description="the level whose geounits the file has; above it the numbers are added up")
    levels: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        default=None, description="the levels at which shares are used; default: `level` and all above it but the top"
    )
    geocode: str = Field(default="geocode", description="the file's column of geocodes")
    query: str = Field(default="total", description="the query whose answers are shared")
    column: str | None = Field(default=None, description="the file's column of numbers, the same for all answers")
    columns: FilledTable[str] | None = Field(
        default=None, description="in place of `column`: a table from some answers of the query to the column of each"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> SharesSection:
        if (self.column is None) == (self.columns is None):
            found = "neither" if self.column is None else "both"
            raise Misfit(("column", f"found {found} of column and columns; one of the two is needed"))
        return self


def resolve_shares(
    sections: Mapping[str, SharesSection], schema: Schema, level_names: Sequence[str], problems: Problems
) -> tuple[PublicShare, ...]:
    """The public shares of a release."""
    found = []
    problems.note_alike(sections)
    for name, section in sections.items():
        own = problems.at(dotted([name]))
        share = _resolved(name, section, schema, level_names, own)
        if share is not None:
            found.append(share)
    return tuple(found)


def _resolved(
    name: str, section: SharesSection, schema: Schema, level_names: Sequence[str], problems: Problems
) -> PublicShare | None:
    before = len(problems.lines)
    levels = _levels(section, level_names, problems)
    query = problems.query("query", section.query, schema)
    columns = {} if query is None else _columns(section, query, problems)
    if query is None or len(problems.lines) > before:
        return None
    return PublicShare(name, section.level, levels, section.file, section.geocode, query, columns)


def _levels(section: SharesSection, level_names: Sequence[str], problems: Problems) -> tuple[str, ...]:
    """The levels at which shares are used, top first: not the top, and none below that of the file."""
    if not problems.known_level("level", section.level, level_names):
        return ()
    allowed = tuple(level_names)[1 : list(level_names).index(section.level) + 1]
    if not allowed:
        problems.add("level", f"found {section.level!r}, the top level, which has no siblings; name one below it")
    for level in section.levels or ():
        if problems.known_level("levels", level, level_names) and level not in allowed and allowed:
            problems.add(
                "levels",
                f"found {level!r}; the file's numbers, of level {section.level!r}, tell the shares of "
                f"{', '.join(repr(one) for one in allowed)}",
            )
    return tuple(level for level in allowed if section.levels is None or level in section.levels)


def _columns(section: SharesSection, query: Query, problems: Problems) -> dict[int, str]:
    """The file's column of each answer, by the answer's number and in their order."""
    labels = query.answer_labels()
    if section.columns is None:
        return dict.fromkeys(range(len(labels)), str(section.column))
    stated = section.columns
    for label in stated:
        problems.known("columns", f"answer of {query.name!r}", label, labels)
    return {number: stated[label] for number, label in enumerate(labels) if label in stated}

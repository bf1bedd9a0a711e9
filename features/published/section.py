"""The section `[published]` of a spec: which tables were published, how they were protected, and their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema, model_validator

from pipeline.disclosure.cell_keys import CellKeyParameters, CellKeys
from pipeline.disclosure.method import DisclosureMethod
from pipeline.disclosure.rounding import Gaussian, RandomRounding, Rounding
from pipeline.errors import InputError
from pipeline.model.query import Query
from pipeline.spec.fields import (
    Budget,
    File,
    FilledTable,
    Misfit,
    NamedTable,
    Section,
    describe,
    folder_of,
    is_public,
)
from pipeline.spec.problems import Problems, dotted


def _perturbation_table(value: Any, info: ValidationInfo) -> CellKeys:
    """The table in a file; or of a release, which states what it holds."""
    if isinstance(value, CellKeys):
        return value
    if is_public(info):
        try:
            return CellKeys.of_rows([(list(map(int, errors)), list(map(float, shares))) for errors, shares in value])
        except (TypeError, ValueError, AttributeError, InputError):
            raise ValueError(f"found {describe(value)}; pairs of errors and probabilities are needed") from None
    folder = folder_of(info)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'found {describe(value)}; a file name in quotes is needed, such as "ptable.csv"')
    try:
        return CellKeys.of_table(Path(value) if folder is None else folder / value)
    except InputError as error:
        raise ValueError(str(error)) from None


PerturbationTable = Annotated[
    CellKeys,
    BeforeValidator(_perturbation_table),
    PlainSerializer(lambda table: [[list(errors), list(shares)] for errors, shares in table.rows]),
    WithJsonSchema({"type": "string"}),
]
#: Of each method: the keys that it needs, and how these make it. Cell keys are stated in two ways.
_METHODS: Mapping[str, Sequence[tuple[tuple[str, ...], Callable[..., DisclosureMethod]]]] = {
    "rounding": [(("base",), Rounding)],
    "random-rounding": [(("base",), RandomRounding)],
    "cell-keys": [
        (("most", "variance", "unpublished"), lambda d, v, js: CellKeys.of(CellKeyParameters(d, float(v), js))),
        (("ptable",), lambda table: table),
    ],
    "gaussian": [(("sd",), Gaussian)],
}


class MethodSection(Section):
    """How numbers were protected, each by itself."""

    method: Literal["rounding", "random-rounding", "cell-keys", "gaussian"] = Field(
        description="what the office did to each number"
    )
    base: int | None = Field(
        default=None, ge=2, le=1000, description="rounding, random-rounding: numbers are multiples"
    )
    most: int | None = Field(default=None, ge=1, le=1000, description="cell-keys: D, the largest error, persons")
    variance: Budget | None = Field(default=None, description="cell-keys: V, the variance of an error, exact, as text")
    unpublished: int | None = Field(
        default=None, ge=0, description="cell-keys: js, counts from 1 to this are not published"
    )
    ptable: PerturbationTable | None = Field(
        default=None,
        description="cell-keys, in place of these three: CSV file with the columns i, v and p, as the R package ptable "
        "writes it",
    )
    sd: Budget | None = Field(
        default=None, description="gaussian: standard deviation of the noise, persons, exact, as text"
    )

    @model_validator(mode="after")
    def _parameters(self) -> MethodSection:
        stated = {name for name in _PARAMETERS if getattr(self, name) is not None}
        ways = [names for names, _ in _METHODS[self.method]]
        if stated not in [set(names) for names in ways]:
            needed = ", or ".join(" and ".join(names) for names in ways)
            raise Misfit(("method", f'"{self.method}" needs {needed}; found {", ".join(sorted(stated)) or "none"}'))
        try:
            self.resolved()
        except InputError as error:
            raise Misfit(("method", str(error))) from None
        return self

    def resolved(self) -> DisclosureMethod:
        """The method."""
        for names, made in _METHODS[self.method]:
            values = [getattr(self, name) for name in names]
            if None not in values:
                return made(*values)
        raise AssertionError(self.method)


_PARAMETERS = ("base", "most", "variance", "unpublished", "ptable", "sd")


@dataclass(frozen=True, eq=False)
class PublishedNumbers:
    """One table at one level.

    Attributes:
        table: its name in the spec, with which its columns begin.
        method: None where the numbers are exact.
    """

    level: str
    table: str
    query: Query
    method: DisclosureMethod | None

    @property
    def columns(self) -> list[str]:
        """The columns of its answers in the file of its level."""
        return [f"{self.table}.{label}" for label in self.query.answer_labels()]


class PublishedSection(MethodSection):
    """Tables that others published."""

    by: str = Field(min_length=1, max_length=200, description="who published and protected the tables, by name")
    files: FilledTable[File] = Field(
        description="level -> CSV or Parquet file with a row for each area: geocode, and a column TABLE.CELL for each "
        "cell of each table"
    )
    absent: tuple[str, ...] = Field(
        default=(), description='what the files do not have: "LEVEL.TABLE", or a table at all levels'
    )
    exact: tuple[str, ...] = Field(
        default=(), description='what was published without protection: "LEVEL.TABLE", or a level, or a table'
    )
    other: NamedTable[str, MethodSection] = Field(
        default={}, description='another method for "LEVEL.TABLE", for a level, or for a table'
    )

    def numbers(
        self, levels: Sequence[str], tables: Mapping[str, Query], problems: Problems
    ) -> tuple[PublishedNumbers, ...]:
        """All tables of all levels that were published, top level first; what does not fit is noted.

        Args:
            levels: of the spine, top first.
            tables: queries of the published tables, by name.
            problems: of the section.
        """
        for level in self.files:
            problems.known_level(dotted(["files", level]), level, levels)
        places = {place for level in self.files for table in tables for place in _places(level, table)}
        for key, named in (("absent", self.absent), ("exact", self.exact), ("other", tuple(self.other))):
            for name in named:
                if name not in places:
                    problems.add(
                        key,
                        f"found {name!r}, which is no level with a file, no table, and not both joined by a point; "
                        f"levels with files: {', '.join(self.files)}; tables: {', '.join(tables)}",
                    )
        found: list[PublishedNumbers] = []
        for level in levels:
            for table, query in tables.items() if level in self.files else ():
                own = _places(level, table)
                if not any(place in self.absent for place in own):
                    same = next((one for one in found if (one.level, one.query.key) == (level, query.key)), None)
                    if same is not None:
                        problems.add("absent", f"{same.table!r} and {table!r} are the same numbers; name one of them")
                    exact = any(place in self.exact for place in own)
                    stated = next((self.other[place] for place in own if place in self.other), self)
                    found.append(PublishedNumbers(level, table, query, None if exact else stated.resolved()))
        if not any(one.method for one in found):
            problems.add("files", "found no table that was protected; at least one is needed")
        return tuple(found)


def _places(level: str, table: str) -> tuple[str, str, str]:
    """What can name a table of a level, the most particular first."""
    return f"{level}.{table}", table, level

"""The [input] section of a release spec: where the confidential records are, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, StrictBool, StrictInt, ValidationError, model_validator

from pipeline.errors import InputError
from pipeline.model.number_ranges import number_range, ranges_at_odds
from pipeline.model.record_source import BadReports, Form, KnownContent, RecordSource
from pipeline.model.schema import Schema
from pipeline.records.cells import expand_cells
from pipeline.spec.fields import Encoding, FileOrTable, Misfit, Section, Separator, Table, Values
from pipeline.spec.problems import Problems, dotted, unknown
from pipeline.storage.paths import TomlError, parse_toml, read_toml_text

#: What `columns` names of the form "reports".
_OF_REPORTS = ("report", "cohort", "respondent")
#: Keys of one form alone.
_OF_FORM: Mapping[str, Form] = {"count": "long", "repeated": "long", "cells": "wide", "bad_reports": "reports"}


def _of_reports(section: InputSpec) -> list[tuple[str, str]]:
    """What reports do not have."""
    strange = [name for name in section.columns if name not in _OF_REPORTS]
    stated = [name for name in ("values", "coded", "rows", "expect") if getattr(section, name)]
    return [
        *(("columns", unknown("column of reports", name, _OF_REPORTS)) for name in strange),
        *((name, 'not for the form "reports", whose values only the mechanism can tell') for name in stated),
    ]


class ExpectSection(Section):
    """How many records and areas the file is known to hold."""

    records: StrictInt = Field(ge=0, description="how many records are counted")
    areas: StrictInt = Field(ge=0, description="how many areas of the lowest level its rows name")


class InputSpec(Section):
    """The confidential records."""

    file: FileOrTable = Field(description="the CSV or Parquet file of records, relative to the spec")
    form: Form = Field(
        description='"microdata" (a row per record), "long" (a row per cell, with its count), "wide" (a row per leaf) '
        'or "reports" (a row per report, randomised by the respondent; with [collect])'
    )
    geocode: str = Field(description="the column of leaf codes")
    count: str | None = Field(default=None, description='the column of counts, form long only; default "count"')
    columns: Table[str] = Field(
        default={},
        description="attribute -> its column; default: the attribute's name. Form reports: `report`, what respondents "
        "sent, and `cohort`, which was sent beside it by mechanisms that have cohorts; default: these names. And "
        "`respondent`, who sent it, of whom one report is used; default: not kept",
    )
    coded: StrictBool = Field(
        default=False, description="the columns hold the values' numbers, from 0 in the schema's order"
    )
    values: Table[Table[str]] = Field(
        default={}, description='attribute -> value in the file, or whole numbers as "0..4" -> value of the schema'
    )
    cells: tuple[Table[str], ...] = Field(
        default=(),
        description="form wide: counts = a column template such as pop_{race}, and the values of the other attributes",
    )

    separator: Separator | None = Field(
        default=None, description='the field separator of a CSV file, such as ";" or "\\t"; default ","'
    )
    encoding: Encoding | None = Field(
        default=None, description='the encoding of a CSV file, such as "cp1252" or "utf-16"; default "utf-8"'
    )
    repeated: Literal["add"] | None = Field(
        default=None, description='form long only: "add" where a cell may stand in several rows; default: refused'
    )

    rows: Table[Values] = Field(
        default={},
        description="column of the file -> value or values: only the rows with these are counted, such as householders "
        "in a file of persons",
    )

    expect: ExpectSection | Literal["unproved"] | None = Field(
        default=None,
        description="how many records and areas the file is known to hold; a run of others stops before anything is "
        'charged. "unproved" has to be filled in first. Not published',
    )

    bad_reports: BadReports | None = Field(
        default=None,
        description='form reports only: "refuse" the run where a report cannot be used, or "count" them and leave them '
        'out; default "refuse"',
    )

    @model_validator(mode="before")
    @classmethod
    def _default_count(cls, section: Any) -> Any:
        if isinstance(section, dict) and section.get("form") == "long":
            return {"count": "count", **section}
        if isinstance(section, dict) and section.get("form") == "reports":
            stated = {key: value for key, value in section.items() if value is not None}
            return {"bad_reports": "refuse", **stated}
        return section

    @model_validator(mode="after")
    def _fits_form(self) -> InputSpec:
        problems = [
            (key, f'only for the form "{form}"; the form is {self.form!r}')
            for key, form in _OF_FORM.items()
            if self.form != form and getattr(self, key) not in (None, ())
        ]
        if self.form == "wide":
            stated = {
                "columns": (self.columns, 'not for the form "wide", whose columns are named in cells'),
                "rows": (self.rows, 'not for the form "wide"'),
                "cells": (not self.cells, 'missing; the form "wide" needs at least one entry'),
            }
            problems += [(key, why) for key, (wrong, why) in stated.items() if wrong]
        if self.form == "reports":
            problems += _of_reports(self)
        if self.coded and self.values:
            problems.append(("values", "not with coded = true, where the columns hold the values' numbers"))
        if problems:
            raise Misfit(*problems)
        return self

    def source(self) -> RecordSource:
        """What the rest of the pipeline sees of the section."""
        stated = {name: getattr(self, name) for name in type(self).model_fields}
        if isinstance(self.expect, ExpectSection):
            stated["expect"] = KnownContent(self.expect.records, self.expect.areas)
        return RecordSource(**stated)


def read_expectation(records: Path, key: str) -> KnownContent:
    """What a file RECORDS.expect.toml beside some records says that they hold.

    Args:
        records: the file of the records.
        key: the key of the spec that says it of the spec's own records.

    Raises:
        InputError: it is not there, or says something else.
    """
    path = records.with_name(f"{records.name}.expect.toml")
    try:
        section = ExpectSection.model_validate(parse_toml(read_toml_text(path)))
    except FileNotFoundError:
        raise InputError(
            f"{records}: how many records and areas does it hold? {key} says it of the spec's own records alone; write "
            f"two lines to {path.name} beside these: records = N and areas = M"
        ) from None
    except (OSError, TomlError, UnicodeDecodeError, ValidationError) as error:
        raise InputError(f"{path}: two lines are needed, records = N and areas = M; found another content") from error
    return KnownContent(section.records, section.areas)


def _check_ranges(values: Mapping[str, str], problems: Problems) -> None:
    """Note what is written like a range of whole numbers and is none, or of which a number would have two values."""
    wrong = False
    for text in values:
        try:
            number_range(text)
        except InputError as error:
            problems.add(dotted([text]), str(error))
            wrong = True
    if not wrong and (found := ranges_at_odds(values)) is not None:
        first, second, number = found
        problems.add(
            dotted([second]),
            f"found {second!r} for {values[second]!r}, and {first!r} for {values[first]!r}: {number} would have two "
            "values; each number is in ranges of one value",
        )


def check_input(section: InputSpec, schema: Schema, problems: Problems) -> None:
    """Note what in [input] does not fit the schema; `problems` are the universe's."""
    input_problems, before = problems.at("input"), len(problems.lines)
    for name in section.columns if section.form != "reports" else ():
        input_problems.known(dotted(["columns", name]), "attribute", name, schema.names)
    for name, values in section.values.items():
        if not input_problems.known(dotted(["values", name]), "attribute", name, schema.names):
            continue
        allowed = schema.attribute(name).values
        if section.form != "wide":  # there they are parts of columns' names
            _check_ranges(values, input_problems.at(dotted(["values", name])))
        for text, value in values.items():
            input_problems.known(dotted(["values", name, text]), f"value of {name}", value, allowed)
    if section.form == "wide" and len(problems.lines) == before:
        with problems.noted(below=True):
            expand_cells(section.cells, schema, coded=section.coded, values=section.values)

"""The [input] section of a release spec: where the confidential records are, and how to read them."""

from __future__ import annotations

from typing import Any

from pydantic import Field, StrictBool, model_validator

from pipeline.model.record_source import Form, RecordSource
from pipeline.spec.fields import FileOrTable, Misfit, Section, Table


class InputSpec(Section):
    """The confidential records."""

    file: FileOrTable = Field(description="the CSV or Parquet file of records, relative to the spec")
    form: Form = Field(
        description='"microdata" (a row a record), "long" (a row a cell, with its count) or "wide" (a row a leaf)'
    )
    geocode: str = Field(description="the column of leaf codes")
    count: str | None = Field(default=None, description='the column of counts, form long only; default "count"')
    columns: Table[str] = Field(default={}, description="attribute -> its column; default: the attribute's name")
    coded: StrictBool = Field(
        default=False, description="the columns hold the values' numbers, from 0 in the schema's order"
    )
    values: Table[Table[str]] = Field(default={}, description="attribute -> value in the file -> value of the schema")
    cells: tuple[Table[str], ...] = Field(
        default=(),
        description="form wide: counts = a column template such as pop_{race}, and the values of the other attributes",
    )

    @model_validator(mode="before")
    @classmethod
    def _default_count(cls, section: Any) -> Any:
        if isinstance(section, dict) and section.get("form") == "long":
            return {"count": "count", **section}
        return section

    @model_validator(mode="after")
    def _fits_form(self) -> InputSpec:
        problems: list[tuple[str, str]] = []
        if self.form != "long" and self.count is not None:
            problems.append(("count", f'only for the form "long"; the form is {self.form!r}'))
        if self.form == "wide" and self.columns:
            problems.append(("columns", 'not for the form "wide", whose columns are named in cells'))
        if self.form == "wide" and not self.cells:
            problems.append(("cells", 'missing; the form "wide" needs at least one entry'))
        if self.form != "wide" and self.cells:
            problems.append(("cells", f'only for the form "wide"; the form is {self.form!r}'))
        if self.coded and self.values:
            problems.append(("values", "not with coded = true, where the columns hold the values' numbers"))
        if problems:
            raise Misfit(*problems)
        return self

    def source(self) -> RecordSource:
        """What the rest of the pipeline sees of the section."""
        return RecordSource(**{name: getattr(self, name) for name in type(self).model_fields})

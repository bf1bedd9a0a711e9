"""The sections [postprocess.shares.NAME] of a spec: public numbers that tell how areas share what is above them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool, model_validator

from pipeline.spec.fields import File, FilledTable, Misfit, Section, Value


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
    answers: Annotated[tuple[Value, ...], Field(min_length=1)] | None = Field(
        default=None, description="with `column`: only these answers of the query; default: all"
    )
    columns: FilledTable[str] | None = Field(
        default=None, description="in place of `column`: a table from answers of the query to columns of their own"
    )
    use: StrictBool = Field(default=True, description="false turns it off, and nothing is read")

    @model_validator(mode="after")
    def _one_of_both(self) -> SharesSection:
        if (self.column is None) == (self.columns is None):
            found = "neither" if self.column is None else "both"
            raise Misfit(("column", f"found {found} of column and columns; one of the two is needed"))
        if self.columns is not None and self.answers is not None:
            raise Misfit(("answers", "only with column; the table columns names its answers"))
        return self

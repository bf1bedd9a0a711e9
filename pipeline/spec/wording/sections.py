"""The sections that give areas, values and tables their names for people."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from pipeline.model.text_format import TextFormat
from pipeline.spec.fields import Encoding, File, Section, Separator, Table
from pipeline.spec.wording.fields import Texts


class NamesSection(Section):
    """The names of a level's areas, for people."""

    name: Texts = Field(description="the column of names; of several languages a table, { en = ..., es = ... }")
    file: File | None = Field(
        default=None, description="the CSV or Parquet file with the names; default: the list of leaves itself"
    )
    code: str | None = Field(
        default=None, description="the file's column of geocodes; only with `file`, and needed there"
    )
    separator: Separator | None = Field(default=None, description='as in [geography], of `file`; default ","')
    encoding: Encoding | None = Field(default=None, description='as in [geography], of `file`; default "utf-8"')

    @property
    def text_format(self) -> TextFormat:
        """How the file is written."""
        return TextFormat(self.separator or ",", self.encoding or "utf-8")


def _as_names(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


#: Names of a level's areas: a column beside the codes, or a section.
Names = Annotated[NamesSection, BeforeValidator(_as_names, json_schema_input_type=str | NamesSection)]


class LabelsSection(Section):
    """What attributes, values and tables are called for people; a text each, or { en = ..., es = ... }."""

    records: Texts | None = Field(default=None, description='what is counted, such as "residents"; default: people')
    attributes: Table[Texts] | None = Field(default=None, description="attribute or recode -> its label")
    values: Table[Table[Texts]] | None = Field(
        default=None, description="attribute or recode -> its values, or groups -> label of each"
    )
    tables: Table[Texts] | None = Field(default=None, description="published table -> its title")

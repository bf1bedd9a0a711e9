"""The sections that give areas, values and tables their names for people, and the report its texts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipeline.spec.fields import File, Section, Table, in_short
from pipeline.spec.wording.fields import Day, Language, Line, Paragraph, Texts


class NamesSection(Section):
    """The names of a level's areas, for people."""

    name: Texts = Field(description="the column of names; of several languages a table, { en = ..., es = ... }")
    file: File | None = Field(
        default=None,
        description="the CSV or Parquet file with the names, separated and encoded as the list of leaves; default: "
        "that list itself",
    )
    code: str | None = Field(
        default=None, description="the file's column of geocodes; only with `file`, and needed there"
    )


#: Names of a level's areas: a column beside the codes, or a section.
Names = Annotated[NamesSection, in_short("name", NamesSection)]


class LabelsSection(Section):
    """What attributes, values and tables are called for people; a text each, or { en = ..., es = ... }."""

    records: Texts | None = Field(default=None, description='what is counted, such as "residents"; default: people')
    attributes: Table[Texts] | None = Field(default=None, description="attribute or recode -> its label")
    values: Table[Table[Texts]] | None = Field(
        default=None, description="attribute or recode -> its values, or groups -> label of each"
    )
    tables: Table[Texts] | None = Field(default=None, description="published table -> its title")


class ReportTexts(Section):
    """What the release says of itself to readers; no number depends on it."""

    title: Line | None = Field(default=None, description="the report's title; default: the release's name")
    publisher: Line | None = Field(
        default=None, description="who publishes the release and answers for it, as shown to readers"
    )
    language: Language | None = Field(
        default=None,
        description="the language of the report's texts, numbers and dates (there are English and Spanish), and of the "
        "names and labels shown; default: English texts, and the names and labels that are stated first",
    )
    reference_date: Day | None = Field(
        default=None, description="the day to which the counts refer, such as 2030-04-01"
    )
    publication_date: Day | None = Field(default=None, description="the day on which the release is published")
    version: Line | None = Field(
        default=None, description="which of several releases of the same counts this is, such as 2 or revised"
    )
    next_release: Line | None = Field(default=None, description="when the next one is expected, such as spring 2032")
    contact: Line | None = Field(default=None, description="whom readers can ask")
    licence: Line | None = Field(default=None, description="the terms of use, such as CC-BY-4.0")
    citation: Paragraph | None = Field(default=None, description="how the release is to be cited")
    software_url: Line | None = Field(
        default=None, description="where readers find the program that checks the release"
    )
    notes: tuple[Paragraph, ...] | None = Field(default=None, description="what readers must know; a list of texts")
    definitions: Table[Paragraph] | None = Field(default=None, description="term -> what it means")

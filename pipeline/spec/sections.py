"""The sections of a release spec, as the user writes them; `pipeline.spec.resolve` gives them their meaning."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from pipeline.model.text_format import TextFormat
from pipeline.spec.fields import (
    Encoding,
    File,
    FileOrTable,
    FilledTable,
    FilledValues,
    Levels,
    Misfit,
    Name,
    NamedTable,
    QueryShare,
    Section,
    Separator,
    Share,
    StructuralZeros,
    Table,
    TableName,
    Value,
    Values,
    in_short,
)
from pipeline.spec.input_section import InputSpec
from pipeline.spec.privacy_section import CompanionPrivacySection
from pipeline.spec.slots import SlottedSection
from pipeline.spec.wording.fields import Texts
from pipeline.spec.wording.sections import LabelsSection, Names, ReportTexts

WholeNumber = Annotated[StrictInt, Field(ge=0)]
#: As many as a release can have records, see `pipeline.records.columns.LARGEST_COUNT`.
NumberOfPersons = Annotated[StrictInt, Field(ge=0, le=10**10)]


class RegroupSection(Section):
    """Units above the leaves made anew, so that areas off the spine are unions of few of them."""

    file: File = Field(
        description="the CSV or Parquet file of areas, one row per area and leaf: kind, code and the leaf's geocode, "
        "in columns of these names"
    )
    kinds: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        default=None, description="only areas of these kinds; default: all"
    )
    fan_out: Annotated[StrictInt, Field(ge=1)] = Field(
        default=100, description="at most this many units in a geounit above, and leaves in a unit if both are possible"
    )
    keep: StrictBool = Field(default=True, description="treat the units of the list as such areas too")


class GeographySection(Section):
    """The public list of leaves; never derived from the records."""

    file: FileOrTable = Field(
        description="the CSV or Parquet file with the public list of leaves, relative to the spec"
    )
    levels: Levels = Field(
        description="the levels from top to bottom: names with prefix lengths if `column` holds leaf codes, else names"
    )
    column: str | None = Field(
        default=None,
        description="the column of codes: of leaves, when levels gives prefix lengths; of all areas, with `parent`",
    )
    parent: str | None = Field(
        default=None, description="the column of each area's parent (empty at the top), where each area has a row"
    )
    separator: Separator | None = Field(
        default=None, description='the field separator of a CSV file, such as ";" or "\\t"; default ","'
    )
    encoding: Encoding | None = Field(
        default=None, description='the encoding of a CSV file, such as "cp1252" or "utf-16"; default "utf-8"'
    )
    within: FilledTable[FilledValues] | None = Field(
        default=None,
        description='level -> codes: only these areas are released, such as within = { state = ["44"] }; records and '
        "public numbers elsewhere on the list are left out; default: all of the list",
    )
    repeated: StrictBool = Field(
        default=False,
        description="a leaf may have several rows in a table of levels, all with the same codes; default: refused",
    )
    bypass: StrictBool | None = Field(
        default=None,
        description="measure a geounit without siblings once, with its parent's budget and its own; default: false",
    )
    regroup: RegroupSection | None = Field(
        default=None, description="rebuild the level above the leaves for areas off the spine"
    )
    names: Table[Names] | None = Field(
        default=None, description="level -> its areas' names: a column beside the codes, or a file; they are published"
    )
    labels: Table[Texts] | None = Field(
        default=None, description='level -> its label for readers, such as "County"; or { en = ..., es = ... }'
    )

    @property
    def form(self) -> Literal["prefixes", "table", "pairs"]:
        """How the file states the spine."""
        if isinstance(self.levels, dict):
            return "prefixes"
        return "table" if self.parent is None else "pairs"

    @property
    def text_format(self) -> TextFormat:
        """How the file is written."""
        return TextFormat(self.separator or ",", self.encoding or "utf-8")

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels' names, top first."""
        return tuple(self.levels)

    @property
    def prefix_lengths(self) -> dict[str, int]:
        """Level name -> prefix length; empty unless the form is "prefixes"."""
        return dict(self.levels) if isinstance(self.levels, dict) else {}

    @model_validator(mode="after")
    def _one_form(self) -> GeographySection:
        if self.regroup is not None and len(self.levels) < 3:
            found = f"found {len(self.levels)} levels"
            raise Misfit(("regroup", f"{found}; three are needed: units between leaves and a level above"))
        if unknown := [level for level in self.within or {} if level not in self.levels]:
            raise Misfit(("within", f"{unknown[0]!r} is not a level; the levels are {', '.join(self.levels)}"))
        if self.repeated and self.form != "table":
            raise Misfit(("repeated", "only for a list of levels, where each row has the codes of all of them"))
        if self.form == "prefixes" and self.column is None:
            raise Misfit(("column", "missing; with prefix lengths in levels, name the column of leaf codes"))
        if self.form == "prefixes" and self.parent is not None:
            raise Misfit(("parent", "not allowed with prefix lengths in levels; give levels as a list for pairs"))
        if self.form == "table" and self.column is not None:
            why = "only for levels with prefix lengths, { county = 5, block = 15 }, or with `parent`"
            raise Misfit(("column", f"{why}; levels is a list here"))
        if self.form == "pairs" and self.column is None:
            raise Misfit(("column", "missing; parent is given, and pairs need both columns"))
        return self


class RecodeSection(Section):
    """A partition of an attribute's values into named groups."""

    attribute: str = Field(description="the attribute whose values are grouped")
    groups: Table[Annotated[Values, Field(min_length=1)]] = Field(
        description='label of each group -> its values, or a range of them, "0..4"; each value in exactly one group'
    )


class SchemaSection(Section):
    """The attributes of a record."""

    attributes: Table[Annotated[tuple[Value, ...], Field(min_length=1)]] = Field(
        description="a table of attributes, each with the list of its values in the histogram's order"
    )
    recodes: Table[RecodeSection] = Field(default={}, description="recodes by name, for use in queries")
    labels: LabelsSection | None = Field(
        default=None, description="labels of attributes, values and tables for readers"
    )


class QuerySection(Section):
    """A measured query's share of its level's budget."""

    share: QueryShare = Field(description="its share of the level's budget, as exact text")
    where: Literal["parent positive"] | None = Field(
        default=None,
        description='"parent positive": its answers are drawn, and published, only where that of the released area '
        "above is more than 0; by default, and at the highest level, all are",
    )


#: A query in a strategy: its share, or a table of share and where.
StatedQuery = Annotated[QuerySection, in_short("share", QuerySection, int, float)]


class LevelSection(Section):
    """One level's part of the strategy."""

    share: Share | None = Field(
        default=None, description="its share of the budget, as exact text; default: the preset's"
    )
    queries: Table[StatedQuery] | None = Field(
        default=None, description="its queries and their shares of the level's budget; default: [strategy.queries]"
    )


class StrategySection(Section):
    """Which queries are measured at which level, with what share; or a preset, with parts of it replaced."""

    preset: str | None = Field(default=None, description="a preset to start from, such as pl94-2020-us")
    queries: Table[StatedQuery] | None = Field(
        default=None,
        description="queries and shares of every level that does not give its own; they replace a preset's",
    )
    levels: Table[Annotated[LevelSection, in_short("share", LevelSection, int, float)]] = Field(
        default={}, description="share of each level, or a table with share and queries"
    )
    #: The preset that a table is of; in published specs alone.
    derived_from: SkipJsonSchema[str | None] = None
    of_runs: ClassVar[tuple[str, ...]] = ("derived_from",)


class BoundSection(Section):
    """Public counts of facilities that bound the persons in groups of cells."""

    name: str = Field(min_length=1, description="the name of the bound in messages")
    level: str = Field(description="the level whose geounits are bounded")
    file: File = Field(description="the CSV or Parquet file of facilities, one row per geounit, relative to the spec")
    geocode: str = Field(description="the file's column of geocodes")
    query: str = Field(description="the query whose answers are bounded")
    lower: NumberOfPersons = Field(default=0, description="the smallest number of persons per facility")
    upper: NumberOfPersons = Field(description="the largest number of persons per facility; without a facility nobody")
    columns: FilledTable[str] = Field(
        description="a table from the query's answers to the file's columns with the number of facilities"
    )

    @model_validator(mode="after")
    def _ordered(self) -> BoundSection:
        if self.lower > self.upper:
            raise Misfit(("upper", f"found {self.upper}, less than lower = {self.lower}; it must be at least that"))
        return self


class TableSection(SlottedSection):
    """A published table."""

    slot: ClassVar[str] = "tables"

    query: str = Field(description="the query whose answers are the table's cells")
    levels: tuple[str, ...] | None = Field(
        default=None,
        description="the levels it is published for; default: all at which what is measured determines some number",
    )
    median: bool = Field(
        default=False,
        description="whether the report shows the value with the median, with its interval; for queries of one "
        "attribute whose values or groups stand in their order",
    )


class SelectSection(Section):
    """A table whose detail is chosen privately in each geounit of a level."""

    level: str = Field(description="the level whose geounits choose")
    versions: tuple[str, ...] = Field(
        description="the queries to choose among, coarse to fine, each refining the one before"
    )
    thresholds: tuple[NumberOfPersons, ...] = Field(
        description="the smallest population for which each version is meant, beginning with 0 and increasing"
    )
    share: QueryShare = Field(
        description="the part of the whole budget for choice and measurement; the strategy divides the rest"
    )
    choice_share: QueryShare = Field(
        description="the part of this share that the choice may cost, less than 1; the measurement has the rest"
    )

    @model_validator(mode="after")
    def _something_to_choose_and_left(self) -> SelectSection:
        if len(self.versions) < 2:
            raise Misfit(("versions", f"found {len(self.versions)}; there must be two at least to choose among"))
        if self.choice_share == 1:
            raise Misfit(("choice_share", "found 1; less is needed, the version chosen is measured with the rest"))
        return self


class PostprocessSection(SlottedSection):
    """How the release is computed from the noisy measurements."""

    slot: ClassVar[str] = "postprocess"

    estimator: Literal["full", "topdown"] = Field(
        default="full", description="full: from all measurements together; topdown: level by level, as in 2020"
    )
    solver: Literal["auto", "batched", "cvxpy"] = Field(
        default="auto",
        description="auto: batched, with cvxpy where that fails; batched: fast; cvxpy: the reference",
    )
    passes: tuple[str, ...] = Field(
        default=("total",), description="queries whose answers are fixed first, in this order"
    )
    complete: Literal["proportional", "even"] = Field(
        default="proportional",
        description="what nothing measures of an area: fitted to its own estimates and the detail above, or an even "
        "share of it",
    )
    seed: WholeNumber = Field(default=0, description="the public seed for ties, simulations and samples")


class PublishSection(Section):
    """What is published besides the histograms."""

    margins: StrictBool = Field(default=True, description="publish a margin of error with each number")
    replicates: WholeNumber = Field(
        default=20,
        description="the most simulated runs for the margins of error; large spines have fewer, of a sample of areas",
    )
    unbiased: StrictBool = Field(default=False, description="also publish the linear unbiased estimates")
    draws: WholeNumber = Field(
        default=0,
        description="also publish this many joint draws of the truth given the measurements",
    )
    microdata: StrictBool = Field(default=True, description="also publish one row per person")

    @model_validator(mode="after")
    def _margins_need_replicates(self) -> PublishSection:
        if self.margins and not self.replicates:
            raise Misfit(("replicates", "found 0; margins = true needs at least 1"))
        return self


class PolygonSection(Section):
    """Polygons of a level's geounits."""

    file: File = Field(
        description="a file of polygons in longitude and latitude, relative to the spec: GeoJSON (also .gz); "
        "GeoPackage, GeoParquet or a shapefile with geopandas and pyogrio"
    )
    code: str = Field(description="the property (column) with the geocode")
    name: str | None = Field(default=None, description="the property with the area's name for people")


class ReportSection(ReportTexts):
    """What the report for readers shows beside the release itself."""

    polygons: Table[PolygonSection] = Field(
        default={}, description="level -> its polygons, for maps; levels without are shown as ranked dot plots"
    )


class UniverseSections(SlottedSection):
    """What the release and each companion state alike."""

    schema_section: SchemaSection = Field(alias="schema", description="a table with the attributes of a record")
    strategy: Annotated[StrategySection, in_short("preset", StrategySection)] = Field(
        description="a preset's name, or a table of queries and level shares; required without [collect]"
    )
    invariants: Table[tuple[str, ...]] = Field(default={}, description="level -> queries that are published exactly")
    records_per_person: Annotated[StrictInt, Field(ge=1)] = Field(
        default=1,
        description="how many of these records a change of one person alters at most; 2 for households, one of which a "
        "person leaves for another",
    )
    structural_zeros: StructuralZeros = Field(
        default=(),
        description="impossible records: combinations, attribute or recode -> value or values, or edit rules, "
        "sentences about one record such as 'age < 15 and marital != single'",
    )
    bounds: tuple[BoundSection, ...] = Field(default=(), description="public counts that bound groups of cells")
    input: InputSpec | None = Field(
        default=None, description="the confidential records; only `spinewise run` needs them"
    )
    tables: NamedTable[TableName, Annotated[TableSection, in_short("query", TableSection)]] | None = Field(
        default=None, description="the tables to publish; default: one for each distinct measured query"
    )
    select: NamedTable[Name, SelectSection] | None = Field(
        default=None, description="tables whose detail is chosen privately in each area, by name"
    )


class CompanionSection(UniverseSections):
    """A second histogram measured in the same run, such as housing units beside persons."""

    slot: ClassVar[str] = "companions"

    privacy: CompanionPrivacySection = Field(default=CompanionPrivacySection(), description="its own budget")
    passes: tuple[str, ...] = Field(
        default=("total",), description="queries whose answers are fixed first, in this order"
    )

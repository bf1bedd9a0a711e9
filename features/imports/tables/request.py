"""What the user asks of an import of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from features.imports.tables.asked import Asked
from features.imports.tables.grid import GridRequest
from features.imports.tables.guess_format import AskedFormat
from features.imports.tables.sheets import is_workbook
from features.imports.tables.sources import describe_source, is_database
from pipeline.errors import InputError


@dataclass(frozen=True)
class TableSource:
    """A table: a CSV or Parquet file, a workbook and its sheet, or a database and the query to ask it.

    `header_rows` are the first and the last row of the header, where they are stated.
    """

    source: str
    query: str | None = None
    sheet: str | None = None
    header_rows: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.query is None and is_database(self.source):
            raise InputError(f'{describe_source(self.source)}: a database needs a query; give --query "select ..."')
        if self.query is not None and not is_database(self.source):
            raise InputError(
                f"{self.source}: a query needs a database: a .duckdb or .sqlite file, a URL such as "
                "postgresql://USER@HOST/DATABASE, or duckdb: for queries over files"
            )
        if self.sheet is not None and not is_workbook(self.source):
            raise InputError(f"{self.source}: --sheet: only a workbook (.xlsx, .ods) has sheets")


@dataclass(frozen=True)
class TableRequest:
    """What is to be imported.

    Attributes:
        persons: the records.
        households: a table of households, with `key` in both.
        key: the column that identifies a person's household; guessed where it is None.
        areas: the public list of all areas, or a lookup table of leaf codes and the levels above.
        geography: the columns of the levels, top first; guessed where it is empty.
        count: the column of counts, where a row is not one record; guessed where it is None.
        name: the release's name; by default that of the file.
        geocode: the records' column of leaf codes, where a list of areas has the levels.
        levels: prefix lengths of the levels, top first, of one column of codes.
        grid: cells of a grid instead of areas.
        reading: what a row is, which columns count, and how many people there are.
        ignore: columns that are left out.
        attributes: columns that are counted by, whatever they look like.
        repeated: whether rows of the same cell are added up.
        text: how the file is written.
        schema: the public list of attributes and values; guessed from the records where it is None.
        marks: what stands in place of a number -> what it means, one of `cells.MEANINGS`.
        weights: a column of survey weights, which is refused.
        counted: the noun of what is counted, such as households.
    """

    persons: TableSource
    households: TableSource | None = None
    key: str | None = None
    areas: Path | None = None
    geography: tuple[str, ...] = ()
    count: str | None = None
    name: str | None = None
    geocode: str | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    grid: GridRequest | None = None
    reading: Asked = field(default_factory=Asked)
    ignore: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    repeated: bool = False
    text: AskedFormat = field(default_factory=AskedFormat)
    schema: Path | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    weights: str | None = None
    counted: str | None = None

    def __post_init__(self) -> None:
        if self.grid is not None and (self.geography or self.levels):
            raise InputError("--grid: a grid makes the levels; leave out --geography and --levels")
        if self.schema is not None and self.attributes:
            raise InputError("--schema: the list names the attributes; leave out --attribute")
        if self.weights is not None:
            raise InputError(
                f"--weights {self.weights}: weighted counts cannot be protected as counts of persons: a person of "
                "weight 250 would change a cell by 250. Expand the records beforehand (as many rows as the weight, for "
                "an example only), release the respondents themselves, or say that the records are unweighted: "
                "--ignore "
                f"{self.weights}"
            )
        if both := [name for name in self.attributes if name in self.ignore]:
            raise InputError(f"--attribute and --ignore: column {both[0]!r} is in both; leave it out of one")

    @property
    def asked(self) -> Asked:
        """What the user states about the reading."""
        reading = self.reading
        return replace(reading, count=self.count or reading.count)


def parse_names(text: str | None) -> tuple[str, ...]:
    """The columns of an option: names between commas."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def parse_levels(text: str | None) -> dict[str, int]:
    """The levels of `state=2,county=5`.

    Raises:
        InputError: the text is not of that form, or the lengths do not rise.
    """
    lengths: dict[str, int] = {}
    for part in parse_names(text):
        name, _, length = part.partition("=")
        number = int(length) if length.strip().isdecimal() else 0
        if not name.strip() or name.strip() in lengths or number <= max(lengths.values(), default=0):
            raise InputError(
                f"--levels: found {part!r}; names with the lengths of their codes are needed, top first and rising, "
                "such as state=2,county=5,tract=11"
            )
        lengths[name.strip()] = number
    return lengths

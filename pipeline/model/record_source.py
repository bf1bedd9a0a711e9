"""Where the confidential records are and how they are read, as a value; the section [input] of a spec makes one."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from pipeline.model.memory_table import Source
from pipeline.model.number_ranges import expand_numbers
from pipeline.model.text_format import TextFormat

if TYPE_CHECKING:
    from pipeline.model.schema import AmountAttribute

Form = Literal["microdata", "long", "wide", "reports"]
#: What becomes of reports that cannot be used.
BadReports = Literal["refuse", "count"]


#: What stands where nobody has said yet how many records and areas there are; no run is made of it.
UNPROVED: Final = "unproved"


@dataclass(frozen=True)
class KnownContent:
    """What a file is known to hold, from elsewhere: so that records that were lost or counted twice are noticed.

    It is as confidential as the records, and part of nothing that is published or that noise is bound to.

    Attributes:
        records: how many are counted.
        areas: leaves of the spine that the rows name.
    """

    records: int
    areas: int


@dataclass(frozen=True)
class RecordSource:
    """A file of records; `pipeline.spec.input_section` checks that its parts fit each other.

    Attributes:
        file: CSV or Parquet, absolute; or a table in memory.
        form: "microdata" (a row a record), "long" (a row a cell, with its count), "wide" (a row a leaf) or "reports" (a
            row a report that was randomised where it was made).
        geocode: the column of leaf codes.
        count: the column of counts, form long only.
        columns: attribute -> its column; by default the attribute's name. Form reports: `report`, `cohort` and
            `respondent` -> the columns of what was sent, of the cohort beside it, and of who sent it.
        coded: whether the columns hold the values' numbers, from 0 in the schema's order.
        values: attribute -> value in the file, or a range of whole numbers -> value of the schema.
        cells: form wide: `counts` = a column template, and the values of the other attributes.
        separator, encoding: how a CSV file is written, where it is not as usual.
        bad_reports: form reports: whether reports that cannot be used stop the run, or are counted and left out.
        unit, at_most: the column of the unit that a record is of, and how many records of a unit are counted.
        rows: column -> the values with which a row is counted; the other rows are left out. Not of the form wide.
        amount: the column of an amount, by the attribute's name, and the grid that it is read on: a record counts as
            many units as it has. None where each counts one.
        beside: further amounts that are read with each record, by which records of a unit are told apart.
        repeated: form long: "add" where a cell may stand in several rows, whose counts are added.
        expect: what the file is known to hold; `UNPROVED` where that has to be said first.
        further: attributes beyond the schema, which questions have: their columns hold values, also where others are
            `coded`, and do not tell the cells of the long form apart.
    """

    file: Source
    form: Form
    geocode: str
    count: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    coded: bool = False
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cells: tuple[Mapping[str, str], ...] = ()
    separator: str | None = None
    encoding: str | None = None
    repeated: Literal["add"] | None = None
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bad_reports: BadReports | None = None
    unit: str | None = None
    at_most: int | None = None
    amount: AmountAttribute | None = None
    beside: tuple[AmountAttribute, ...] = ()
    expect: KnownContent | Literal["unproved"] | None = None
    further: tuple[str, ...] = ()

    @property
    def text_format(self) -> TextFormat:
        """How a CSV file is written."""
        return TextFormat(self.separator or ",", self.encoding or "utf-8")

    def reading(self, names: Iterable[str]) -> list[object]:
        """What the rows stand for where these attributes are looked at, as JSON; not which file it is.

        With another reading the same file has other counts, or by chance of the records the same ones. What must not
        tell which of the two it is, is bound to the reading.
        """
        attributes = []
        for name in names:
            values = self.values.get(name, {})
            texts = sorted((values if self.form == "wide" else expand_numbers(values)).items())
            attributes.append([name, self.columns.get(name, name), self.coded and name not in self.further, texts])
        rows = [[column, sorted(set(values))] for column, values in sorted(self.rows.items())]
        cells = [sorted(cell.items()) for cell in self.cells]
        one_row = [self.form, self.geocode, self.count, self.repeated, cells, rows]
        # With the usual ones CSV and Parquet of the same columns are read alike.
        encoding = codecs.lookup(self.text_format.encoding).name
        return [*one_row, self.unit, self.at_most, attributes, *([] if encoding == "utf-8" else [(encoding, ".")])]

"""What a release says of itself to people: publisher, reference date or period, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pipeline.model.texts.catalogue import Texts

#: What is stated in one text each, in the order in which it is shown.
LINES: Final = (
    "title",
    "publisher",
    "reference_date",
    "publication_date",
    "version",
    "next_release",
    "contact",
    "licence",
    "citation",
    "software_url",
)


@dataclass(frozen=True)
class Period:
    """The time that counts are of, where it is more than a reference date.

    Attributes:
        name: as SDMX writes it in TIME_PERIOD: a year, quarter, month or day, such as 2031-Q1.
        first, last: its days, such as 2031-01-01 and 2031-03-31.
    """

    name: str
    first: str
    last: str


@dataclass(frozen=True)
class About:
    """Words of the publisher; a text is "" where none is stated.

    Attributes:
        period: of the counts; None where the release is none of several.
    """

    title: str = ""
    publisher: str = ""
    reference_date: str = ""
    publication_date: str = ""
    version: str = ""
    next_release: str = ""
    contact: str = ""
    licence: str = ""
    citation: str = ""
    software_url: str = ""
    notes: Sequence[str] = ()
    definitions: Mapping[str, str] = field(default_factory=dict)
    period: Period | None = None

    @property
    def time(self) -> str:
        """What SDMX calls TIME_PERIOD: the period, or else the reference date; "" where neither is known."""
        return self.reference_date if self.period is None else self.period.name

    @property
    def days(self) -> tuple[str, str] | None:
        """First and last day of it."""
        if self.period is not None:
            return self.period.first, self.period.last
        return (self.reference_date, self.reference_date) if self.reference_date else None

    def cited(self, name: str, texts: Texts) -> str:
        """How the release is cited: the publisher's own words, or else publisher, year, title and version.

        Args:
            name: of the release, for one without a title.
            texts: of the report's language.
        """
        if self.citation:
            return self.citation
        year = (self.publication_date or self.time)[:4]
        author = " ".join([self.publisher, f"({year})" if year else ""]).strip()
        version = texts("Version {version}", version=self.version) + "." if self.version else ""
        return " ".join(one for one in (f"{author}." if author else "", f"{self.title or name}.", version) if one)

    def rows(self) -> list[tuple[str, str]]:
        """What is stated, in its order: key and text; a note and a definition a row each."""
        rows = [(key, str(getattr(self, key))) for key in LINES if getattr(self, key)]
        rows += [] if self.period is None else [("period", self.period.name)]
        rows += [("note", note) for note in self.notes]
        return rows + [(f"definition of {term}", text) for term, text in self.definitions.items()]

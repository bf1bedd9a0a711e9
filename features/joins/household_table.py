"""A table of persons by what their households are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.model.query import Query
from pipeline.model.texts.message import marked
from pipeline.release.layout import file_name

#: What is said wherever such a table is shown; it has no margins of error.
NO_MARGINS = marked(
    "Which person lives in which household was drawn: these numbers follow from the joins, the published counts of "
    "persons and of households, and chance. Their error is not known, so they have no margin; none of them is exact."
)


@dataclass(frozen=True, eq=False)
class HouseholdTable:
    """Persons who live in households of a companion, by their own answers and those of their households.

    Attributes:
        name: of the table.
        place: among those of the spec.
        companion: whose records are the households.
        persons: a query on the release's own universe.
        households: a query on the companion.
        levels: at which it is published, top first.
    """

    name: str
    place: int
    companion: str
    persons: Query
    households: Query
    levels: tuple[str, ...]

    @property
    def note(self) -> str:
        """Why it has no margins."""
        return NO_MARGINS

    def file(self, public: Path, level: str) -> Path:
        """Where it is at a level, in the form of a table without margins of error."""
        return public / "household_tables" / file_name("table", self.name) / f"{file_name('level', level)}.parquet"

    @property
    def size(self) -> int:
        """The number of columns of counts."""
        return self.persons.size * self.households.size

    @property
    def query(self) -> str:
        """The two queries as one text."""
        return f"{self.persons.name} of persons by {self.households.name} of {self.companion}"

    @property
    def labels(self) -> tuple[str, ...]:
        """Of its columns: the answer on persons, then that on households; households' alone where all persons count."""
        theirs = self.households.answer_labels()
        if not self.persons.terms:
            return theirs
        if not self.households.terms:
            return self.persons.answer_labels()
        return tuple(f"{own} * {home}" for own in self.persons.answer_labels() for home in theirs)

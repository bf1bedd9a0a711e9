"""A table of persons by what their households are."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.model.query import Query

#: What is said wherever such a table is shown; it has no margins of error.
NO_MARGINS = (
    "Which person lives in which household was drawn: these numbers follow from the joins, the published counts of "
    "persons and of households, and chance. Their error is not known, so they have no margin; none of them is exact."
)


@dataclass(frozen=True, eq=False)
class HouseholdTable:
    """Persons who live in households of a companion, by their own answers and those of their households.

    Attributes:
        name: of the table.
        companion: whose records are the households.
        persons: a query on the release's own universe.
        households: a query on the companion.
        levels: at which it is published, top first.
    """

    name: str
    companion: str
    persons: Query
    households: Query
    levels: tuple[str, ...]

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

"""Published persons and households: what joins allow in each area, who lives where, and tables of persons by household.

The assignment is not repeated: whether the persons of each household are what its joins say is counted from the two
files of microdata alone, as are the tables. Without microdata nobody can say who lives where: then counts must be
whole, add up from children to parents, and with those who live in other households be as many persons as the histogram
has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from auditor.check.published import PublicRelease
from auditor.check.relations import check_within
from auditor.check.tables import check_table
from auditor.reading.cells import Cells, JoinedGroup
from auditor.reading.counts import Counts, LevelFile, cell_numbers, compare
from auditor.reading.files import Files, whole_numbers
from auditor.reading.findings import Check
from auditor.reading.spec import Crossed
from auditor.reading.spine import Level
from auditor.reading.values import IntArray, zeros

#: What docs/formats.md calls the columns.
HOUSEHOLD, MEMBERS = "household", "members"


#: A group of persons, and whether persons outside of households are in it, too; `most` is that of one household.
Limit = tuple[JoinedGroup, bool]


@dataclass(frozen=True, eq=False)
class RecordFile:
    """Microdata of one universe.

    Attributes:
        most: rows that there can be; None where nothing says so.
        columns: all columns of numbers beside geocode and attributes.
    """

    path: Path
    cells: Cells
    columns: tuple[str, ...]
    most: int | None


@dataclass(frozen=True, eq=False)
class Homes:
    """The households by number from 0: leaf, cell (-1 where unknown) and stated members, `(n,)` each."""

    level: Level
    leaves: IntArray
    cells: IntArray
    members: IntArray

    def name(self, home: int) -> str:
        """Number and leaf, as sentences show them."""
        return f"household {home + 1:,} in {_leaf_names(self.level, self.leaves)(home)}"


def _leaf_names(level: Level, leaves: IntArray) -> Callable[[int], str]:
    """From a row to the leaf that it is in, as sentences show it."""
    return lambda row: level.label(leaves[row]) if leaves[row] >= 0 else f"no known {level.name}"


@dataclass(frozen=True, eq=False)
class Housed:
    """Who lives where: the households, and the persons of each cell in each, by the household's number from 0."""

    homes: Homes
    members: Counts


def key_columns(universe: str, joined: Sequence[str]) -> tuple[str, ...]:
    """The columns that the microdata of a universe have beside geocode and attributes.

    Args:
        universe: "" for the persons, else the companion.
        joined: the companions that persons are joined with.
    """
    if universe:
        return (HOUSEHOLD, MEMBERS) if universe in joined else ()
    return (HOUSEHOLD,) if len(joined) == 1 else tuple(f"{HOUSEHOLD}_{companion}" for companion in joined)


def check_households(
    files: Files,
    level: Level,
    persons: RecordFile,
    homes: RecordFile,
    column: str,
    limits: Sequence[Limit],
) -> Housed:
    """Check that persons live in households as the joins say; returns who lives where.

    Every number of a household is that of one, in the person's own leaf; each household has as many persons as it says,
    and in every group of every join at least and at most what the join says; persons without a number are outside of
    households by the joins, or may be.

    Args:
        files: reads them.
        level: of the leaves.
        persons, homes: the two files.
        column: of the persons' file, with the number of the household.
        limits: of all joins between the two.

    Raises:
        FormError: a file is missing or damaged.
    """
    known = _read_homes(files, level, homes)
    members = _read_members(files, level, persons, column, limits, known)
    found = np.bincount(members.geounits, members.counts, minlength=len(known.leaves)).astype(np.int64)
    files.check(homes.path, "households with other numbers of members than they state").add(
        found != known.members,
        lambda home: f"{known.name(home)} states {known.members[home]:,} members; {found[home]:,} persons have it",
    )
    for group, _ in limits:
        check = files.check(homes.path, f"households that break the join {group.join!r}")
        _check_group(check, group, known, members)
    return Housed(known, members)


def _read_homes(files: Files, level: Level, homes: RecordFile) -> Homes:
    # Unknown geocodes and values are reported where the records are counted.
    file = LevelFile(files.again(), homes.path, level, once=False, most=homes.most)
    numbered = files.check(homes.path, "households that are not numbered by their rows")
    counted = files.check(homes.path, "numbers of members that are not whole numbers from 0")
    parts = [(zeros(0),) * 3]
    for part, leaves in file.parts([*homes.cells.names, *homes.columns]):
        cells = cell_numbers(part, homes.cells, file)
        stated, whole = whole_numbers(part.column(HOUSEHOLD), HOUSEHOLD, file.name)
        rows = file.first_row + np.arange(part.num_rows)
        told = file.saying("has the number ", part.column(HOUSEHOLD), "; it is that of the row")
        numbered.add(~whole | (stated != rows), told)
        members, whole = whole_numbers(part.column(MEMBERS), MEMBERS, file.name)
        told = file.saying("has ", part.column(MEMBERS), " members; whole numbers are required")
        counted.add(~whole | (members < 0), told)
        parts.append((leaves, cells, members))
    return Homes(level, *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _read_members(
    files: Files, level: Level, persons: RecordFile, column: str, limits: Sequence[Limit], homes: Homes
) -> Counts:
    """Persons of each cell in each household; those who live where they cannot are reported."""
    file = LevelFile(files.again(), persons.path, level, once=False, most=persons.most)
    exists = files.check(persons.path, "persons of households that are not there")
    near = files.check(persons.path, "persons of households elsewhere")
    without = files.check(persons.path, "persons without a household who live in one by the joins")
    outside = files.check(persons.path, "persons of a household who live in none by the joins")
    lives, must = np.zeros((2, persons.cells.size), dtype=np.bool_)
    for group, others in limits:
        lives |= group.persons
        must |= group.persons & (not others)
    parts = []
    for part, leaves in file.parts([*persons.cells.names, *persons.columns]):
        cells = cell_numbers(part, persons.cells, file)
        numbers, whole = whole_numbers(part.column(column), column, file.name)
        stated = part.column(column).is_valid().to_numpy(zero_copy_only=False)
        known = whole & (numbers >= 1) & (numbers <= len(homes.leaves))
        home = np.where(known, numbers - 1, -1)
        there = np.append(homes.leaves, -1)[home]
        usable = cells >= 0
        said = partial(file.saying, "in ", _leaf_names(level, leaves), ", household ", part.column(column), ": ")
        exists.add(stated & ~known, said("there is no such household"))
        elsewhere = said(f"the household is in another {level.name}, ", _leaf_names(level, there))
        near.add(known & (leaves != there), elsewhere)
        outside.add(known & usable & ~lives[cells], said("no join says that such persons live in households"))
        without.add(~stated & usable & must[cells], said("by the joins such persons live in a household"))
        parts.append(np.unique((home * persons.cells.size + cells)[known & usable], return_counts=True))
    return Counts.of_parts(persons.cells.size, parts)


def _check_group(broken: Check, group: JoinedGroup, homes: Homes, members: Counts) -> None:
    inside, known = group.persons[members.columns], np.flatnonzero(homes.cells >= 0)
    found = np.bincount(members.geounits[inside], members.counts[inside], minlength=len(homes.cells)).astype(np.int64)
    least, most = group.least[homes.cells[known]], group.most[homes.cells[known]]
    check_within(
        broken, found[known], least, most,
        lambda at: f"{homes.name(int(known[at]))}, members in {group.label!r}",
        f"the join {group.join!r}",
        unlimited=most < 0,
    )  # fmt: skip


def recounted(table: Crossed, housed: Housed) -> Counts:
    """The counts of a table in the leaves, from persons and the households that they live in."""
    cells = housed.homes.cells[housed.members.geounits]
    known = cells >= 0
    answer = table.persons.of_cell[housed.members.columns] * table.households.size
    answer = answer + table.households.of_cell[np.maximum(cells, 0)]
    keys = housed.homes.leaves[housed.members.geounits] * table.query.size + answer
    return Counts.summed(table.query.size, keys[known], housed.members.counts[known])


def check_household_table(published: PublicRelease, table: Crossed, housed: Housed | None) -> None:
    """Check a table at all its levels; more persons of an answer than there are is reported.

    Args:
        published: the release.
        table: what the spec demands.
        housed: who lives where; None without microdata.

    Raises:
        FormError: a file is missing or damaged.
    """
    files, of_persons = published.files, np.arange(table.query.size) // table.households.size
    required = None if housed is None else recounted(table, housed)
    why = "the persons of such households in the microdata"
    for number, level in reversed(list(enumerate(published.levels))):
        if level.name in table.levels:
            path = published.places.of("", "household_tables", table.name, level.name)
            found = check_table(files, path, level, table.query, required, margins=False, why=why)
            if (persons := published.counts[""].get(level.name)) is not None:
                check = files.check(path, "numbers of persons that are more than there are")
                here, there = found.mapped(of_persons, table.persons.size), persons.answers(table.persons)
                why_most, label = "all persons of the histogram", table.persons.labels.__getitem__
                compare(check, why_most, level, label, here, there, at_most=True)
            if housed is None:
                required, why = found, f"the sum over level {level.name!r}"
        if required is not None and number:
            required = required.raised(level)

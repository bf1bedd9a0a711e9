"""The synthetic population as the tables of persons and households that micro-simulations read.

Column names are those of ActivitySim's input tables (`input_table_list` of its example configurations): households have
household_id, home_zone_id and hhsize, persons person_id, household_id and PNUM, their number in the household. The
attributes keep their own names; which of them a model calls age or sex is for its `rename_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease
from pipeline.storage.files import texts
from pipeline.storage.plain_tables import CsvFiles, plain_parts

_IDS = ("person_id", "household_id", "PNUM", "home_zone_id", "hhsize")


def write_population(release: PublishedRelease, folder: Path) -> None:
    """Write households.csv, persons.csv and, where there are any, persons_outside.csv.

    Args:
        release: with persons and households that are joined.
        folder: they are written to.

    Raises:
        InputError: the release does not say who lives in which household, or an attribute has the name of a column.
        ReleaseError: its microdata are damaged.
    """
    joined = _Joined.of(release)
    for universe in (joined.persons, joined.households):
        if clash := [name for name in universe.schema.names if name in (*_IDS, *release.spine.level_names[:-1])]:
            raise InputError(
                f"--format activitysim: the attribute {clash[0]!r} has the name of a column of this layout, which are "
                f"{', '.join((*_IDS, *release.spine.level_names[:-1]))}; --format csv writes any release's microdata"
            )
    with CsvFiles(folder) as files:
        written = _write_households(release, joined, files)
        for inside, outside in _person_parts(release, joined, written):
            files.write("persons", inside)
            if outside.num_rows:
                files.write("persons_outside", outside)


@dataclass(frozen=True, eq=False)
class _Joined:
    """Persons, and the companion that they are joined with.

    Attributes:
        number: the column of the households' microdata by which they are told apart.
        members: that with how many persons they have.
        home: the column of the persons' microdata with the number of their household.
    """

    persons: Universe
    households: Universe
    number: str
    members: str
    home: str

    @classmethod
    def of(cls, release: PublishedRelease) -> _Joined:
        links = [link for link in release.links if any(column.is_key for column in link.numbers(link.by))]
        _check(release, [link.by for link in links])
        (link,) = links
        number, members = sorted(link.numbers(link.by), key=lambda column: not column.is_key)
        (home,) = link.numbers(link.of)
        by_name = {universe.name: universe for universe in release.universes}
        return cls(by_name[link.of], by_name[link.by], number.name, members.name, home.name)


def _check(release: PublishedRelease, joined: list[str]) -> None:
    if len(joined) != 1:
        found = f"{', '.join(joined)} are joined" if joined else "the spec has no [[join]]"
        raise InputError(
            f"--format activitysim: needs persons who are joined with the households of one companion; {found}"
        )
    if not release.spec.publish.microdata:
        raise InputError("--format activitysim: the release has no microdata; its spec says publish.microdata = false")


def _write_households(release: PublishedRelease, joined: _Joined, files: CsvFiles) -> int:
    """Write the households; returns how many there are."""
    written = 0
    for part in plain_parts(release.unchanged(release.run.universe(joined.households.name).microdata)):
        columns = {
            "household_id": part.column(joined.number),
            **_places(release.spine, part.column("geocode")),
            "hhsize": part.column(joined.members),
            **{name: part.column(name) for name in joined.households.schema.names},
        }
        files.write("households", pa.table(columns))
        written += part.num_rows
    return written


def _person_parts(release: PublishedRelease, joined: _Joined, n_households: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Members of households, and persons outside of them, part by part; a person's id is the row in microdata."""
    seen = np.zeros(n_households + 1, dtype=np.int32)
    first = 1
    for part in plain_parts(release.unchanged(release.run.universe(joined.persons.name).microdata)):
        ids = pa.array(np.arange(first, first + part.num_rows))
        first += part.num_rows
        inside = part.column(joined.home).is_valid()
        attributes = {name: part.column(name) for name in joined.persons.schema.names}
        members = pa.table({"person_id": ids, "household_id": part.column(joined.home), **attributes}).filter(inside)
        number = _numbers_in_household(members.column("household_id").to_numpy(), seen)
        outside = pa.table({"person_id": ids, **_places(release.spine, part.column("geocode")), **attributes})
        yield members.add_column(2, "PNUM", pa.array(number)), outside.filter(pa.compute.invert(inside))


def _numbers_in_household(households: NDArray[np.int64], seen: NDArray[np.int32]) -> NDArray[np.int64]:
    """1, 2, ... for the persons of each household; `seen` counts those of earlier parts, and takes note of these."""
    order = np.argsort(households, kind="stable")
    inverse = households[order]
    rank = np.arange(len(order)) - np.searchsorted(inverse, inverse)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = rank + 1
    number += seen[households]
    np.add.at(seen, households, 1)
    return number


def _places(spine: Spine, geocodes: pa.ChunkedArray) -> dict[str, pa.Array]:
    """The leaf as home_zone_id, and a column for each level above it."""
    leaves = spine.find_leaves(texts(geocodes))
    above = {
        level.name: pa.array(level.geocodes[spine.leaf_ancestors(number)[leaves]].tolist(), pa.string())
        for number, level in enumerate(spine.levels[:-1])
    }
    return {"home_zone_id": geocodes, **above}

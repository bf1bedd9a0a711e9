"""The synthetic population as the tables of persons and households that micro-simulations read.

Column names are those of ActivitySim's input tables (`input_table_list` of its example configurations): households have
household_id, home_zone_id and hhsize, persons person_id, household_id and PNUM, their number in the household. The
attributes keep their own names; which of them a model calls age or sex is for its `rename_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.model.join import HOUSEHOLD, MEMBERS
from pipeline.model.links.households import Households
from pipeline.model.links.link import links_of_kind
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease
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
    persons, households = _joined(release)
    for universe in (persons, households):
        if clash := [name for name in universe.schema.names if name in (*_IDS, *release.spine.level_names[:-1])]:
            raise InputError(
                f"--format activitysim: the attribute {clash[0]!r} has the name of a column of this layout, which are "
                f"{', '.join((*_IDS, *release.spine.level_names[:-1]))}; --format csv writes any release's microdata"
            )
    with CsvFiles(folder) as files:
        home_of = _write_households(release, households, files)
        for inside, outside in _person_parts(release, persons, home_of):
            files.write("persons", inside)
            if outside.num_rows:
                files.write("persons_outside", outside)


def _joined(release: PublishedRelease) -> tuple[Universe, Universe]:
    """The persons, and the companion that they are joined with."""
    links = links_of_kind(release.links, Households)
    if len(links) != 1:
        found = f"{', '.join(link.by for link in links)} are joined" if links else "the spec has no [[join]]"
        raise InputError(
            f"--format activitysim: needs persons who are joined with the households of one companion; {found}"
        )
    if not release.spec.publish.microdata:
        raise InputError("--format activitysim: the release has no microdata; its spec says publish.microdata = false")
    return links[0].persons, links[0].households


def _write_households(release: PublishedRelease, households: Universe, files: CsvFiles) -> int:
    """Write the households; returns how many there are."""
    written = 0
    for part in plain_parts(release.run.universe(households.name).microdata):
        columns = {
            "household_id": part.column(HOUSEHOLD),
            **_places(release.spine, part.column("geocode")),
            "hhsize": part.column(MEMBERS),
            **{name: part.column(name) for name in households.schema.names},
        }
        files.write("households", pa.table(columns))
        written += part.num_rows
    return written


def _person_parts(
    release: PublishedRelease, persons: Universe, n_households: int
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Members of households, and persons outside of them, part by part; a person's id is the row in microdata."""
    seen = np.zeros(n_households + 1, dtype=np.int32)
    first = 1
    for part in plain_parts(release.run.main.microdata):
        ids = pa.array(np.arange(first, first + part.num_rows))
        first += part.num_rows
        inside = part.column(HOUSEHOLD).is_valid()
        attributes = {name: part.column(name) for name in persons.schema.names}
        members = pa.table({"person_id": ids, "household_id": part.column(HOUSEHOLD), **attributes}).filter(inside)
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
    leaves = spine.find_leaves(np.asarray(geocodes.to_numpy(), dtype=np.str_))
    above = {
        level.name: pa.array(level.geocodes[spine.leaf_ancestors(number)[leaves]].tolist(), pa.string())
        for number, level in enumerate(spine.levels[:-1])
    }
    return {"home_zone_id": geocodes, **above}

"""Average household sizes of a level, from the published tables of persons and of households and their intervals."""

from __future__ import annotations

from pipeline.execution.job import Job
from pipeline.model.links.households import SizeSource
from pipeline.model.universe import Table
from pipeline.release.joined.sizes import HouseholdSizes, write_household_sizes
from pipeline.release.tables import read_table_parts
from postprocess.statistics import Counted, average_sizes


def publish_household_sizes(job: Job, source: SizeSource, level: int) -> None:
    """Write the average household sizes of a level.

    Args:
        job: the run; the tables are published.
        source: the tables' numbers.
        level: index of the level, 0 at the top.

    Raises:
        ReleaseError: a table is missing or damaged, or the file cannot be written.
    """
    geounits, residents = job.spine.levels[level], source.residents
    persons = _counted(job, "", source.persons, geounits.name, len(geounits))
    households = _counted(job, residents.companion, source.households, geounits.name, len(geounits))
    sizes = HouseholdSizes(
        companion=residents.companion,
        level=geounits.name,
        geocodes=geounits.geocodes,
        persons=persons.counts,
        households=households.counts,
        averages=average_sizes(persons, households, residents.least, residents.most),
    )
    write_household_sizes(job.run.household_sizes(residents.companion, geounits.name), job.run.staging, sizes)
    job.progress.advance(len(geounits))


def _counted(job: Job, universe: str, number: tuple[Table, int], level: str, rows: int) -> Counted:
    """One number of a published table for all geounits of a level; memory is that of a part of the table beside it."""
    table, answer = number
    parts = [
        Counted.of_whole(
            part.counts[:, answer],
            None if part.lows is None else part.lows[:, answer],
            None if part.highs is None else part.highs[:, answer],
        )
        for part in read_table_parts(job.run.universe(universe).table(table.name, level), rows)
    ]
    return Counted.joined(parts)

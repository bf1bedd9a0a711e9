"""What is published of two universes that are linked: average household sizes, microdata of both, sums and means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.products import AMOUNTS, HOUSEHOLD_SIZES, HOUSEHOLD_TABLES, MICRODATA
from pipeline.model.links.households import Households, SizeSource
from pipeline.model.links.link import Link, links_of_kind
from pipeline.model.links.sums_of_counts import SumsOfCounts
from pipeline.model.universe import Table, Universe
from pipeline.publishing.files import product_files
from pipeline.release.joined.means import means_of, write_means
from pipeline.release.joined.sizes import HouseholdSizes, write_household_sizes
from pipeline.release.tables import read_table, read_table_parts
from postprocess.statistics import Counted, average_sizes


def linked_steps(job: Job, universe: Universe) -> list[Step]:
    """The steps that publish what follows from the tables of a universe and of those that are released before it."""
    links = [link for link in job.links if link.of == universe.name]
    numbers = range(job.spine.n_levels)
    return [step for number in numbers for link in links for step in _STEPS[type(link)](job, link, number)]


def _size_steps(job: Job, link: Households, number: int) -> list[Step]:
    """Average household sizes of a level."""
    level = job.spine.levels[number]
    if (source := link.average_size(level.name)) is None:
        return []
    publish = partial(publish_household_sizes, job, source, number)
    files = product_files(job, HOUSEHOLD_SIZES, universe=link.by, level=level.name)
    return [Step("household sizes", publish, link.by, level.name, len(level), 0.2, files=files)]


def _mean_steps(job: Job, link: SumsOfCounts, number: int) -> list[Step]:
    """Sums and means of a level."""
    level = job.spine.levels[number]
    if not (files := product_files(job, AMOUNTS, universe=link.of, level=level.name)):
        return []
    return [Step("means", partial(publish_means, job, link, number), link.of, level.name, len(level), 0.2, files=files)]


_STEPS: Mapping[type[Link], Callable[[Job, Any, int], list[Step]]] = {
    Households: _size_steps,
    SumsOfCounts: _mean_steps,
}


def households_of_persons(job: Job, universe: Universe) -> list[Households]:
    """The households that a universe's persons are given, in the order of the release's universes; none for most."""
    own = [link for link in links_of_kind(job.links, Households) if link.of == universe.name]
    return sorted(own, key=lambda link: job.universes.index(link.households))


def microdata_files(job: Job, universe: Universe) -> tuple[Path, ...]:
    """What is written with the microdata of a universe: those of its households, too, which have none of their own."""
    if any(link.by == universe.name for link in links_of_kind(job.links, Households)):
        return ()
    together = [universe, *(link.households for link in households_of_persons(job, universe))]
    return tuple(path for each in together for path in product_files(job, MICRODATA, universe=each.name))


def household_table_files(job: Job, universe: Universe) -> tuple[Path, ...]:
    """The tables of a universe's persons by their households."""
    return product_files(job, HOUSEHOLD_TABLES, universe=universe.name)


# -- sums and means of amounts ----------------------------------------------------------------------------------------


def publish_means(job: Job, link: SumsOfCounts, level: int) -> None:
    """Write sums and means of a level; the tables of the companion and of the release itself are written.

    Raises:
        ReleaseError: a table is missing or damaged, or the file cannot be written.
    """
    geounits = job.spine.levels[level]
    for table in link.sums.tables:
        if geounits.name in table.levels:
            _publish_means(job, link, table, geounits.name, len(geounits))
    job.progress.advance(len(geounits))


def _publish_means(job: Job, link: SumsOfCounts, table: Table, level: str, rows: int) -> None:
    counted = link.records(table, level)
    sums = read_table(job.folder(link.sums).table(table.name, level), rows)
    counts = None if counted is None else read_table(job.folder(link.counts).table(counted.name, level), rows)
    means = means_of(link.of, link.amount, sums, counts)
    write_means(job.run.means(link.of, table.name, level), job.run.staging, means)


# -- average household sizes ------------------------------------------------------------------------------------------


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

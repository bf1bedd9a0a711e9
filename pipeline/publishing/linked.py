"""What is published of two universes that are linked: average household sizes, microdata of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.products import HOUSEHOLD_SIZES, HOUSEHOLD_TABLES, MICRODATA
from pipeline.model.links.households import Households, SizeSource
from pipeline.model.links.link import Link, links_of_kind
from pipeline.model.universe import Table, Universe
from pipeline.publishing.files import product_files
from pipeline.release.joined.sizes import HouseholdSizes, write_household_sizes
from pipeline.release.tables import read_table_parts
from postprocess.statistics import Counted, average_sizes


def linked_steps(job: Job, universe: Universe) -> list[Step]:
    """The steps that publish what follows from the tables of a universe and of those that are released before it."""
    links = [link for link in job.links if link.of == universe.name]
    numbers = range(job.spine.n_levels)
    return [step for number in numbers for link in links for step in _steps(job, link, number)]


@runtime_checkable
class PublishedAfter(Protocol):
    """A link of which something is published after the tables of both its universes."""

    def steps(self, job: Job, level: int) -> list[Step]:
        """The steps for a level of the spine, 0 at the top."""


def _steps(job: Job, link: Link, number: int) -> list[Step]:
    if isinstance(link, PublishedAfter):
        return link.steps(job, number)
    return _STEPS[type(link)](job, link, number) if type(link) in _STEPS else []


def _size_steps(job: Job, link: Households, number: int) -> list[Step]:
    """Average household sizes of a level."""
    level = job.spine.levels[number]
    if (source := link.average_size(level.name)) is None:
        return []
    publish = partial(publish_household_sizes, job, source, number)
    files = product_files(job, HOUSEHOLD_SIZES, universe=link.by, level=level.name)
    return [Step("household sizes", publish, link.by, level.name, len(level), 0.2, files=files)]


_STEPS: Mapping[type[Link], Callable[[Job, Any, int], list[Step]]] = {Households: _size_steps}


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

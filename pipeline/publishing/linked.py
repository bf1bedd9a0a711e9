"""What is published of two universes that are linked: average household sizes, microdata of both, sums and means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.products import AMOUNTS, HOUSEHOLD_SIZES, HOUSEHOLD_TABLES, MICRODATA
from pipeline.model.links.households import Households
from pipeline.model.links.link import Link, links_of_kind
from pipeline.model.links.sums_of_counts import SumsOfCounts
from pipeline.model.universe import Universe
from pipeline.publishing.files import product_files
from pipeline.publishing.household_sizes import publish_household_sizes
from pipeline.publishing.means import publish_means


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

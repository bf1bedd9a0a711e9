"""What is published of two universes that are linked: records of both, and what follows from their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import scipy.sparse as sp

from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.products import AMOUNTS, MICRODATA
from pipeline.model.links.link import Link, LinkedTable, tables_of
from pipeline.model.links.sums_of_counts import SumsOfCounts
from pipeline.model.universe import Table, Universe
from pipeline.publishing.files import product_files
from pipeline.release.joined.means import means_of, write_means
from pipeline.release.tables import read_table


@runtime_checkable
class PublishesLinked(Protocol):
    """A link of a feature from whose universes' tables something follows."""

    def steps(self, job: Job, level: int) -> list[Step]:
        """The steps that publish it, at a level, once the tables of both are written."""


@runtime_checkable
class WritesRecords(Protocol):
    """A link by which records of both universes are written together, and tables of these."""

    @property
    def of(self) -> str:
        """See `Link.of`."""

    @property
    def by(self) -> str:
        """See `Link.by`."""

    @property
    def tables(self) -> Sequence[LinkedTable]:
        """See `Link.tables`."""

    @property
    def records_step(self) -> str:
        """What the step is called where no microdata are published."""

    def write_records(self, job: Job, links: Sequence[Any], counts: sp.csr_array) -> None:
        """Write the records of a universe and of those that it is linked with, and the tables of all links.

        Args:
            job: the run.
            links: all of the universe, of this kind.
            counts: the released histogram of the leaves of `of`, `(n, n_cells)`; those of `by` are written.

        Raises:
            ReleaseError: a released histogram is not there, or a file cannot be written.
            SolverError: the records of a leaf do not go together; the message names it.
        """


def linked_steps(job: Job, universe: Universe) -> list[Step]:
    """The steps that publish what follows from the tables of a universe and of those that are released before it."""
    links = [link for link in job.links if link.of == universe.name]
    numbers = range(job.spine.n_levels)
    return [step for number in numbers for link in links for step in _steps_of(job, link, number)]


def _steps_of(job: Job, link: Link, level: int) -> list[Step]:
    if isinstance(link, PublishesLinked):
        return link.steps(job, level)
    return _STEPS[type(link)](job, link, level) if type(link) in _STEPS else []


def _mean_steps(job: Job, link: SumsOfCounts, number: int) -> list[Step]:
    """Sums and means of a level."""
    level = job.spine.levels[number]
    if not (files := product_files(job, AMOUNTS, universe=link.of, level=level.name)):
        return []
    return [Step("means", partial(publish_means, job, link, number), link.of, level.name, len(level), 0.2, files=files)]


#: Of the core's links.
_STEPS: Mapping[type[Link], Callable[[Job, Any, int], list[Step]]] = {SumsOfCounts: _mean_steps}


def linked_records(job: Job, universe: Universe) -> list[WritesRecords]:
    """The links by which a universe's records are written with others, in the order of these; none for most."""
    own = [link for link in job.links if link.of == universe.name and isinstance(link, WritesRecords)]
    order = [one.name for one in job.universes]
    return sorted(own, key=lambda link: order.index(link.by))


def record_files(job: Job, universe: Universe) -> tuple[Path, ...]:
    """What is written with the records of a universe: those of others, which have none of their own, and tables."""
    if any(link.by == universe.name and isinstance(link, WritesRecords) for link in job.links):
        return ()
    links = linked_records(job, universe)
    names = [universe.name, *(link.by for link in links)]
    microdata = [path for name in names for path in product_files(job, MICRODATA, universe=name)]
    tables = [table.file(job.run.public, level) for table in tables_of(links) for level in table.levels]
    return (*microdata, *tables)


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

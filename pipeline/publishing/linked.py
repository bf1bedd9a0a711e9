"""What is published of two universes that are linked: records of both, and what follows from their tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import scipy.sparse as sp

from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.products import MICRODATA
from pipeline.model.links.link import LinkedTable, tables_of
from pipeline.model.universe import Universe
from pipeline.publishing.files import product_files


@runtime_checkable
class PublishesLinked(Protocol):
    """A link of a feature from whose universes' tables something follows."""

    @property
    def of(self) -> str:
        """See `Link.of`."""

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
    links = [link for link in job.links if isinstance(link, PublishesLinked) and link.of == universe.name]
    numbers = range(job.spine.n_levels)
    return [step for number in numbers for link in links for step in link.steps(job, number)]


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

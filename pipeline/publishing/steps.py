"""The steps from measurements to every public file except the manifest.

What is published of two universes that are linked: records of both, and what follows from their tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline.estimation.by_subtree import estimation_of
from pipeline.estimation.draws import Draws
from pipeline.estimation.margins import Margins
from pipeline.estimation.together import JointEstimation, OneOfThem
from pipeline.estimation.unbiased import Unbiased
from pipeline.execution.job import Job, perform_steps
from pipeline.execution.steps import Step
from pipeline.metadata.datapackage import data_package
from pipeline.metadata.facts import release_facts
from pipeline.metadata.products import DRAWS, ESTIMATES, MICRODATA, TABLES, files_of, resources
from pipeline.model.link import Link, released_in_order, tables_of
from pipeline.model.universe import Universe
from pipeline.publishing.answers import answer_steps, change_steps
from pipeline.publishing.promises import promises_of
from pipeline.publishing.tables import publish_microdata, publish_tables
from pipeline.storage.files import write_json


def linked_steps(job: Job, universe: Universe) -> list[Step]:
    """The steps that publish what follows from the tables of a universe and of those that are released before it."""
    links = [link for link in job.links if link.of == universe.name]
    numbers = range(job.spine.n_levels)
    return [step for number in numbers for link in links for step in link.steps(job, number)]


def linked_records(job: Job, universe: Universe) -> list[Link]:
    """The links by which a universe's records are written with others, in the order of these; none for most."""
    own = [link for link in job.links if link.of == universe.name and link.members]
    order = [one.name for one in job.universes]
    return sorted(own, key=lambda link: order.index(link.by))


def record_files(job: Job, universe: Universe) -> tuple[Path, ...]:
    """What is written with the records of a universe: those of others, which have none of their own, and tables."""
    if any(link.by == universe.name and link.members for link in job.links):
        return ()
    links = linked_records(job, universe)
    names = [universe.name, *(link.by for link in links)]
    microdata = [path for name in names for path in files_of(job, MICRODATA, universe=name)]
    tables = [table.file(job.run.public, level) for table in tables_of(links) for level in table.levels]
    return (*microdata, *tables)


def write_package(job: Job) -> None:
    """Write public/datapackage.json; sizes and hashes are in the manifest, which lists it, too."""
    spec, run = job.spec, job.run
    facts = release_facts(spec.name, spec.about, job.status, promises_of(job).joint)
    write_json(
        run.package, data_package(spec.name, spec.about, spec.report.language or "", facts, resources(job)), run.staging
    )


#: Effort of the simulated runs, which are of a sample: 26,000 geounits are visited several times, millions in part.
_SIMULATED = 110.0


class Publication:
    """The steps of one universe, from its measurements to its public files.

    The steps share intermediate results. These are freed at the end of the `with` block, so that they are not kept
    while the next universe is worked on.

    Args:
        job: the run.
        universe: whose steps they are.
        shared: the estimation of it and others together; None where it is estimated alone.
        between: steps that draw what depends on the released level above, each before its level is estimated; none
            where that is published already.
    """

    def __init__(
        self, job: Job, universe: Universe, shared: JointEstimation | None = None, between: Sequence[Step] = ()
    ) -> None:
        self.job = job
        self.universe = universe
        self._between = {step.level: step for step in between if step.universe == universe.name}
        self._own = _Alone(job, universe) if shared is None else _Together(job, universe, shared)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._own.__exit__(kind, error, traceback)

    def estimating(self) -> list[Step]:
        """Histograms of all levels: estimated, rounded, written; answers become measurements before."""
        steps = answer_steps(self.job, self.universe)
        for step in self._own.estimating():
            if step.stage == "estimate" and step.level in self._between:
                steps.append(self._between[step.level])
            steps.append(step)
        return steps

    @property
    def draws_between(self) -> bool:
        """Whether something is drawn while it is estimated."""
        return bool(self._between)

    def simulating(self) -> list[Step]:
        """Simulated runs for the margins of error; no steps if no margins are published."""
        if not self._of_tables or not self._own.margins.replicates:
            return []
        tables = tuple(file for step in self._of_tables for file in step.files)
        geounits = self.job.n_geounits
        effort = min(5.0, _SIMULATED * geounits**-0.35)
        simulate = self._own.margins.simulate
        return [Step("simulate", simulate, self.universe.name, geounits=geounits, effort=effort, prepares=tables)]

    def publishing(self) -> list[Step]:
        """Tables, unbiased estimates, draws and microdata, so far as the spec asks for them."""
        job, universe = self.job, self.universe
        steps = [*self._of_tables, *linked_steps(job, universe), *self._own.linear()]
        if files := record_files(job, universe):
            stage = "microdata" if job.spec.publish.microdata else linked_records(job, universe)[0].records_step
            leaves = job.spine.n_leaves
            steps.append(Step(stage, self._own.publish_records, universe.name, geounits=leaves, files=files))
        return steps

    @cached_property
    def _of_tables(self) -> list[Step]:
        """Of each level the step that writes its tables, and then those of what features publish beside them."""
        job, universe, steps = self.job, self.universe, []
        for number, level in enumerate(job.spine.levels):
            if files := files_of(job, TABLES, universe=universe.name, level=level.name):
                publish = partial(self._publish_tables, number)
                steps.append(Step("tables", publish, universe.name, level.name, len(level), 0.4, files=files))
                for part in job.spec.of_features:
                    steps += part.table_steps(job, universe, number, self._own.margins)
        return steps

    def _publish_tables(self, level: int) -> None:
        publish_tables(self.job, self.universe, level, self._own.released(level), self._own.margins)

    def steps(self) -> list[Step]:
        """All of them, in order."""
        return [*self.estimating(), *self.simulating(), *self.publishing()]


class _Alone:
    """What the steps of a universe do that is estimated from its own measurements."""

    def __init__(self, job: Job, universe: Universe) -> None:
        self.job = job
        self.universe = universe
        self._estimation = estimation_of(job, universe)
        self.margins = Margins(self._estimation)
        self._unbiased = Unbiased(self._estimation)
        self._draws = Draws(self._estimation)
        self.estimating = self._estimation.steps
        self.released = self._estimation.released

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.margins.close()
        if error is None:
            self._estimation.close()
        else:
            self._estimation.free()

    def linear(self) -> list[Step]:
        """Unbiased estimates and draws."""
        job, name, steps = self.job, self.universe.name, []
        if files := files_of(job, ESTIMATES, universe=name):
            geounits = job.n_geounits
            steps.append(Step("unbiased", self._unbiased.publish, name, geounits=geounits, effort=2.0, files=files))
        if files := files_of(job, DRAWS, universe=name):
            geounits = job.n_geounits * self._draws.count
            steps.append(Step("draws", self._draws.publish, name, geounits=geounits, effort=2.0, files=files))
        return steps

    def publish_records(self) -> None:
        """Microdata, and what is written of linked universes together with them."""
        leaves = self.released(self.job.spine.n_levels - 1)
        if links := linked_records(self.job, self.universe):
            links[0].write_records(self.job, links, leaves)
        else:
            publish_microdata(self.job, self.universe, leaves)


class _Together:
    """What the steps of a universe do that is estimated together with others; it has no linear estimates of its own."""

    def __init__(self, job: Job, universe: Universe, shared: JointEstimation) -> None:
        self.universe = universe
        self.margins = OneOfThem(job, shared, universe)
        self.estimating = self.margins.steps
        self.released = self.margins.released
        self.publish_records = self.margins.write_records

    def __exit__(self, *_: object) -> None:
        self.margins.joint.close(self.universe)

    def linear(self) -> list[Step]:
        """None."""
        return []


def publications(job: Job, between: Sequence[Step] = ()) -> tuple[Publication, ...]:
    """One for each universe, those first by which others are known; whole records of several universes come last.

    Args:
        job: the run.
        between: see `Publication`; of all universes.
    """
    together = job.universes[0].together
    if together is not None:
        shared = together.estimation(job)
        ordered = sorted(job.universes, key=lambda universe: bool(universe.record_attributes))
        return tuple(Publication(job, universe, shared) for universe in ordered)
    in_order = released_in_order(job.universes, job.links)
    return tuple(Publication(job, universe, between=between) for universe in in_order)


# -- what is made of all other files ----------------------------------------------------------------------------------


def begin_areas(job: Job) -> None:
    """Begin what follows from the areas alone, once the public inputs are written."""
    for one in job.spec.of_features:
        one.begin_areas(job)


def last_steps(job: Job) -> list[Step]:
    """The steps that describe the release, from what was written before: changes, the Data Package, the report."""
    return [
        *change_steps(job),
        Step("package", partial(_describe, job), files=(job.run.package,)),
        *(step for one in job.spec.of_features for step in one.last_steps(job)),
    ]


def _describe(job: Job) -> None:
    for one in job.spec.of_features:
        one.begin_tables(job)
    write_package(job)
    job.progress.advance(1)


def perform_public_steps(job: Job, between: Sequence[Step] = ()) -> None:
    """Make the files of all universes from their measurements, and nothing of what describes them.

    Args:
        job: the run.
        between: see `publications`.
    """
    for publication in publications(job, between):
        with publication:
            perform_steps(job, publication.steps())

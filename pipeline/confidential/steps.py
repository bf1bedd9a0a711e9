"""The steps of a run that see the confidential records: count, charge, measure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from pipeline.confidential.charge import charge_run, run_charges
from pipeline.confidential.fingerprints import bound_fingerprints, key_statement, release_salt
from pipeline.confidential.measure import select_versions
from pipeline.confidential.parts import Parts, RecordQuestion
from pipeline.confidential.refusals import shielded
from pipeline.confidential.sealed import Ingredients
from pipeline.execution.job import Job
from pipeline.execution.steps import Step
from pipeline.metadata.products import INVARIANTS, MEASUREMENTS, POSITIVE, REPORTS
from pipeline.model.selection import Selection
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.publishing.files import product_files
from pipeline.publishing.public_inputs import BOUNDS, public_input_files, write_public_inputs
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import KeyStatement
from pipeline.release.run_directory import record_input
from pipeline.storage.files import write_bytes

if TYPE_CHECKING:
    from pipeline.privacy.ledger.charges import Charge


#: The task, and the stage, of answers that are drawn only where the released parent is positive.
MEASURE_POSITIVE: Final = "measure positive"
#: What is measured at a level before any is estimated: noisy answers and invariants.
_MEASURED: Final = (MEASUREMENTS, INVARIANTS, REPORTS)


class MeasuringSteps(ABC):
    """The steps up to the noisy measurements, by name; what performs those that see the records is a subclass.

    Attributes:
        insecure: whether the key is a public test key.
    """

    insecure: bool

    def __init__(self, job: Job) -> None:
        self.job = job

    @abstractmethod
    def perform(self, task: str, universe: str = "", place: str = "") -> None:
        """Perform what a step does.

        Args:
            task: "tabulate", "check", "charge", "measure", "measure positive", "select" or "close charge".
            universe: the companion's name; "" for the release's own, or where the task is for all.
            place: name of the level, or of the selection.
        """

    @abstractmethod
    def statement(self) -> KeyStatement:
        """What is said in public of key and records, once all is measured."""

    @abstractmethod
    def record(self) -> None:
        """Bind the directory to the records that were counted; InputError if the run was started on others."""

    @abstractmethod
    def end(self) -> None:
        """Everything is measured: a process that did it for this one ends. The job has its receipts."""

    def counting(self) -> list[Step]:
        """Count and check the records; nothing is published by these steps, and nothing is spent."""
        job = self.job
        tabulated = [
            Step("tabulate", self._task("tabulate", universe), universe.name, geounits=job.n_geounits, effort=0.3)
            for universe in job.universes
        ]
        checked = [
            Step("check", self._task("check", universe), universe.name, geounits=job.spine.n_leaves, effort=0.1)
            for universe in job.universes
        ]
        return [*tabulated, *checked]

    def charging(self) -> list[Step]:
        """Reserve the budget before it is spent; repeating the same run is not charged."""
        return [Step("charge", partial(self.perform, "charge"))]

    def measuring(self) -> list[Step]:
        """Publish the measurements, and the public inputs beside them."""
        job = self.job
        steps = [Step("write inputs", partial(write_public_inputs, job), files=public_input_files(job))]
        for universe in job.universes:
            for level in job.spine.levels:
                if files := product_files(job, *_MEASURED, universe=universe.name, level=level.name):
                    measure = self._task("measure", universe, level.name)
                    steps.append(Step("measure", measure, universe.name, level.name, len(level), 1.5, files=files))
            for selection in universe.selections:
                stage, geounits = f"select {selection.name}", len(job.spine.level(selection.level))
                select = self._task("select", universe, selection.name)
                files = (job.folder(universe).selected(selection.name, selection.level),)
                steps.append(Step(stage, select, universe.name, selection.level, geounits, files=files))
        return steps

    def measuring_positive(self) -> list[Step]:
        """Publish what is drawn only where the released parent is positive: each step once the level above is there."""
        job, steps = self.job, []
        for universe in job.universes:
            for level in universe.strategy.where_positive:
                files = product_files(job, POSITIVE, universe=universe.name, level=level)
                measure, geounits = self._task(MEASURE_POSITIVE, universe, level), len(job.spine.level(level))
                steps.append(Step(MEASURE_POSITIVE, measure, universe.name, level, geounits, files=files))
        return steps

    def closing_charge(self) -> list[Step]:
        """Record in the ledger that everything that was charged for is drawn."""
        return [Step("close charge", partial(self.perform, "close charge"))]

    def _task(self, task: str, universe: Universe, place: str = "") -> partial[None]:
        return partial(self.perform, task, universe.name, place)


class ConfidentialSteps(MeasuringSteps):
    """The steps performed in this process. What they learn is kept here, never returned to an engine.

    Attributes:
        parts: what sees the records of a universe, by its source.
        fingerprints: universe -> of its own table, keyed; present once it is counted.
        warnings: what is odd about the records; confidential.
    """

    def __init__(self, job: Job, key: MasterKey, parts: Parts) -> None:
        super().__init__(job)
        self.key, self.insecure = key, key.insecure
        self.parts = parts
        self.fingerprints: dict[str, str] = {}
        self.warnings: list[str] = []
        self._charges: list[Charge] | None = None

    def perform(self, task: str, universe: str = "", place: str = "") -> None:
        """See `MeasuringSteps.perform`."""
        if task in ("charge", "close charge"):
            if self._charges is None:  # what they say of exact numbers takes a while on a large spine
                self._charges = run_charges(self.job, self.key, self.fingerprints)
            self.job.receipts[:] = charge_run(self.job, self._charges, drawn=task == "close charge")
            return
        of = next(each for each in self.job.universes if each.name == universe)
        part, run = self.parts[type(of.source)], self.job.run
        if task == "tabulate":
            tabulate = partial(part.tabulate, self.job, self.key, of)
            self.fingerprints[of.name], remarks = shielded(run, task, tabulate)
            self.warnings += remarks
        elif task == "check":
            check = partial(part.check, self.job, of, self.job.inputs.of(BOUNDS))
            self.warnings += shielded(run, task, check)
            self.job.progress.advance(self.job.spine.n_leaves)
        else:
            draw, what = self._drawing(task, of, place)
            fingerprint = self.bound_fingerprints()[of.name]
            shielded(run, task, partial(draw, self.job, self.key, fingerprint, of, what))

    def _drawing(self, task: str, of: Universe, place: str) -> tuple[Callable[..., None], str | Selection]:
        """What draws the answers of a task, and of which level, or of which choice."""
        part = self.parts[type(of.source)]
        if task == "measure":
            return part.measure, place
        if task == MEASURE_POSITIVE:
            return part.measure_positive, place
        if task == "select":
            return select_versions, next(each for each in of.selections if each.name == place)
        raise ValueError(f"{task!r} is not a task")

    def statement(self) -> KeyStatement:
        """See `MeasuringSteps.statement`."""
        return key_statement(self.key, release_salt(self.key, self.job.spec), self.bound_fingerprints())

    def end(self) -> None:
        """See `MeasuringSteps.end`: there is no such process."""

    def bound_fingerprints(self) -> dict[str, str]:
        """Universe -> what its noise is bound to, once all are counted."""
        return bound_fingerprints(self.key, self.job.universes, self.fingerprints)

    def record(self) -> None:
        """Bind the directory to these records; InputError if the run was started on others."""
        record_input(self.job.run, self.fingerprints)
        self.job.run.warnings.unlink(missing_ok=True)
        if self.warnings:
            text = "".join(f"{line}\n" for line in self.warnings)
            write_bytes(self.job.run.warnings, text.encode(), self.job.run.staging, private=True)


class Measured(Protocol):
    """Whoever holds records, key and ledger for a run."""

    def identity(self) -> str:
        """See `Keyholder.identity`."""

    def steps(self, job: Job) -> MeasuringSteps:
        """The steps of the run that see the records."""

    def seal(self, run: RunDirectory, ingredients: Ingredients) -> str:
        """See `sealed.seal_of`, with the key of the run."""

    def is_counted(self, run: RunDirectory) -> bool:
        """See `sealed.is_counted`."""

    def question(self, work: RecordQuestion) -> Mapping[str, object]:
        """See `parts.Answering`."""

    def begin_comparing(self) -> None:
        """Start what `compare` needs, without waiting for it."""

    def compare(self, job: Job) -> None:
        """See `accuracy.write_accuracy`."""

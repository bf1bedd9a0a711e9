"""A whole run, from the request to the manifest; what performs its steps is a parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from geography.spine import Spine
from pipeline.confidential.accuracy import write_accuracy
from pipeline.confidential.custody import Keyholder, KeySource
from pipeline.confidential.parts import Question, answering, installed_parts
from pipeline.confidential.sealed import Ingredients, is_counted, seal_of
from pipeline.confidential.steps import ConfidentialSteps, Measured, MeasuringSteps
from pipeline.cost.memory import Fitting, check_memory, fitting
from pipeline.errors import InputError
from pipeline.execution.batch_store import Batches
from pipeline.execution.job import Job
from pipeline.execution.memory import memory_for_a_run
from pipeline.execution.perform import Checkpoints, perform_steps
from pipeline.execution.progress import Progress, Together, listener_of
from pipeline.execution.run_log import RunLog
from pipeline.execution.settings import load_settings
from pipeline.execution.steps import Notes, Perform, Step, perform_here
from pipeline.execution.workers import Workers
from pipeline.model.universe import Universe
from pipeline.publishing.files import input_files, output_files
from pipeline.publishing.manifest import manifest_of
from pipeline.publishing.promises import prepare_statements
from pipeline.publishing.provenance import status_of
from pipeline.publishing.steps import Publication, begin_areas, last_steps, last_that_draws, publications
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import write_manifest
from pipeline.release.run_directory import open_run
from pipeline.runs.decided import decided
from pipeline.runs.finished import ingredients_of, note_finished
from pipeline.runs.kept_inputs import inputs_to_keep
from pipeline.runs.open_public import open_listed
from pipeline.runs.request import CheckedRequest
from pipeline.signatures.statement import drop_stale_signature
from pipeline.storage.files import write_json

#: Modules that worker processes need and that are slow to import.
_USED_BY_WORKERS = ("postprocess.downward.level", "postprocess.downward.simulation")
#: Leaf cells from which on a run is sure to have work for all its processes.
_LARGE = 200_000


class MeasuredHere:
    """This process holds them: for records that are in its memory already, and for audits of made-up records."""

    def __init__(self, holder: Keyholder) -> None:
        self._holder = holder

    def identity(self) -> str:
        """See `Keyholder.identity`."""
        return self._holder.identity()

    def seal(self, run: RunDirectory, ingredients: Ingredients) -> str:
        """See `Measured.seal`."""
        return seal_of(ingredients, self._holder.present(run), self._holder.identity())

    def is_counted(self, run: RunDirectory) -> bool:
        """See `sealed.is_counted`."""
        return is_counted(run)

    def steps(self, job: Job) -> MeasuringSteps:
        """See `Measured.steps`."""
        return ConfidentialSteps(job, self._holder.key(job.run), installed_parts())

    def question(self, work: Question) -> Mapping[str, object]:
        """See `Measured.question`."""
        return answering(work)(work, self._holder, KeySource())

    def begin_comparing(self) -> None:
        """See `Measured.begin_comparing`: there is no other process."""

    def compare(self, job: Job) -> None:
        """See `accuracy.write_accuracy`."""
        write_accuracy(job)


class ReleaseRun:
    """A run in progress: its stages, each a method, to be performed in the order in which they appear here.

    Steps that an interrupted run has completed are skipped.

    Args:
        job: the run.
        measured: where the records are seen.
        measuring: the steps that see them.
        perform: performs one step.
        ingredients: what the run is made from; None where it cannot be recognised by them.

    Attributes:
        publications: the stages of each universe after its measurements.
    """

    def __init__(
        self,
        job: Job,
        measured: Measured,
        measuring: MeasuringSteps,
        perform: Perform,
        ingredients: Ingredients | None = None,
    ) -> None:
        self.job = job
        self.publications = publications(job, measuring.measuring_positive())
        self._last_that_draws = last_that_draws(self.publications)
        self._perform = perform
        self._measured, self._measuring = measured, measuring
        self._ingredients, self._sealed = ingredients, ""
        self._accuracy = Step("accuracy", partial(measured.compare, job), geounits=job.n_geounits, effort=0.2)
        self._checkpoints: Checkpoints | None = None
        self._notes: dict[str, Notes] = {}
        job.progress.begin(tuple(self._steps()))

    def _steps(self) -> Iterator[Step]:
        measuring = self._measuring
        yield from (*measuring.counting(), *measuring.charging())
        yield from measuring.measuring()
        if self._last_that_draws is None:
            yield from measuring.closing_charge()
        for publication in self.publications:
            yield from publication.estimating()
            if publication is self._last_that_draws:
                yield from measuring.closing_charge()
            yield from (*publication.simulating(), *publication.publishing())
        yield from (*last_steps(self.job), *self._comparing())

    def count(self) -> None:
        """Count and check the records, and bind the directory to them."""
        sealed = self._seal()
        self._perform_steps(self._measuring.counting())
        if sealed == self._seal():  # otherwise a file has changed while it was counted
            self._sealed = sealed
        self._measuring.record()
        write_json(self.job.run.input, inputs_to_keep(self.job.universes), self.job.run.staging, private=True)

    def charge(self) -> None:
        """Charge the budget to the ledger, before anything is drawn."""
        self._perform_steps(self._measuring.charging())

    def measure(self) -> None:
        """Draw the noise and publish the measurements.

        From here on no step needs the records but `accuracy`; or, where a spec has answers drawn only where the
        released parent is positive, from where the last of these are drawn.
        """
        # From here on the directory changes; without a manifest it cannot be taken for a complete release.
        self.job.run.manifest.unlink(missing_ok=True)
        self.job.run.finished.unlink(missing_ok=True)
        self._checkpoints = Checkpoints(self.job.run)
        self._perform_steps(self._measuring.measuring())
        if self._last_that_draws is None:
            self._end_measuring()
        self.job.inputs.forget()
        if self._comparing() and not _is_large(self.job.spine, self.job.universes):
            self._measured.begin_comparing()
        begin_areas(self.job)

    def _end_measuring(self) -> None:
        """All is drawn: close the charge, and end the process that has key and records."""
        self._perform_steps(self._measuring.closing_charge())
        self._measuring.end()

    def estimate(self, publication: Publication) -> None:
        """Estimate and round the histograms of one universe."""
        self._perform_steps(publication.estimating())
        if publication is self._last_that_draws:
            self._end_measuring()

    def simulate(self, publication: Publication) -> None:
        """Simulate runs for the margins of error of one universe."""
        self._perform_steps(publication.simulating())

    def publish(self, publication: Publication) -> None:
        """Write the tables, estimates and microdata of one universe."""
        self._perform_steps(publication.publishing())

    def report(self) -> None:
        """Write what describes the release, from all public files before it: the Data Package, the report."""
        self._perform_steps(last_steps(self.job))

    def compare(self) -> None:
        """Compare the release with the truth, for the agency alone."""
        self._perform_steps(self._comparing())

    def _comparing(self) -> list[Step]:
        """The comparison with true counts; none where nobody has these."""
        return [self._accuracy] if all(universe.source.has_truth for universe in self.job.universes) else []

    def finish(self) -> None:
        """Write the manifest: the release is complete."""
        write_manifest(self.job.run, manifest_of(self.job, self._notes, self._measuring.statement()))
        drop_stale_signature(self.job.run)
        Batches(self.job.run).forget()
        note_finished(self.job.run, self._sealed)

    def _seal(self) -> str:
        return "" if self._ingredients is None else self._measured.seal(self.job.run, self._ingredients)

    def _perform_steps(self, steps: Sequence[Step]) -> None:
        self._notes |= perform_steps(self.job, steps, self._perform, self._checkpoints)


def run_release(
    checked: CheckedRequest, progress: Progress, perform: Perform = perform_here, measured: Measured | None = None
) -> Path:
    """Run a release, or resume one that was interrupted; returns the directory of the release.

    Args:
        checked: what to run.
        progress: receives how far the run is.
        perform: performs one step.
        measured: where the records are seen; by default in this process.

    Raises:
        SpinewiseError: something is wrong; nothing is left that looks like a complete release.
    """
    with release_run(checked, progress, perform, measured or MeasuredHere(checked.keyholder())) as run:
        run.count()
        run.charge()
        run.measure()
        for publication in run.publications:
            with publication:
                run.estimate(publication)
                run.simulate(publication)
                run.publish(publication)
        run.report()
        run.compare()
        run.finish()
    return checked.run.root


@contextmanager
def release_run(
    checked: CheckedRequest, progress: Progress, perform: Perform, measured: Measured
) -> Iterator[ReleaseRun]:
    """A run in its directory, with its public inputs read and its workers ready; nothing is performed yet.

    What the spec leaves to be decided from the records is decided, and charged.

    Raises:
        BudgetRefusedError: that cannot be charged.
        InputError: a public input is wrong, or the directory holds something else.
    """
    public = open_listed(checked.spec, checked.universes)
    fit = _way(checked, public.spine)
    identity = public.identity() | {"the key": measured.identity()}
    with (
        threadpool_limits(1),
        open_run(checked.run.root, identity) as run,
        RunLog.open(run) as log,
        _workers(checked, fit.memory.workers, progress) as workers,
    ):
        if _is_large(public.spine, public.universes):
            workers.prepare(*_USED_BY_WORKERS)
        run.refusal.unlink(missing_ok=True)
        ingredients = ingredients_of(checked)
        checked, public = decided(checked, measured, run, public)
        public.keep_remarks(run)
        log.write(f"memory: {fit.summary}")
        workers.kept = Batches(run)
        job = public.job(run, workers, Together(log, progress), workers.kept)
        job = replace(job, most_cells=fit.most_cells, part_cells=fit.part_cells)
        _refuse_other_files(job)
        prepare_statements(job)
        measuring = measured.steps(job)
        charged = any(universe.dataset for universe in public.universes)
        stated = status_of(public.spec, insecure_key=measuring.insecure, charged=charged)
        yield ReleaseRun(replace(job, status=stated), measured, measuring, perform, ingredients)


def _is_large(spine: Spine, universes: Sequence[Universe]) -> bool:
    return spine.n_leaves * max(universe.schema.n_cells for universe in universes) > _LARGE


def _way(checked: CheckedRequest, spine: Spine) -> Fitting:
    """How the run is done in the available memory; InputError if it would not fit."""
    fit = fitting(checked.spec, spine, checked.request.workers, memory_for_a_run(load_settings()))
    if checked.request.engine.scheduler is None:
        check_memory(checked.spec, fit)
        return fit
    # The parts are worked on elsewhere, and are cut small for that purpose.
    return replace(fit, memory=fit.requested)


def _workers(checked: CheckedRequest, count: int, progress: Progress) -> Workers:
    """The processes, or the cluster, that the request names."""
    request, engine = checked.request, checked.request.engine
    if engine.scheduler is None:
        return Workers(count, told=listener_of(progress))
    from pipeline.execution.cluster import ClusterWorkers

    scratch = str(checked.run.staging.resolve()) if engine.scratch is None else engine.scratch
    return ClusterWorkers(request.workers, engine.scheduler, scratch)


def _refuse_other_files(job: Job) -> None:
    """Raises InputError where public/ holds a file that this run would not write."""
    expected = {*job.run.unlisted, *input_files(job), *output_files(job)}
    unexpected = [path for path in job.run.public.rglob("*") if not path.is_dir() and path not in expected]
    if unexpected:
        names = ", ".join(str(path.relative_to(job.run.root)) for path in sorted(unexpected)[:3])
        raise InputError(
            f"{job.run.root}: {len(unexpected)} files under public/ do not belong to this run: {names}; remove them, "
            "or name another directory"
        )

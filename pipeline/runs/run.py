"""A run of records, from the request to the manifest; `pipeline.run` has its stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from geography.spine import Spine
from pipeline.confidential.fingerprints import Ingredients
from pipeline.confidential.process import RecordHolder
from pipeline.confidential.steps import MEASURE_POSITIVE
from pipeline.cost.memory import Fitting, check_memory, fitting
from pipeline.errors import InputError
from pipeline.execution.batches import Batches
from pipeline.execution.job import Job, RunLog
from pipeline.execution.settings import load_settings, memory_for_a_run
from pipeline.execution.steps import Listeners, Perform, Progress, Step, listener_of, perform_here
from pipeline.execution.workers import Workers
from pipeline.metadata.products import INVARIANTS, MEASUREMENTS, POSITIVE, REPORTS, files_of
from pipeline.model.universe import Universe
from pipeline.publishing.files import input_files, output_files
from pipeline.publishing.promises import prepare_statements
from pipeline.publishing.provenance import status_of
from pipeline.publishing.public_inputs import public_input_files, write_public_inputs
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import KeyStatement
from pipeline.release.receipts import Receipt
from pipeline.release.run_directory import open_run, record_decided
from pipeline.run import DrawSource, ReleaseRun
from pipeline.runs.finished import ingredients_of, inputs_to_keep, note_finished
from pipeline.runs.open_public import PublicSide, open_listed
from pipeline.runs.request import CheckedRequest, universe_checks
from pipeline.storage.files import write_json

#: Modules that worker processes need and that are slow to import.
_USED_BY_WORKERS = ("postprocess.downward.level", "postprocess.downward.simulation")
#: Leaf cells from which on a run is sure to have work for all its processes.
_LARGE = 200_000
#: What is measured at a level before any is estimated: noisy answers and invariants.
_MEASURED = (MEASUREMENTS, INVARIANTS, REPORTS)


def decided(
    checked: CheckedRequest, measured: RecordHolder, run: RunDirectory, public: PublicSide
) -> tuple[CheckedRequest, PublicSide]:
    """The request with what its spec leaves open, and its public side; the same where that is nothing.

    Args:
        checked: what to run.
        measured: where the records are seen.
        run: its directory, held.
        public: of the spec as it is.

    Raises:
        BudgetRefusedError: the dataset has not enough left; nothing was drawn.
        InputError: the records, the key or the ledger are others than before.
    """
    for part in checked.spec.of_features:
        question = part.undecided(checked.spec, checked.universes, public.spine, run)
        if question is None:
            continue
        spec = part.decided(checked.spec, measured.question(question))
        files = {universe.name: universe.require_input().file for universe in checked.universes}
        universes = tuple(
            replace(one, input=replace(one.require_input(), file=files.get(one.name, files[""])))
            for one in spec.universes()
        )
        for universe in universes:
            for check in universe_checks(spec, universe):
                check()
        checked, public = replace(checked, spec=spec, universes=universes), open_listed(spec, universes)
        record_decided(run, public.identity())
    return checked, public


class Measuring(DrawSource):
    """Records, key and ledger, wherever they are; what was charged before is drawn again, as in a rerun.

    Args:
        job: the run.
        holder: has them, has begun the run, and performs the steps that see them.
    """

    def __init__(self, job: Job, holder: RecordHolder) -> None:
        super().__init__()
        self.job, self.holder = job, holder

    def counting(self) -> Sequence[Step]:
        """Count and check the records."""
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

    def counted(self) -> None:
        """Bind the directory to the records."""
        self.holder.record()

    def drawing(self) -> Sequence[Step]:
        """Publish the measurements, and the public inputs beside them."""
        job = self.job
        steps = [Step("write inputs", partial(write_public_inputs, job), files=public_input_files(job))]
        for universe in job.universes:
            for level in job.spine.levels:
                if files := files_of(job, *_MEASURED, universe=universe.name, level=level.name):
                    measure = self._task("measure", universe, level.name)
                    steps.append(Step("measure", measure, universe.name, level.name, len(level), 1.5, files=files))
            for selection in universe.selections:
                stage, geounits = f"select {selection.name}", len(job.spine.level(selection.level))
                select = self._task("select", universe, selection.name)
                files = (job.folder(universe).selected(selection.name, selection.level),)
                steps.append(Step(stage, select, universe.name, selection.level, geounits, files=files))
        return steps

    def drawing_between(self) -> Sequence[Step]:
        """Publish what is drawn only where the released parent is positive: each step once the level above is there."""
        job, steps = self.job, []
        for universe in job.universes:
            for level in universe.strategy.where_positive:
                files = files_of(job, POSITIVE, universe=universe.name, level=level)
                measure, geounits = self._task(MEASURE_POSITIVE, universe, level), len(job.spine.level(level))
                steps.append(Step(MEASURE_POSITIVE, measure, universe.name, level, geounits, files=files))
        return steps

    def end(self) -> None:
        """The process that has key and records ends; the job has its receipts."""
        public = self.holder.end()
        self.job.receipts[:] = map(Receipt.model_validate_json, public["receipts"])
        self._said = KeyStatement(**public["statement"])

    def _task(self, task: str, universe: Universe, place: str = "") -> partial[None]:
        return partial(self.holder.perform, task, universe.name, place)


class Records(Measuring):
    """Those of a run, which is charged, and compared with the truth.

    Args:
        job: the run.
        holder: has records, key and ledger.
        ingredients: what the run is made from; None where it cannot be recognised by them.
    """

    def __init__(self, job: Job, holder: RecordHolder, ingredients: Ingredients | None) -> None:
        super().__init__(job, holder)
        self._ingredients = ingredients
        self._compare = Step("accuracy", partial(holder.compare, job), geounits=job.n_geounits, effort=0.2)
        self.sealed = self._seal()

    def _seal(self) -> str:
        return "" if self._ingredients is None else self.holder.seal(self.job.run, self._ingredients)

    def counted(self) -> None:
        """Bind the directory to the records, and note from what they were read."""
        if self.sealed != self._seal():  # a file has changed while it was counted
            self.sealed = ""
        super().counted()
        run = self.job.run
        write_json(run.input, inputs_to_keep(self.job.universes), run.staging, private=True)

    def charging(self) -> Sequence[Step]:
        """Reserve the budget."""
        return [Step("charge", partial(self.holder.perform, "charge"))]

    def closing(self) -> Sequence[Step]:
        """Close the charge."""
        return [Step("close charge", partial(self.holder.perform, "close charge"))]

    def end(self) -> None:
        """The process ends; that which compares begins, where there is time for it."""
        super().end()
        if self.comparing() and not _is_large(self.job.spine, self.job.universes):
            self.holder.begin_comparing()

    def comparing(self) -> Sequence[Step]:
        """The comparison with true counts; none where nobody has these."""
        return [self._compare] if all(universe.source.has_truth for universe in self.job.universes) else []

    def finished(self) -> None:
        """Note from what the release is, so that the same request finds it."""
        note_finished(self.job.run, self.sealed)


def holder_here(checked: CheckedRequest) -> RecordHolder:
    """This process: for records that are in its memory already, and for audits of made-up records."""
    return RecordHolder(checked.request.key, checked.spec.privacy.key)


def run_release(
    checked: CheckedRequest, progress: Progress, perform: Perform = perform_here, measured: RecordHolder | None = None
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
    with release_run(checked, progress, perform, measured or holder_here(checked)) as run:
        run.perform()
        run.finish()
    return checked.run.root


@contextmanager
def release_run(
    checked: CheckedRequest, progress: Progress, perform: Perform, measured: RecordHolder
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
        job = public.job(run, workers, Listeners(log, progress), workers.kept)
        job = replace(job, most_cells=fit.most_cells, part_cells=fit.part_cells)
        _refuse_other_files(job)
        prepare_statements(job)
        charged = any(universe.dataset for universe in public.universes)
        job = replace(job, status=status_of(public.spec, insecure_key=measured.begin(job), charged=charged))
        yield ReleaseRun(job, Records(job, measured, ingredients), perform, resumed=True)


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

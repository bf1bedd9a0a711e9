"""What a release is: the steps from confidential records to published files, in order; no engine is named here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from flows.confidential.charge import charge_run
from flows.confidential.measure import check_universe, measure_level, tabulate_universe, write_public_inputs
from flows.confidential.refusals import shielded
from flows.confidential.select import select_versions
from flows.estimation.by_subtree import estimation_of
from flows.estimation.margins import Margins
from flows.estimation.unbiased import Unbiased
from flows.execution.checkpoints import Checkpoints
from flows.execution.job import Job
from flows.execution.steps import Notes, Perform, Step, perform_here
from flows.publishing.report import polygon_files, write_report
from flows.publishing.tables import publish_microdata, publish_tables
from pipeline.model.selection import Selection
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.release.run_directory import record_input
from pipeline.report.polygons import Area
from pipeline.storage.files import write_bytes

#: Number of facilities in each geounit, for each bound of a universe.
Facilities = Mapping[str, Sequence[NDArray[np.int64]]]


class Records:
    """The steps that see the confidential records. What they learn is kept here, never returned to an engine."""

    def __init__(
        self, job: Job, key: MasterKey, facilities: Facilities, polygons: Mapping[str, Sequence[Area]] | None = None
    ) -> None:
        self.job = job
        self.key = key
        self.facilities = facilities
        self.polygons = dict(polygons or {})
        self.fingerprints: dict[str, str] = {}
        self.warnings: list[str] = []

    def before_measuring(self) -> list[Step]:
        """Count and check the records; nothing is published by these steps, and nothing is spent."""
        leaves = self.job.spine.n_leaves
        steps = [
            Step("tabulate", partial(self._tabulate, one), one.name, geounits=_all_geounits(self.job), effort=1.0)
            for one in self.job.universes
        ]
        steps += [
            Step("check", partial(self._check, one), one.name, geounits=leaves, effort=0.2)
            for one in self.job.universes
        ]
        return steps

    def charging(self) -> list[Step]:
        """Take the budget before it is spent; the same run again is not charged."""
        return [Step("charge", self._charge)]

    def measuring(self) -> list[Step]:
        """Publish the measurements, and the public inputs beside them."""
        job = self.job
        constraints = [job.folder(one).constraint(number) for one in job.universes for number in range(len(one.bounds))]
        steps = [Step("write inputs", self._write_inputs, files=(job.run.spine, *polygon_files(job), *constraints))]
        for one in job.universes:
            for level in job.spine.levels:
                if files := measured_files(job, one, level.name):
                    measure = partial(self._measure, one, level.name)
                    steps.append(Step("measure", measure, one.name, level.name, len(level), files=files))
            for selection in one.selections:
                select, geounits = partial(self._select, one, selection), self._geounits_of(selection.level)
                path = job.folder(one).selected(selection.name, selection.level)
                stage = f"select {selection.name}"
                steps.append(Step(stage, select, one.name, selection.level, geounits, files=(path,)))
        return steps

    def charged(self) -> list[Step]:
        """Tell the ledger that all that was charged for is drawn."""
        return [Step("close charge", self._close_charge)]

    def _tabulate(self, universe: Universe) -> None:
        self.fingerprints[universe.name] = shielded(
            self.job.run, "tabulate", partial(tabulate_universe, self.job, self.key, universe)
        )

    def _check(self, universe: Universe) -> None:
        check = partial(check_universe, self.job, universe, self.facilities[universe.name])
        self.warnings += shielded(self.job.run, "check", check)
        self.job.progress.advance(self.job.spine.n_leaves)

    def record(self) -> None:
        """Bind the directory to these records; InputError where it was begun on others."""
        record_input(self.job.run, self.fingerprints)
        self.job.run.warnings.unlink(missing_ok=True)
        if self.warnings:
            text = "".join(f"{line}\n" for line in self.warnings)
            write_bytes(self.job.run.warnings, text.encode(), self.job.run.staging, private=True)

    def _charge(self) -> None:
        charge_run(self.job, self.key, self.fingerprints)

    def _close_charge(self) -> None:
        charge_run(self.job, self.key, self.fingerprints, drawn=True)

    def _write_inputs(self) -> None:
        write_public_inputs(self.job, self.facilities, self.polygons)

    def _measure(self, universe: Universe, level: str) -> None:
        fingerprint = self.fingerprints[universe.name]
        measure = partial(measure_level, self.job, self.key, fingerprint, universe, level)
        shielded(self.job.run, "measure", measure)

    def _select(self, universe: Universe, selection: Selection) -> None:
        fingerprint = self.fingerprints[universe.name]
        select = partial(select_versions, self.job, self.key, fingerprint, universe, selection)
        shielded(self.job.run, "select", select)

    def _geounits_of(self, level: str) -> int:
        return len(self.job.spine.level(level))


def measured_files(job: Job, universe: Universe, level: str) -> tuple[Path, ...]:
    """The files of one level that measuring writes: measurements and invariants."""
    folder = job.folder(universe)
    exact = [folder.invariant(level, query.name) for name, query in universe.invariants if name == level]
    noisy = [folder.measurement(level, one.query.name) for one in universe.strategy.level(level).queries]
    return (*noisy, *exact)


def input_files(job: Job) -> tuple[Path, ...]:
    """Everything under public/ that the rest of it is computed from."""
    constraints = [job.folder(one).constraint(number) for one in job.universes for number in range(len(one.bounds))]
    measured = [
        path for one in job.universes for level in job.spine.level_names for path in measured_files(job, one, level)
    ]
    return (job.run.spine, *polygon_files(job), *constraints, *measured, *selected_files(job))


def selected_files(job: Job) -> tuple[Path, ...]:
    """The files of private choices and of what was chosen; nothing else is computed from them."""
    return tuple(job.folder(one).selected(made.name, made.level) for one in job.universes for made in one.selections)


def output_files(job: Job) -> tuple[Path, ...]:
    """Everything under public/ that is computed from the inputs, without the manifest."""
    return tuple(path for step in public_steps(job) for path in step.files)


def public_steps(job: Job) -> list[Step]:
    """The steps from the measurements to everything else under public/ but the manifest."""
    steps = [step for universe in job.universes for step in _universe_steps(job, universe)]
    return [*steps, Step("report", partial(write_report, job), effort=500.0, files=(job.run.report,))]


def _universe_steps(job: Job, universe: Universe) -> list[Step]:
    estimation = estimation_of(job, universe)
    margins = Margins(estimation)
    folder, name = job.folder(universe), universe.name
    steps = estimation.steps()
    tables = tuple(folder.table(table.name, level) for table in universe.tables for level in table.levels)
    if tables and margins.replicates:
        geounits = _all_geounits(job) * margins.replicates
        steps.append(Step("simulate", margins.simulate, name, geounits=geounits, effort=5.0, prepares=tables))
    for number, level in enumerate(job.spine.levels):
        files = tuple(folder.table(table.name, level.name) for table in universe.tables if level.name in table.levels)
        if files:
            publish = partial(publish_tables, estimation, number, margins)
            steps.append(Step("tables", publish, name, level.name, len(level), files=files))
    unbiased = Unbiased(estimation)
    if job.spec.publish.unbiased and unbiased.files():
        steps.append(
            Step("unbiased", unbiased.publish, name, geounits=_all_geounits(job), effort=2.0, files=unbiased.files())
        )
    if job.spec.publish.microdata:
        write = partial(publish_microdata, estimation)
        steps.append(Step("microdata", write, name, geounits=job.spine.n_leaves, files=(folder.microdata,)))
    # What was computed on the way is not kept while the next universe is worked on.
    steps[-1] = replace(steps[-1], perform=partial(_last_of, steps[-1].perform, (margins, unbiased, estimation)))
    return steps


class _Closable(Protocol):
    def close(self) -> None: ...


def _last_of(perform: Callable[[], Notes | None], computed: Sequence[_Closable]) -> Notes | None:
    notes = perform()
    for one in computed:
        one.close()
    return notes


def perform_steps(
    job: Job, steps: Sequence[Step], perform: Perform = perform_here, checkpoints: Checkpoints | None = None
) -> dict[str, Notes]:
    """Perform the steps in order, but for those whose files an interrupted run has left whole.

    Returns:
        What the steps told, by name.
    """
    told: dict[str, Notes] = {}
    for step in steps:
        job.progress.start(step)
        before = checkpoints.notes_of(step) if checkpoints is not None else None
        if before is None:
            notes = perform(step) or {}
            if checkpoints is not None:
                checkpoints.record(step, notes)
        else:
            notes = before
        job.progress.finish(step, skipped=before is not None)
        if notes:
            new = cast("dict[str, Notes]", notes) if step.several else {step.name: notes}
            told |= new
            job.told.update(new)
    return told


def publish_from_measurements(
    job: Job, perform: Perform = perform_here, checkpoints: Checkpoints | None = None
) -> dict[str, Notes]:
    """Compute everything under public/ but its inputs and the manifest, from its inputs alone.

    Both a run and `verify` call it. Returns what the solvers tell, by step.
    """
    return perform_steps(job, public_steps(job), perform, checkpoints)


def _all_geounits(job: Job) -> int:
    return sum(len(level) for level in job.spine.levels)

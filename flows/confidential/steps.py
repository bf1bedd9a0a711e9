"""The steps of a run that see the confidential records: count, charge, measure."""

from __future__ import annotations

from functools import partial

from flows.confidential.charge import charge_run
from flows.confidential.measure import check_universe, measure_level, tabulate_universe
from flows.confidential.refusals import shielded
from flows.confidential.select import select_versions
from flows.execution.job import Job
from flows.execution.steps import Step
from flows.publishing.files import answer_paths, public_input_files, selected_path
from flows.publishing.inputs import Facilities, Polygons, write_public_inputs
from pipeline.model.selection import Selection
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.release.run_directory import record_input
from pipeline.storage.files import write_bytes


class ConfidentialSteps:
    """The steps that see the confidential records. What they learn is kept here, never returned to an engine.

    Attributes:
        fingerprints: of each universe's records, keyed; present once they are counted.
        warnings: what is odd about the records; confidential.
    """

    def __init__(self, job: Job, key: MasterKey, facilities: Facilities, polygons: Polygons | None = None) -> None:
        self.job = job
        self.key = key
        self.facilities = facilities
        self.polygons = dict(polygons or {})
        self.fingerprints: dict[str, str] = {}
        self.warnings: list[str] = []

    def counting(self) -> list[Step]:
        """Count and check the records; nothing is published by these steps, and nothing is spent."""
        job = self.job
        tabulated = [
            Step("tabulate", partial(self._tabulate, universe), universe.name, geounits=job.n_geounits, effort=1.0)
            for universe in job.universes
        ]
        checked = [
            Step("check", partial(self._check, universe), universe.name, geounits=job.spine.n_leaves, effort=0.2)
            for universe in job.universes
        ]
        return [*tabulated, *checked]

    def charging(self) -> list[Step]:
        """Reserve the budget before it is spent; repeating the same run is not charged."""
        return [Step("charge", self._charge)]

    def measuring(self) -> list[Step]:
        """Publish the measurements, and the public inputs beside them."""
        job = self.job
        steps = [Step("write inputs", self._write_inputs, files=public_input_files(job))]
        for universe in job.universes:
            for level in job.spine.levels:
                if files := answer_paths(job, universe, level.name):
                    measure = partial(self._measure, universe, level.name)
                    steps.append(Step("measure", measure, universe.name, level.name, len(level), files=files))
            steps += [self._selecting(universe, selection) for selection in universe.selections]
        return steps

    def closing_charge(self) -> list[Step]:
        """Record in the ledger that everything that was charged for is drawn."""
        return [Step("close charge", self._close_charge)]

    def _selecting(self, universe: Universe, selection: Selection) -> Step:
        spine, stage = self.job.spine, f"select {selection.name}"
        geounits = len(spine.level(selection.level))
        select = partial(self._select, universe, selection)
        files = (selected_path(self.job, universe, selection),)
        return Step(stage, select, universe.name, selection.level, geounits, files=files)

    def _tabulate(self, universe: Universe) -> None:
        self.fingerprints[universe.name] = shielded(
            self.job.run, "tabulate", partial(tabulate_universe, self.job, self.key, universe)
        )

    def _check(self, universe: Universe) -> None:
        check = partial(check_universe, self.job, universe, self.facilities[universe.name])
        self.warnings += shielded(self.job.run, "check", check)
        self.job.progress.advance(self.job.spine.n_leaves)

    def record(self) -> None:
        """Bind the directory to these records; InputError if the run was started on others."""
        record_input(self.job.run, self.fingerprints)
        self.job.run.warnings.unlink(missing_ok=True)
        if self.warnings:
            text = "".join(f"{line}\n" for line in self.warnings)
            write_bytes(self.job.run.warnings, text.encode(), self.job.run.staging, private=True)

    def _charge(self) -> None:
        self.job.receipts[:] = charge_run(self.job, self.key, self.fingerprints, self.facilities)

    def _close_charge(self) -> None:
        charge_run(self.job, self.key, self.fingerprints, self.facilities, drawn=True)

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

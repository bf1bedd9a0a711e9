"""The steps of a run, or of its rerun, that see the confidential records: count, charge, measure.

A rerun draws again what was drawn and charged before, and nothing else. A release's public files can be made by
anybody: a manifest that states rho = 1e9 would make of a rerun a way to read the records. So what is recomputed is
compared with what the run itself stored, where only its owner can write, and with the ledger; before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final

from pipeline.confidential.charge import NOT_DRAWN, charge_run, refuse_uncharged, run_charges
from pipeline.confidential.fingerprints import bound_fingerprints, key_statement, release_salt
from pipeline.confidential.measure import select_versions
from pipeline.confidential.parts import part_of
from pipeline.confidential.refusals import shielded
from pipeline.errors import InputError
from pipeline.execution.job import Job
from pipeline.privacy.keys import MasterKey
from pipeline.publishing.public_inputs import BOUNDS
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import KeyStatement, Manifest, read_manifest
from pipeline.release.run_directory import record_input, recorded_input
from pipeline.storage.files import write_bytes

if TYPE_CHECKING:
    from pipeline.privacy.ledger.charges import Charge

#: The task, and the stage, of answers that are drawn only where the released parent is positive.
MEASURE_POSITIVE: Final = "measure positive"
#: The tasks that change the ledger.
CHARGING: Final = ("charge", "close charge")


class ConfidentialSteps:
    """The steps of a run that see the confidential records. What they learn is kept here, never returned to an engine.

    Attributes:
        job: the run.
        key: its master key.
        fingerprints: universe -> of its own table, keyed; present once it is counted.
        warnings: what is odd about the records; confidential.
    """

    def __init__(self, job: Job, key: MasterKey) -> None:
        self.job, self.key = job, key
        self.fingerprints: dict[str, str] = {}
        self.warnings: list[str] = []
        self.may_draw = False
        self._charges: list[Charge] | None = None

    def perform(self, task: str, universe: str = "", place: str = "") -> None:
        """Perform what a step does. Nothing is drawn before it was charged, or shown to be charged before.

        Args:
            task: "tabulate", "check", "charge", "measure", "measure positive", "select" or "close charge".
            universe: the companion's name; "" for the release's own, or where the task is for all.
            place: name of the level, or of the selection.
        """
        if task in CHARGING:
            self.charge(task)
            return
        of = next(each for each in self.job.universes if each.name == universe)
        part, run = part_of(of.source), self.job.run
        if task == "tabulate":
            tabulate = partial(part.tabulate, self.job, self.key, of)
            self.fingerprints[of.name], remarks = shielded(run, task, tabulate)
            self.warnings += remarks
        elif task == "check":
            check = partial(part.check, self.job, of, self.job.inputs.of(BOUNDS))
            self.warnings += shielded(run, task, check)
            self.job.progress.advance(self.job.spine.n_leaves)
        else:
            if not self.may_draw:
                raise ValueError(f"{task}: nothing is drawn that was not charged")
            draws: dict[str, Callable[..., None]] = {
                "measure": part.measure,
                MEASURE_POSITIVE: part.measure_positive,
                "select": select_versions,
            }
            if task not in draws:
                raise ValueError(f"{task!r} is not a task")
            what = next(each for each in of.selections if each.name == place) if task == "select" else place
            fingerprint = self.bound_fingerprints()[of.name]
            shielded(run, task, partial(draws[task], self.job, self.key, fingerprint, of, what))

    def charge(self, task: str) -> None:
        """Reserve the budget before it is spent, and at the end commit it; repeating the same run is not charged."""
        if self._charges is None:  # what they say of exact numbers takes a while on a large spine
            self._charges = run_charges(self.job, self.key, self.fingerprints)
        self.job.receipts[:] = charge_run(self.job, self._charges, drawn=task == "close charge")
        self.may_draw = True

    def statement(self) -> KeyStatement:
        """What is said in public of key and records, once all is measured."""
        return key_statement(self.key, release_salt(self.key, self.job.spec), self.bound_fingerprints())

    def end(self) -> dict[str, object]:
        """What may be said in public of what was measured: the `statement`, and the `receipts` of what was charged."""
        receipts = [receipt.model_dump_json() for receipt in self.job.receipts]
        return {"statement": asdict(self.statement()), "receipts": receipts}

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


class RepeatedSteps(ConfidentialSteps):
    """The steps of the rerun of `run`; `job` is where they write. Nothing is charged."""

    def __init__(self, run: RunDirectory, job: Job, key: MasterKey) -> None:
        super().__init__(job, key)
        self._run = run
        self._manifest = read_manifest(run.manifest)

    def charge(self, task: str) -> None:
        """Refuse it: a rerun is of what was charged before."""
        raise ValueError(f"{task}: not in a rerun of what was charged before")

    def record(self) -> None:
        """Let the drawing begin.

        Raises:
            InputError: the records are not the release's, or the run was never charged.
        """
        refuse_changed_records(self._run, self._manifest, self.statement().fingerprints)
        refuse_other_records(self._run, self.fingerprints)
        refuse_uncharged(self._run, run_charges(self.job, self.key, self.fingerprints), "this run")
        self.may_draw = True

    def statement(self) -> KeyStatement:
        """See `ConfidentialSteps.statement`; with the release's salt."""
        return key_statement(self.key, self._manifest.key_salt, self.bound_fingerprints())


def refuse_changed_records(run: RunDirectory, manifest: Manifest, fingerprints: Mapping[str, str]) -> None:
    """InputError where the records are not those that the release states; `fingerprints`: as published."""
    changed = [
        name or manifest.release
        for name, fingerprint in fingerprints.items()
        if manifest.input_fingerprints.get(name) != fingerprint
    ]
    if changed:
        raise InputError(
            f"the records are not those that {run.root} was made from: {', '.join(changed)}; nothing was drawn, since "
            "other records would make another release, with its own charge"
        )


def refuse_other_records(run: RunDirectory, fingerprints: Mapping[str, str]) -> None:
    """InputError where the records are not those that the run recorded; `fingerprints`: keyed, without salt."""
    if run.record.exists() and recorded_input(run) != dict(fingerprints):
        raise InputError(f"{run.root}: was run on other records, or with another key; {NOT_DRAWN}")

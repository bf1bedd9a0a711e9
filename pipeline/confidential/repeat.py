"""The steps of a rerun that see the records: they draw again what was drawn and charged before, and nothing else.

A release's public files can be made by anybody: a manifest that states rho = 1e9 would make of a rerun a way to read
the records. So what is recomputed is compared with what the run itself stored, where only its owner can write, and with
the ledger; before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from pipeline.confidential.charge import own_ledger, run_charges
from pipeline.confidential.fingerprints import key_statement
from pipeline.confidential.parts import Parts, RecordQuestion
from pipeline.confidential.steps import MEASURE_POSITIVE, ConfidentialSteps, MeasuringSteps
from pipeline.errors import InputError
from pipeline.execution.job import Job
from pipeline.privacy.keys import MasterKey
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import KeyStatement, Manifest, read_manifest
from pipeline.release.run_directory import recorded_input

if TYPE_CHECKING:
    from pipeline.privacy.ledger.charges import Charge
    from pipeline.privacy.ledger.dataset import DatasetState
    from pipeline.privacy.ledger.ledger import Ledger

_DRAWING: Final = ("measure", MEASURE_POSITIVE, "select")
_NOTHING: Final = "nothing was drawn, since its noise was never charged"


class Repeating(Protocol):
    """Whoever holds records, key and ledger for a rerun."""

    def check_key(self, run: RunDirectory) -> None:
        """InputError where the key is not the one that the release was made with."""

    def question(self, work: RecordQuestion) -> Mapping[str, object]:
        """See `parts.Answering`; of what was drawn before."""

    def repeat(self, run: RunDirectory, job: Job) -> MeasuringSteps:
        """The steps of the rerun of `run` that see the records; `job` is where they write."""


class RepeatedSteps(ConfidentialSteps):
    """The steps in this process; see `Repeating.repeat` for the arguments."""

    def __init__(self, run: RunDirectory, job: Job, key: MasterKey, parts: Parts) -> None:
        super().__init__(job, key, parts)
        self._run = run
        self._manifest = read_manifest(run.manifest)
        self._drawn_before = False

    def perform(self, task: str, universe: str = "", place: str = "") -> None:
        """See `MeasuringSteps.perform`; nothing is charged, and nothing drawn before `record` has let it pass."""
        if task in ("charge", "close charge") or (task in _DRAWING and not self._drawn_before):
            raise ValueError(f"{task}: not in a rerun of what was not shown to be drawn before")
        super().perform(task, universe, place)

    def record(self) -> None:
        """Let the drawing begin.

        Raises:
            InputError: the records are not the release's, or the run was never charged.
        """
        refuse_changed_records(self._run, self._manifest, self.statement().fingerprints)
        refuse_other_records(self._run, self.fingerprints)
        refuse_uncharged(self._run, self.job, self.key, self.fingerprints)
        self._drawn_before = True

    def statement(self) -> KeyStatement:
        """See `MeasuringSteps.statement`; with the release's salt."""
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
        raise InputError(f"{run.root}: was run on other records, or with another key; {_NOTHING}")


def refuse_uncharged(run: RunDirectory, job: Job, key: MasterKey, fingerprints: Mapping[str, str]) -> None:
    """Look for the run's charges in the ledger; where that is not here, the run's own note of them has to do.

    Raises:
        InputError: the run was not charged, or nothing here shows that it was.
    """
    if not job.universes[0].dataset:
        return
    from pipeline.privacy.ledger.notes import NOTE_NAME, read_note

    note = read_note(run.restricted)
    try:
        ledger: Ledger | None = own_ledger()
    except InputError:
        ledger = None
    if ledger is None or (note is not None and note.ledger != ledger.id):
        if note is None:
            raise InputError(
                f"{run.root}: nothing here shows that the run was charged: there is no "
                f"{run.restricted / NOTE_NAME} and no ledger; name the ledger with SPINEWISE_LEDGER; {_NOTHING}"
            )
        return
    with ledger:
        datasets = ledger.datasets()
        charges = run_charges(job, key, fingerprints)
        uncharged = {charge.dataset or "any" for charge in charges if not _is_charged(charge, datasets)}
    if uncharged:
        raise InputError(
            f"{run.root}: the ledger {ledger.place} has no charge of this run to {', '.join(sorted(uncharged))}; "
            f"{_NOTHING}"
        )


def _is_charged(charge: Charge, datasets: Mapping[str, DatasetState]) -> bool:
    """Whether the ledger has the charge; earlier versions did not publish the dataset of a companion."""
    if not charge.dataset:
        return any(charge.run in state.runs for state in datasets.values())
    return charge.dataset in datasets and charge.run in datasets[charge.dataset].runs

"""Whether the noise that a rerun would draw is the noise that was drawn, and charged, before.

A release's public files can be made by anybody: a manifest that states rho = 1e9 would make of a rerun a way to read
the records. So what is recomputed is compared with what the run itself stored, where only its owner can write, and with
the ledger; before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flows.confidential.charge import run_charges
from flows.execution.job import Job
from flows.publishing.inputs import Facilities
from flows.runs.open_public import PublicSide, open_listed
from flows.settings import load_settings
from pipeline.errors import InputError
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import recorded_identity, recorded_input
from pipeline.spec.release_spec import ReleaseSpec

if TYPE_CHECKING:
    from pipeline.privacy.ledger.charges import Charge
    from pipeline.privacy.ledger.events import DatasetState

_NOTHING = "nothing was drawn, since its noise was never charged"
_KEY = "the key"  # in the identity; it is compared with the manifest's commitment


def refuse_other_run(run: RunDirectory, public: PublicSide) -> None:
    """Compare what public/ states with what the run recorded when it began.

    Where restricted/ is gone, the operator's own spec was compared instead; see `refuse_other_inputs`.

    Raises:
        InputError: they are not the same.
    """
    if run.record.exists():
        recorded, stated = recorded_identity(run), public.identity()
        differing = sorted(
            name for name in (recorded.keys() | stated.keys()) - {_KEY} if recorded.get(name) != stated.get(name)
        )
        if differing:
            raise InputError(
                f"{run.root}: public/ is not what was run here: {', '.join(differing)} differ from what "
                f"{run.record} recorded; {_NOTHING}"
            )


def refuse_other_inputs(
    run: RunDirectory, public: PublicSide, spec: ReleaseSpec, universes: Sequence[Universe]
) -> None:
    """Compare public/ with the spec that the operator gives, and with the public inputs that it names.

    Raises:
        InputError: they are not the same, or an input cannot be read.
    """
    own, stated = open_listed(spec, universes).identity(), public.identity()
    differing = sorted(name for name in own.keys() | stated.keys() if own.get(name) != stated.get(name))
    if differing:
        raise InputError(
            f"{run.root}: public/ is not what {spec.source} gives: {', '.join(differing)} differ; {_NOTHING}"
        )


def refuse_other_records(run: RunDirectory, fingerprints: Mapping[str, str]) -> None:
    """InputError where the records are not those that the run recorded; `fingerprints`: keyed, without salt."""
    if run.record.exists() and recorded_input(run) != dict(fingerprints):
        raise InputError(f"{run.root}: was run on other records, or with another key; {_NOTHING}")


def refuse_uncharged(
    run: RunDirectory, job: Job, key: MasterKey, fingerprints: Mapping[str, str], facilities: Facilities
) -> None:
    """Look for the run's charges in the ledger; where that is not here, the run's own note of them has to do.

    Raises:
        InputError: the run was not charged, or nothing here shows that it was.
    """
    if not job.universes[0].dataset:
        return
    from pipeline.privacy.ledger.ledger import Ledger
    from pipeline.privacy.ledger.notes import NOTE_NAME, read_note

    note = read_note(run.restricted)
    settings = load_settings()
    try:
        ledger = Ledger.open(settings.ledger, state=settings.state)
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
        charges = run_charges(job, key, fingerprints, facilities)
        uncharged = {charge.dataset or "any" for charge in charges if not _is_charged(charge, datasets)}
    if uncharged:
        raise InputError(
            f"{run.root}: the ledger {ledger.place} has no charge of this run to {', '.join(sorted(uncharged))}; "
            f"{_NOTHING}"
        )


def _is_charged(charge: Charge, datasets: Mapping[str, DatasetState]) -> bool:
    """Whether the ledger has the charge; earlier versions did not publish the dataset of a companion."""
    if not charge.dataset:
        return any(charge.run.text in state.runs for state in datasets.values())
    return charge.dataset in datasets and charge.run.text in datasets[charge.dataset].runs

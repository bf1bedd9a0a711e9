"""Charging a run to the ledger of budgets, before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from flows.execution.job import Job
from flows.settings import load_settings
from pipeline.model.allocation import allocations
from pipeline.privacy.keys import MasterKey


def charge_run(job: Job, key: MasterKey, fingerprints: Mapping[str, str], *, drawn: bool = False) -> None:
    """Reserve what the run is going to draw, and note it in the run's directory; or, once `drawn`, commit it.

    Repeating the same run costs nothing. If the spec names no dataset, nothing is charged. The ledger's address may
    hold a password, so it is a setting and not a parameter of the flow.

    Args:
        job: the run.
        key: the run's master key.
        fingerprints: of each universe's records, keyed.
        drawn: the noise has been drawn.

    Raises:
        BudgetRefusedError: a dataset does not have enough left; the message shows what is spent, left and requested.
        InputError: there is no such ledger or dataset.
        LedgerError: the ledger is damaged, or was restored from an older copy.
    """
    if not job.universes[0].dataset:
        return
    from pipeline.privacy.ledger.charge import charge_for
    from pipeline.privacy.ledger.ledger import Ledger
    from pipeline.privacy.ledger.notes import note_event, read_note, read_notes

    charges = [
        charge_for(
            universe,
            dataset=universe.dataset,
            release=job.spec.name,
            key=key,
            input_fingerprint=fingerprints[universe.name],
            spine_fingerprint=job.spine.fingerprint(),
            level_sizes={
                level.name: allocation.n_measured(len(level))
                for level, allocation in zip(job.spine.levels, allocations(universe, job.spine), strict=True)
            },
            choosing={level.name: len(level) for level in job.spine.levels},
        )
        for universe in job.universes
    ]
    restricted = job.run.restricted
    with Ledger.open(load_settings().ledger) as ledger:
        own = read_note(restricted)
        beside = read_notes(job.run.root.parent, ledger.id).values()
        reservation = ledger.reserve(*charges, noted=[*([] if own is None else [own]), *beside])
        note_event(restricted, reservation.head)
        if drawn:
            note_event(restricted, ledger.commit(reservation))

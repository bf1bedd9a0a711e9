"""Charging a run to the ledger of budgets, and committing it to its draw; what it was charged is its receipts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from pipeline.confidential.fingerprints import bound_fingerprints
from pipeline.errors import InputError
from pipeline.execution.job import Job
from pipeline.model.content import content_sha256
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.publishing.provenance import accepted_inputs
from pipeline.publishing.public_inputs import BOUNDS
from pipeline.release.layout import RunDirectory
from pipeline.release.receipts import ExactReceipt, Receipt

if TYPE_CHECKING:
    from pipeline.privacy.ledger.charges import Charge, Charged, Reservation
    from pipeline.privacy.ledger.ledger import Ledger

#: Why something is refused.
NOT_DRAWN: Final = "nothing was drawn, since its noise was never charged"


def charge_run(job: Job, charges: Sequence[Charge], *, drawn: bool = False) -> tuple[Receipt, ...]:
    """Reserve what the run is going to draw, and note it in the run's directory; or, once `drawn`, commit it.

    Repeating the same run costs nothing. If the spec names no dataset, nothing is charged. The ledger's address may
    hold a password, so it is a setting and not a parameter of the flow.

    Args:
        job: the run.
        charges: of `run_charges`; none if the spec names no dataset.
        drawn: the noise has been drawn.

    Returns:
        One receipt for each dataset; none if nothing is charged.

    Raises:
        BudgetRefusedError: a dataset does not have enough left, or the spec publishes exactly what was not declared.
        InputError: there is no such ledger or dataset, or the key was used over other records; or an answer that chose
            the end of an amount was charged to another ledger.
        LedgerError: the ledger is damaged, or was restored from an older copy.
    """
    if not charges:
        return ()
    with own_ledger() as ledger:
        _refuse_chosen_elsewhere(job, ledger.id)
        reservation = _reserve(ledger, job.run, charges)
        if drawn:
            _commit(ledger, job.run, reservation)
    return tuple(receipt_of(charged, _earlier(job, charged.dataset)) for charged in reservation.charged)


def own_ledger() -> Ledger:
    """The ledger of the settings, open; InputError where there is none."""
    from pipeline.execution.settings import load_settings
    from pipeline.privacy.ledger.ledger import Ledger

    settings = load_settings()
    return Ledger.open(settings.ledger, state=settings.state)


@contextmanager
def charged_for(run: RunDirectory, charge: Charge) -> Iterator[Charged]:
    """Reserve the charge of what is drawn inside of the block, beside a release, and commit it at its end.

    Repeating the same costs nothing.

    Args:
        run: notes the charge.
        charge: with a dataset.

    Raises:
        BudgetRefusedError, InputError, LedgerError: as `charge_run`; nothing was drawn.
    """
    with own_ledger() as ledger:
        reservation = _reserve(ledger, run, [charge])
        (charged,) = reservation.charged
        yield charged
        _commit(ledger, run, reservation)


def _reserve(ledger: Ledger, run: RunDirectory, charges: Sequence[Charge]) -> Reservation:
    from pipeline.privacy.ledger.notes import note_event, notes_of_run

    reservation = ledger.reserve(*charges, noted=notes_of_run(run.root, ledger.id))
    note_event(run.restricted, reservation.head)
    return reservation


def _commit(ledger: Ledger, run: RunDirectory, reservation: Reservation) -> None:
    from pipeline.privacy.ledger.notes import note_event

    note_event(run.restricted, ledger.commit(reservation))


def refuse_uncharged(run: RunDirectory, charges: Sequence[Charge], what: str) -> None:
    """Look in the ledger for the charges of what is drawn again; where that is not here, the run's note has to do.

    Args:
        run: which has drawn it before.
        charges: that it must have been charged; none if the spec names no dataset.
        what: was charged, for messages, such as "this run".

    Raises:
        InputError: it was not charged, or nothing here shows that it was.
    """
    from pipeline.privacy.ledger.notes import NOTE_NAME, read_note

    if not charges:
        return
    note = read_note(run.restricted)
    try:
        ledger: Ledger | None = own_ledger()
    except InputError:
        ledger = None
    if ledger is None or (note is not None and note.ledger != ledger.id):
        if note is None:
            raise InputError(
                f"{run.root}: nothing here shows that the run was charged: there is no "
                f"{run.restricted / NOTE_NAME} and no ledger; name the ledger with SPINEWISE_LEDGER; {NOT_DRAWN}"
            )
        return
    with ledger:
        check_charged(ledger, run, charges, what)


def check_charged(ledger: Ledger, run: RunDirectory, charges: Sequence[Charge], what: str) -> None:
    """InputError unless the ledger was charged for just this: what is drawn, with its mechanisms and scales."""
    from pipeline.privacy.ledger.dataset import same_groups

    states, missing = ledger.datasets(), set()
    for charge in charges:
        events = states[charge.dataset].runs.get(charge.run, ()) if charge.dataset in states else ()
        if not (events and same_groups(events, charge.due)):
            missing.add(charge.dataset)
    if missing:
        raise InputError(
            f"{run.root}: the ledger {ledger.place} has no charge of {what} to {', '.join(sorted(missing))}; "
            f"{NOT_DRAWN}"
        )


def _earlier(job: Job, dataset: str) -> Fraction:
    """What a dataset was charged in this run before, by what its spec was decided from (`pipeline.runs.run`)."""
    found = (one.earlier.cost for one in job.universes if one.dataset == dataset and one.earlier is not None)
    return sum(found, Fraction(0))


def _refuse_chosen_elsewhere(job: Job, ledger: str) -> None:
    """InputError for an end of an amount whose cost is in another ledger: nobody would add it up with the release."""
    for name, chosen in job.spec.chosen_ends.items():
        if chosen.ledger != ledger:
            raise InputError(
                f"{job.spec.source}: companions.{name}.between: the answer {chosen.answer} was charged to the ledger "
                f"{chosen.ledger[:12]}, and the release would be to {ledger[:12]}; one ledger counts both: ask for the "
                "clip again"
            )


def run_charges(job: Job, key: MasterKey, fingerprints: Mapping[str, str]) -> list[Charge]:
    """What a ledger is asked for by the run: one charge for each universe; none if the spec names no dataset.

    Args:
        job: the run.
        key: the run's master key.
        fingerprints: universe -> of its own table, keyed.
    """
    if not job.universes[0].dataset:
        return []
    from pipeline.confidential.disclosures import exact_disclosures, inputs_from_records
    from pipeline.privacy.ledger.charges import charge_for
    from pipeline.privacy.ledger.events import KeyUse

    sizes = {level.name: len(level) for level in job.spine.levels}
    charges, bound = [], bound_fingerprints(key, job.universes, fingerprints)
    for universe in job.universes:
        charge = charge_for(
            universe,
            dataset=universe.dataset,
            release=job.spec.name,
            key=key,
            input_fingerprint=bound[universe.name],
            spine_fingerprint=job.spine.fingerprint(),
            sizes=sizes,
            measured={draw.level: draw.n_measured(sizes[draw.level]) for draw in universe.draws(job.spine)},
        )
        reading = [] if universe.input is None else universe.input.reading(universe.schema.names)
        layout, fingerprint = _layout(job, universe), fingerprints[universe.name]
        use = KeyUse.read_so(key.commitment(), universe.name, layout, fingerprint, reading)
        exact = exact_disclosures(universe, job.spine, job.inputs.of(BOUNDS)[universe.name])
        exact += inputs_from_records(universe, job.spine, accepted_inputs(job.spec))
        units = "" if universe.input is None else universe.input.unit or ""
        charges.append(replace(charge, exact=exact, key=use, units=units))
    return charges


def _layout(job: Job, universe: Universe) -> str:
    """Hash of how the records are counted: two fingerprints of records are comparable where it is the same."""
    content: list[object] = [job.spine.fingerprint(), [[a.name, *a.values] for a in universe.schema.attributes]]
    content += universe.measure.layout()
    return content_sha256(content)


def receipt_of(charged: Charged, earlier: Fraction = Fraction(0)) -> Receipt:
    """What a run or an answer says of its charge to a dataset; `earlier` was charged to it in the same run before."""
    return Receipt(
        dataset=charged.dataset,
        ledger=charged.head.ledger,
        number=charged.head.number,
        hash=charged.head.hash,
        unit=charged.unit,
        cost=str(charged.cost + earlier),
        exact=tuple(ExactReceipt(universe=universe, what=str(subject)) for universe, subject in charged.exact),
    )

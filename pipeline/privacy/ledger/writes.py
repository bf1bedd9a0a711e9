"""What a charge adds to the ledger: its costs, what it discloses exactly, and its key; each is refused first."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pipeline.errors import BudgetRefusedError, InputError
from pipeline.privacy.ledger.details import details_text
from pipeline.privacy.ledger.disclosures import undeclared
from pipeline.privacy.ledger.events import (
    DatasetState,
    LedgerError,
    cost_of,
    exact_event,
    exact_text,
    same_groups,
    uses_like,
)
from pipeline.privacy.ledger.key_uses import KeyUse, conflicting
from pipeline.privacy.ledger.refusals import OverspentError, UndeclaredError, amount_text
from pipeline.privacy.ledger.series import is_known

if TYPE_CHECKING:
    from pipeline.privacy.ledger.charges import Charge
    from pipeline.privacy.ledger.store import Writing

__all__ = ["charge_run", "disclose", "key_of", "record_key"]


def charge_run(writing: Writing, state: DatasetState, charge: Charge, place: str) -> None:
    """Record what the run costs, unless it was charged for the same before; `place` is the ledger's, for messages.

    Raises:
        OverspentError: the dataset, or what is set aside in it for the run's purpose, has not enough left.
        BudgetRefusedError: it is closed.
        InputError: its neighbours or its units are others, or a mechanism has no cost in its unit; or of a series,
            it is not the next period.
        LedgerError: the run was charged for something else before.
    """
    if charge.neighbours != state.neighbours:
        raise InputError(
            f"ledger: the dataset {state.name!r} is for neighbours {state.neighbours!r}, the run for "
            f"{charge.neighbours!r}; they must be the same"
        )
    if state.units and charge.units != state.units:
        found = f"the units {charge.units!r}" if charge.units else "no units: each of its records would be one person"
        raise InputError(
            f"ledger: the dataset {state.name!r} has units, by the column {state.units!r}, and the run {found}; state "
            "unit and at_most in [privacy] of all that is charged to it; nothing was charged or drawn"
        )
    if charge.series is not None and is_known(state, charge.series, charge.run.text):
        return
    if recorded := state.runs.get(charge.run.text):
        if not same_groups(recorded, charge.groups):
            raise LedgerError(
                f"ledger {place}: this run was charged to {state.name!r} before, for other measurements than "
                "these; the same fingerprint cannot stand for both"
            )
        return
    groups = charge.groups if charge.series is None or charge.series.number == 0 else ()
    costs = [(group, cost_of(group, state.framework, state.neighbours)) for group in groups]
    cost_of_run = sum((cost for _, cost in costs), Fraction(0))
    if state.closed:
        raise BudgetRefusedError(
            f"ledger: the dataset {state.name!r} is closed: asked for {state.unit} = "
            f"{amount_text(cost_of_run, up=True)}, refused; nothing was charged or drawn"
        )
    purpose = state.purpose_of(charge.release)
    if cost_of_run + charge.later > state.left_for(purpose):
        total = state.total_for(purpose)
        spent = total - state.left_for(purpose)
        raise OverspentError(state.named(purpose), state.unit, total, spent, cost_of_run + charge.later)
    for group, cost in costs:
        writing.add(
            "charge",
            state.name,
            neighbours=charge.neighbours,
            run=charge.run.text,
            release=charge.release,
            level=group.level,
            query=group.query,
            mechanism=group.mechanism,
            scale=exact_text(group.scale),
            count=group.count,
            cost=exact_text(cost),
            details=details_text({"purpose": purpose}) if purpose else "",
        )
    if (series := charge.series) is not None:
        of_run = {"run": charge.run.text, "release": charge.release}
        if series.number == 0:
            writing.add("series", state.name, **of_run, **series.opening())
        writing.add("period", state.name, **of_run, **series.stated())


def disclose(writing: Writing, state: DatasetState, charge: Charge) -> None:
    """Record what the run discloses exactly. BudgetRefusedError where that is not allowed."""
    recorded = [event.exact() for event in state.exact.get(charge.run.text, ())]
    asked = [exact for exact in sorted(charge.exact) if exact not in recorded]
    if refused := undeclared(state.allowed, state.disclosed, asked):
        raise UndeclaredError(state, refused)
    if asked and state.closed:
        raise UndeclaredError(state, asked)
    for exact in asked:
        writing.add("exact", state.name, run=charge.run.text, release=charge.release, **exact_event(exact))


def key_of(datasets: dict[str, DatasetState], state: DatasetState, charge: Charge) -> KeyUse | None:
    """How the run uses its key. InputError where it was used over other records, or the same ones read otherwise."""
    if charge.key is None:
        return None
    use, before = charge.key, uses_like(datasets, charge.key)
    recorded = state.keys.get(charge.run.text, use)
    if other := conflicting(state.name, use, before) or (state.name if recorded != use else ""):
        raise InputError(
            f"ledger: the key of this run was used over other records before, or over the same ones read otherwise, of "
            f"the dataset {other!r}; two releases with one key show where their records are the same: let the run draw "
            "its own key, or give another one; nothing was charged or drawn"
        )
    return use


def record_key(writing: Writing, state: DatasetState, charge: Charge, use: KeyUse | None) -> None:
    """Record how the run uses its key, from `key_of`, unless it is."""
    run = charge.run.text
    if use is None or run in state.keys:
        return
    writing.add("key", state.name, run=run, release=charge.release, details=use.details())

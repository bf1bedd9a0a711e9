"""What a dataset has spent: exact amounts, the epsilon that they imply, and the runs; and the ledger as a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from geography.errors import InputError
from pipeline.model.exact import epsilon_text
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.accounting.pld import pld_epsilon
from pipeline.privacy.budget import MOVED
from pipeline.privacy.ledger.dataset import DatasetState, replay, stated
from pipeline.privacy.ledger.events import BYPASSED, Event, Moved, is_typed
from pipeline.privacy.noise.mechanisms import mechanism

_FORMAT: Final = 2


def spent_epsilon(state: DatasetState, delta: Fraction) -> float:
    """An epsilon that holds at `delta` for all that the dataset was charged for, together.

    The least of the bound from rho and that from the distribution of the privacy loss; in the pure framework the sum of
    the epsilons, which holds at delta = 0 already. Where a run bypassed geounits, the bound from rho: the distribution
    depends on how the budget of a path is cut, and its charges describe that of one path only.
    """
    if state.framework == "pure":
        return float(state.spent)
    moved = MOVED[state.neighbours]
    groups = [event.group() for charges in state.runs.values() for event in charges if event.kind == "charge"]
    bound = zcdp_epsilon(state.spent, delta)
    if any(BYPASSED in group.query or group.moved != Moved() for group in groups):
        return bound
    losses = pld_epsilon([(mechanism(group.mechanism, group.scale), moved) for group in groups], delta)
    return bound if losses is None else min(bound, losses)


def dataset_report(state: DatasetState, delta: Fraction) -> dict[str, Any]:
    """The dataset as JSON: exact amounts as text, and a list of its runs in the order in which they were charged."""
    runs = []
    for run, charges in state.runs.items():
        cost = sum((Fraction(event.cost) for event in charges), Fraction(0))
        runs.append(
            {
                "run": run,
                "release": charges[0].release,
                "time": charges[0].time,
                "cost": str(cost),
                "measurements": sum(event.kind == "charge" for event in charges),
                "committed": run in state.committed,
                "exact": [str(event.exact()) for event in state.exact.get(run, ())],
            }
        )
    return {
        "dataset": state.name,
        "population": state.population,
        "framework": state.framework,
        "unit": state.unit,
        "neighbours": state.neighbours,
        **({"units": state.units} if state.units else {}),
        "budget": str(state.budget),
        "spent": _text(state.spent, ROUND_CEILING),
        "left": _text(state.left, ROUND_FLOOR),
        "closed": state.closed,
        "purposes": [
            {
                "for": purpose,
                "budget": _text(state.total_for(purpose), ROUND_FLOOR),
                "left": _text(state.left_for(purpose), ROUND_FLOOR),
            }
            for purpose in ([*state.purposes, ""] if state.purposes else [])
        ],
        "delta": str(delta) if state.framework == "zcdp" else "0",
        "epsilon": epsilon_text(spent_epsilon(state, delta)),
        "allowed": [str(subject) for subject in state.allowed],
        **({"series": _series(state)} if state.series else {}),
        "runs": runs,
    }


def _series(state: DatasetState) -> list[dict[str, Any]]:
    """Each series with the periods that are drawn, and how many it has."""
    found = []
    for name, opened in state.series.items():
        drawn = [str(stated(event)["period"]) for event in state.periods.get(name, {}).values()]
        found.append({"name": name, "periods": opened.count, "drawn": drawn})
    return found


def _text(value: Fraction, rounding: str) -> str:
    """Exact unless hundreds of different budgets have made the fraction too long to read: then 40 digits."""
    if value.denominator.bit_length() <= 1000:
        return str(value)
    return str(Context(prec=40, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator)))


def export_text(ledger: str, events: Sequence[Event]) -> str:
    """The whole ledger as JSON, with all that is needed to check it."""
    content = {"format": _FORMAT, "ledger": ledger, "events": [event.as_dict() for event in events]}
    return json.dumps(content, indent=1, ensure_ascii=True) + "\n"


def check_export(path: Path) -> tuple[int, list[str]]:
    """How many events an exported ledger has, and what is wrong with it, a sentence each.

    Raises:
        InputError: the file is not an exported ledger.
    """
    ledger, events = read_export(path)
    return len(events), replay(ledger, events)[1]


def read_export(path: Path) -> tuple[str, list[Event]]:
    """The id and the events of an exported ledger, unchecked.

    Raises:
        InputError: the file is not an exported ledger.
    """
    names = {field.name for field in fields(Event)}
    try:
        if not path.is_file():  # a pipe would be waited for
            raise InputError(f"{path}: is not a file, or does not exist")
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise InputError(f"{path}: found the format {content['format']!r}; this software reads {_FORMAT}")
        rows = content["events"]
        if type(content["format"]) is not int or not isinstance(rows, list) or not isinstance(content["ledger"], str):
            raise ValueError("its format is no whole number, its id no text, or its events are no list")
        if not all(isinstance(row, dict) and row.keys() == names for row in rows):
            raise ValueError("an event has other fields")
        if not all(is_typed(row) for row in rows):
            raise ValueError("a field of an event is not a text, or not a whole number where one is needed")
        return content["ledger"], [Event(**row) for row in rows]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not an exported ledger: {error}") from error

"""Whether an answer cost what its manifest states, by the manifest alone."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pipeline.errors import InputError
from pipeline.questions.manifest import AnswerManifest
from pipeline.questions.resolved import RECORDS
from pipeline.questions.sensitivity import reach

if TYPE_CHECKING:
    from pipeline.questions.tables import Measurements

__all__ = ["cost_problems", "units_problems"]


def cost_problems(manifest: AnswerManifest) -> list[str]:
    """Whether each part's noise costs what is stated, all together the budget, and the ledger was charged for that."""
    if manifest.is_chosen:
        return [*_choice_problems(manifest), *_charge_problems(manifest)]
    problems, total = [], Fraction(0)
    if (stated := tuple(part.part for part in manifest.noisy)) != (needed := manifest.needed_parts()):
        problems.append(f"its parts are {stated}, and a {manifest.statistic} of its amount has {needed}")
    for part in manifest.noisy:
        cost = part.cost(manifest.neighbours, manifest.records_per_person)
        if part.about == "unit" and part.numbers > manifest.records_per_person:
            problems.append(
                f"{part.name}: a unit is in {part.numbers} numbers, of {manifest.records_per_person} at most"
            )
        total += cost
        if part.reach != reach(part.part, manifest.neighbours):
            problems.append(
                f"{part.name}: a record moves it by {reach(part.part, manifest.neighbours)}, not {part.reach}"
            )
        if cost != Fraction(part.budget):
            problems.append(f"{part.name}: its noise costs {cost}, stated is {part.budget}")
    if total != Fraction(manifest.budget):
        problems.append(f"its noise costs {total}, and its budget is {manifest.budget}")
    return [*problems, *_charge_problems(manifest)]


def units_problems(manifest: AnswerManifest, measured: Measurements) -> list[str]:
    """Whether each unit is said to be in as many numbers as it can be; that of its records is the same in all."""
    columns = [number for number, name in enumerate(measured.header) if name != RECORDS]
    possible = len({tuple(key[number] for number in columns) for key in measured.keys})
    needed = min(manifest.records_per_person, possible)
    return [
        f"{part.name}: a unit can be in {needed} numbers, stated are {part.numbers}"
        for part in manifest.noisy
        if part.about == "unit" and part.numbers != needed
    ]


def _choice_problems(manifest: AnswerManifest) -> list[str]:
    """Whether its choices are made with what its budget buys."""
    try:
        needed = manifest.needed_choice()
    except InputError as error:
        return [str(error)]
    if manifest.parts != needed:
        return [f"its choices are not those that {manifest.budget} buys for a {manifest.statistic} of its amount"]
    return []


def _charge_problems(manifest: AnswerManifest) -> list[str]:
    unit = "rho" if manifest.framework == "zcdp" else "epsilon"
    charged = [(one.dataset, one.unit, one.cost, one.exact) for one in manifest.receipts]
    if charged == [(manifest.dataset, unit, str(manifest.cost), ())]:
        return []
    found = "; ".join(f"{cost} ({unit}) to {dataset!r}" for dataset, unit, cost, _ in charged)
    return [f"it costs {manifest.cost} ({unit}) of {manifest.dataset!r}, and charged was {found or 'nothing'}"]

"""A plan in a few lines: the budget, what it buys, and the memory of its run; and what another division makes worse."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from features.plan.best import Best
from features.plan.called import Called
from features.plan.release_plan import Plan, UniversePlan, error_text, levels_line
from pipeline.model.exact import exact_text
from pipeline.model.texts.catalogue import texts_in
from pipeline.privacy.limits import beyond_limits

#: Errors that become larger, or smaller, by less are not told.
_NOTICED = 0.005
#: Numbers that are named of those that become worse.
_NAMED = 6


def show_summary(plan: Plan, console: Console) -> None:
    """The plan in some six lines; of a companion two more."""
    console.print(levels_line(plan), soft_wrap=True)
    console.print(f"Budget: {_budget(plan.universes)}; {plan.promise}.", soft_wrap=True)
    if plan.undecided:
        console.print(plan.undecided, soft_wrap=True)
    for each in plan.universes:
        for line in _bought(each, Called.of(plan.spec, each.universe)):
            console.print(line, soft_wrap=True)
    held = [one for each in plan.universes for one in each.statement.invariants]
    if exact := dict.fromkeys(f"{one.query} of every {one.level}" for one in held):
        console.print(f"Published exactly (not protected): {', '.join(exact)}.", soft_wrap=True)
    for one in beyond_limits([universe_plan.universe for universe_plan in plan.universes]):
        console.print(f"Beyond the usual limits, refused without --i-know: {one}.", soft_wrap=True)


def _budget(plans: Sequence[UniversePlan]) -> str:
    texts = []
    for plan in plans:
        universe = plan.universe
        if universe.framework != "local":
            name = "rho" if universe.framework == "zcdp" else "epsilon"
            texts.append(f"{name} = {exact_text(universe.budget)}{f' of {universe.name}' if universe.name else ''}")
    return ", ".join(texts) or "each respondent's own"


def _bought(plan: UniversePlan, called: Called) -> list[str]:
    """What the budget buys, of the coarsest and of the most detailed numbers: the mean error of one at each level."""
    what = plan.universe.measure.counted(texts_in(None))
    kinds = sorted({row.query: row.numbers for row in plan.rows}.items(), key=lambda one: one[1])
    chosen = dict.fromkeys([kinds[0][0], kinds[-1][0]]) if kinds else {}
    lines = []
    for query in chosen:
        errors = [
            f"{row.level} {error_text(row.per_number, given_by=row.given_by)}"
            for row in plan.rows
            if row.query == query
        ]
        of = f"{plan.universe.name}: " if plan.universe.name else ""
        lines.append(f"Mean error of one number of {of}{called.beside_query(query)}, in {what}: {', '.join(errors)}")
    return lines


def show_changes(own: UniversePlan, best: Best, console: Console) -> None:
    """Which numbers the division that was found makes worse than the spec's, and how much; and how many better."""
    before = {(row.level, row.query): row.per_number for row in own.rows}
    worse, better = [], 0
    for row in best.planned.rows:
        old, new = before.get((row.level, row.query)), row.per_number
        if old and new and new > old * (1 + _NOTICED):
            worse.append((new / old, f"{row.level} {row.query} from {old:,.2f} to {new:,.2f} ({new / old - 1:+.0%})"))
        better += bool(old and new and new < old * (1 - _NOTICED))
    named = [text for _, text in sorted(worse, reverse=True)[:_NAMED]]
    rest = f", and {len(worse) - _NAMED} more" if len(worse) > _NAMED else ""
    said = f"become worse: {', '.join(named)}{rest}" if named else "none becomes worse"
    console.print(f"Mean errors of one number, beside the spec as it is: {said}; {better} become better.")

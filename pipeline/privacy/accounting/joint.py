"""What the change of one person costs over all universes of a release together.

Universes are measured with independent noise, so their costs add up. The noise of a universe is made so that all the
records which one person alters there cost its whole budget (`budget.budget_of_one`): one person costs the sum of the
budgets. Where the invariants on the persons leave no change of one but only two who swap, two persons change: twice the
budget for the swap itself, and for a companion, of which they alter twice as many records as they like, four times its
rho, or twice its epsilon. Universes that are estimated together have some attributes each of the same records: one
person can change alone where one of them can change in some universe.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from pipeline.privacy.accounting.composition import group_budget
from pipeline.privacy.accounting.pld import pld_epsilon
from pipeline.privacy.accounting.statement_models import PrivacyAccount, Statement, statement_of
from pipeline.privacy.budget import MOVED

if TYPE_CHECKING:
    from pipeline.model.universe import Universe


_CHANGING = {"change-one": "changing", "add-remove": "adding or removing"}


def joint_statement(
    universes: Sequence[Universe], accounts: Sequence[PrivacyAccount], *, losses: bool = True
) -> Statement:
    """About one person in all universes: the release's headline.

    Args:
        universes: the release's own first, then its companions.
        accounts: of each universe.
        losses: whether with the bound from the distribution of the privacy loss, which takes a while.
    """
    main, *others = universes
    record = accounts[0].record
    if main.together is not None:
        record = min((one.record for one in accounts), key=lambda one: (one.records == 0, one.records))
    if record.records == 0 or (not others and main.unit.records == 1):
        return record.model_copy(update={"about": "person"})
    if record.records == 1:
        budget = sum((one.budget for one in universes), Fraction(0))
    else:
        swapping = record.records * main.budget if main.unit.records == 1 else _two(main)
        budget = swapping + sum((_two(one) for one in others), Fraction(0))
    by_losses = None
    plain = all(one.unit.records == 1 and one.reach == 1 and not one.bypass for one in universes)
    if main.framework == "zcdp" and losses and record.records == 1 and plain:
        moved = MOVED[main.neighbours]
        uses = [use.moving(moved) for one in universes for use in one.uses]
        earlier = [use.moving(moved) for one in universes for use in one.drawn_before]
        by_losses = pld_epsilon([*uses, *earlier], main.delta)
    words = _words(universes, record.records)
    return statement_of("person", "", main.framework, budget, main.delta, words, record.records, by_losses)


def household_statement(
    universes: Sequence[Universe], accounts: Sequence[PrivacyAccount], companion: str, members: int
) -> Statement | None:
    """About a household whose members' records and whose own may all be others; None where it cannot change alone.

    Its members are a group: of `members` persons, which the cost of one is multiplied with (`group_budget`: rho by the
    square) in every universe but that of the households, where the household is one record.

    Args:
        universes: the release's own first, then its companions.
        accounts: of each universe.
        companion: whose records are the households.
        members: of one household, at most.
    """
    main = universes[0]
    if any(account.record.records != 1 for account in accounts):
        return None
    budget = sum(
        (
            one.record_budget if one.name == companion else group_budget(one.framework, one.budget, members)
            for one in universes
        ),
        Fraction(0),
    )
    words = (
        f"the effect of {_CHANGING[main.neighbours]} one household of at most {members} members, with their records "
        f"and its own record of {companion}, on everything measured"
    )
    return statement_of("household", companion, main.framework, budget, main.delta, words, members)


def _two(universe: Universe) -> Fraction:
    """What any two persons cost."""
    return group_budget(universe.framework, universe.budget, 2)


def _words(universes: Sequence[Universe], persons: int) -> str:
    if persons > 1:
        who = "two people swapping places or values (one alone cannot change without changing an invariant)"
    elif universes[0].neighbours == "change-one":
        who = "changing one person's data"
    else:
        who = "adding or removing one person"
    each = "" if persons == 1 else " each"
    alters = ", ".join(
        f"the total of {one.name}"
        if one.measure.total
        else f"{one.unit.records} record{'s' if one.unit.records > 1 else ''} of {one.name or 'the release itself'}"
        for one in universes
        if one.name or one.unit.records > 1
    )
    return f"the effect of {who}, at most {alters}{each}, on everything measured"

"""What a release promises, in figures: about a record, an attribute of it, where in an area it lies, a household.

Each statement bounds what the measurements of one universe, all together, can reveal about the difference named. Only
those measurements count whose answers that difference can move:

- a record (other values, or there or not, as the neighbours are): all of them;
- one attribute of a record, the rest of it known: queries that do not sum the attribute out;
- the lowest-level geounit in which a record lies, the geounit of a higher level known: the levels below that level;
- a group of g records: all of them, with g^2 times the rho or g times the epsilon.

Invariants exclude some of these differences, and leave swaps of two records where one cannot change alone; `neighbours`
works out which. What they leave nothing of is not stated. Of a release in a series the record is a person's history
over all of its periods; of attributes and places of histories nothing is stated.

The difference of an attribute or a place moves two answers of each query by one, whatever the neighbours: it takes a
record away from one answer and adds it to another. The 2020 certificates print the same statements, converted from rho
at delta = 1e-10.

Figures are texts of `exact.epsilon_text`, rounded up, so that the same spec gives the same text on every machine.

Over all universes of a release together (`joint_statement`): universes are measured with independent noise, so their
costs add up. The noise of a universe is made so that all the records which one person alters there cost its whole
budget (`budget.budget_of_one`): one person costs the sum of the budgets. Where the invariants on the persons leave no
change of one but only two who swap, two persons change: twice the budget for the swap itself, and for a companion, of
which they alter twice as many records as they like, four times its rho, or twice its epsilon. Universes that are
estimated together have some attributes each of the same records: one person can change alone where one of them can
change in some universe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pipeline.model.exact import epsilon_text
from pipeline.privacy.accounting.conversion import (
    advanced_epsilon,
    basic_epsilon,
    gaussian_epsilon,
    group_budget,
    zcdp_epsilon_textbook,
)
from pipeline.privacy.accounting.local import local_account
from pipeline.privacy.accounting.neighbours import (
    SWAP,
    RecordChange,
    attribute_changes,
    change_in_words,
    place_changes,
    record_change,
    vacuous,
)
from pipeline.privacy.accounting.pld import one_number_epsilon, pld_epsilon
from pipeline.privacy.accounting.statement_models import (
    About,
    EpsilonComparison,
    PrivacyAccount,
    Statement,
    statement_of,
)
from pipeline.privacy.budget import MOVED, Framework
from pipeline.privacy.noise.mechanism import Mechanism

if TYPE_CHECKING:
    from pipeline.model.promise import MechanismUse
    from pipeline.model.universe import Universe


GROUP_SIZES = (2, 3, 4, 5)
#: Of a unit with more, another value or place of one record can change which of the others are counted.
_COUNTED = " (of a unit of whose records none is left out)"
_MOVES = 2  # answers of a query that another value, or another place, moves


#: The uses that a difference can move, with the numbers that it moves of each; or their rho or epsilon alone.
_Spent = Fraction | Sequence[tuple[Mechanism, int]]


@dataclass(frozen=True)
class _Spending:
    """What a universe spends on each difference that a statement is about.

    Attributes:
        record: on a record.
        attributes: on each attribute, the rest of the record being known.
        places: on the geounits below each level but the lowest.
        measured: every measurement; None where it depends on the spine which of them a record meets, or where some
            of what is spent was drawn before.
    """

    record: _Spent
    attributes: Mapping[str, _Spent]
    places: Mapping[str, _Spent]
    measured: tuple[MechanismUse, ...] | None


def privacy_statements(universe: Universe, *, losses: bool = True) -> PrivacyAccount:
    """All statements about one universe.

    Args:
        universe: that they are about.
        losses: whether with the bounds from distributions of the privacy loss and the comparison, which take a while.

    Raises:
        InputError: the budget or delta is out of range.
    """
    if universe.framework == "local":
        return local_account(universe)
    account = _Account(universe.framework, universe.delta, losses=losses)
    _ = universe.drawn_before  # with bypassing there is no price for it
    spending = _bypassing(universe, account) if universe.bypass else _measuring(universe)
    if universe.series is not None:
        spending = _Spending(universe.record_budget, {}, {}, None)
    elif universe.reach > 1:
        spending = _moving_by_more(universe, account, spending)
    moved = MOVED[universe.neighbours]
    levels = {level: place_changes(universe, level) for level in spending.places}
    counted = _COUNTED if universe.unit.left_out else ""
    return PrivacyAccount(
        universe=universe.name,
        record=_of_record(universe, account, spending.record),
        attributes=tuple(
            account.statement("attribute", name, spent, _attribute_words(name, change) + counted, change.records)
            for name, spent in spending.attributes.items()
            for change in attribute_changes(universe, name)
        ),
        places=tuple(
            account.statement(
                "place",
                level,
                spent,
                _place_words(universe.level_names[-1], level, change) + counted,
                change.records,
            )
            for level, spent in spending.places.items()
            for change in levels[level]
        ),
        # From rho alone: which of a group's possible shifts has the worst distribution of losses is not known.
        groups=tuple(
            statement_of(
                "group",
                str(size),
                universe.framework,
                group_budget(universe.framework, universe.record_budget, size),
                universe.delta,
                f"what can be learnt about {size} records together, such as a household",
                size,
            )
            for size in GROUP_SIZES
        ),
        comparison=None
        if spending.measured is None
        else account.comparison([use.mechanism for use in spending.measured], moved),
    )


def _of_record(universe: Universe, account: _Account, spent: _Spent) -> Statement:
    """About the smallest change of records that the invariants leave; about nothing where they leave none."""
    change = record_change(universe)
    if change is None:
        return Statement(
            about="record",
            of="",
            budget=str(universe.record_budget),
            epsilon="infinity",
            zcdp=None,
            losses=None,
            records=0,
            words=f"nothing is promised: {vacuous(universe)}",
        )
    return account.statement("record", "", spent, f"the effect of {change_in_words(universe, change)}", change.records)


def _attribute_words(name: str, change: RecordChange) -> str:
    limits = f" ({change.limits})" if change.limits else ""
    if change.records == SWAP:
        of = f" of {change.limits}" if change.limits else ""
        return (
            f"what can be learnt about which of two records{of} has which {name} by someone who knows everything else "
            "about them"
        )
    return f"what can be learnt about one record's {name} by someone who knows the rest of the record{limits}"


def _place_words(lowest: str, level: str, change: RecordChange) -> str:
    if change.records == SWAP:
        of = f" of {change.limits}" if change.limits else ""
        return (
            f"what can be learnt about which of two records{of} is in which {lowest} by someone who knows their "
            f"{level} and both places"
        )
    return f"what can be learnt about a record's {lowest} by someone who knows its {level}"


def _measuring(universe: Universe) -> _Spending:
    """Where every geounit is measured: each measurement that a difference can move."""
    measured, before = universe.uses, universe.drawn_before
    levels = universe.level_names
    moved, uses = MOVED[universe.neighbours], (*universe.uses, *universe.drawn_before)
    return _Spending(
        record=[use.moving(moved) for use in uses],
        attributes={
            name: [use.moving(_MOVES) for use in uses if name in use.attributes] for name in universe.schema.names
        },
        places={
            level: [use.moving(_MOVES) for use in uses if use.level in levels[i + 1 :]]
            for i, level in enumerate(levels[:-1])
        },
        measured=None if before else measured,
    )


def _bypassing(universe: Universe, account: _Account) -> _Spending:
    """Where geounits without siblings are bypassed, for whatever spine.

    Which noise a record meets then depends on where it is, and what it costs as a whole does not. So statements are
    made from rho or epsilon alone, not from the distribution of losses, which depends on how the budget is cut. For an
    attribute the path counts on which most of the budget goes to queries that show it: a geounit that stands for
    several levels spends all their shares on the queries of its own.
    """
    levels = universe.strategy.levels
    per_share = universe.strategy_budget * Fraction(_MOVES, MOVED[universe.neighbours])
    chosen = [use for use in universe.uses if use.chosen]
    shares, names = [level.share for level in levels], universe.level_names
    parts_of = {
        name: [
            sum((m.share for m in level.queries if name in universe.told_by(m.query)), Fraction(0)) for level in levels
        ]
        for name in universe.schema.names
    }
    return _Spending(
        record=universe.record_budget,
        attributes={
            name: per_share * _most_on_queries(shares, parts)
            + account.cost(use.moving(_MOVES) for use in chosen if name in use.attributes)
            for name, parts in parts_of.items()
        },
        places={
            level: per_share * sum(shares[i + 1 :], Fraction(0))
            + account.cost(use.moving(_MOVES) for use in chosen if use.level in names[i + 1 :])
            for i, level in enumerate(names[:-1])
        },
        measured=None,
    )


def _moving_by_more(universe: Universe, account: _Account, spending: _Spending) -> _Spending:
    """Where a record moves each number that it moves by up to R: R^2 times the rho of a move by one, R times epsilon.

    Statements are made from rho or epsilon alone; the distribution of losses is not computed for such moves. A record
    whose attribute or place is another moves two numbers by its amount, which is at most R; what a unit's other records
    are taken down to does not depend on it.
    """
    times = universe.reach ** (2 if account.zcdp else 1)

    def spent(uses: _Spent) -> Fraction:
        return (uses if isinstance(uses, Fraction) else account.cost(uses)) * times

    return _Spending(
        record=universe.record_budget,
        attributes={name: spent(uses) for name, uses in spending.attributes.items()},
        places={level: spent(uses) for level, uses in spending.places.items()},
        measured=None,
    )


def _most_on_queries(shares: Sequence[Fraction], moved: Sequence[Fraction]) -> Fraction:
    """The largest part of the budget that any path spends on some queries.

    Args:
        shares: of each level, top first.
        moved: the part of each level's share that goes to these queries.
    """
    levels = [number for number, share in enumerate(shares) if share]
    best = [Fraction(0)] * (len(levels) + 1)
    for first in range(len(levels) - 1, -1, -1):
        chains = range(first + 1, len(levels) + 1)
        best[first] = max(
            sum((shares[n] for n in levels[first:end]), Fraction(0)) * moved[levels[first]] + best[end]
            for end in chains
        )
    return best[0]


class _Account:
    """Turns sets of uses into statements at one delta."""

    def __init__(self, framework: Framework, delta: Fraction, *, losses: bool) -> None:
        self.zcdp = framework == "zcdp"
        self.losses = self.zcdp and losses
        self.framework = framework
        self.delta = delta if self.zcdp else Fraction(0)

    def statement(self, about: About, of: str, spent: _Spent, words: str, records: int) -> Statement:
        """Of uses by the distribution of losses and by rho; of an amount by that alone.

        A swap of two records moves twice as many numbers by one each as a change of one, see `neighbours`.
        """
        losses = None
        if isinstance(spent, Fraction):
            budget = spent * records
        else:
            uses = [(use, moved * records) for use, moved in spent]
            budget = self.cost(uses)
            losses = pld_epsilon(uses, self.delta) if self.losses else None
        return statement_of(about, of, self.framework, budget, self.delta, words, records, losses)

    def cost(self, uses: Iterable[tuple[Mechanism, int]]) -> Fraction:
        """The cost, rho or epsilon, of uses on so many numbers (or geounits) that move."""
        return sum((use.cost(self.framework, moved) or Fraction(0) for use, moved in uses), Fraction(0))

    def comparison(self, uses: Sequence[Mechanism], moved: int) -> EpsilonComparison | None:
        """By other ways of counting; None where losses are not counted."""
        if not self.losses:
            return None
        rhos = [use.rho(moved) for use in uses]
        rho = sum(rhos, Fraction(0))
        epsilon = one_number_epsilon([(use, moved) for use in uses], self.delta)
        return EpsilonComparison(
            basic=epsilon_text(basic_epsilon(rhos, self.delta)),
            advanced=epsilon_text(advanced_epsilon(rhos, self.delta)),
            moments=epsilon_text(zcdp_epsilon_textbook(rho, self.delta)),
            one_number=None if epsilon is None else epsilon_text(epsilon),
            gaussian=epsilon_text(gaussian_epsilon(rho, self.delta)),
        )


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
        uses = [use.moving(moved) for one in universes for use in (*one.uses, *one.drawn_before)]
        by_losses = pld_epsilon(uses, main.delta)
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

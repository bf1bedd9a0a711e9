"""Every figure that a manifest states about privacy, recomputed from the spec.

Of one person, and one household, over all universes together: noise of different universes is independent, so costs add
up. The budget of a universe is for all records of it that one person alters; g persons together cost g^2 times the rho
or g times the epsilon of one. A household is its members as such a group, and one record of the households' own
universe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

import numpy as np

from auditor.accounting import Use, cost_of, losses_epsilon, zcdp_epsilon
from auditor.draws import draws_of
from auditor.form import Form, Universe
from auditor.reading.findings import FormError, Found, holds, understood
from auditor.reading.values import Stated, as_decimal, exact_sum, zeros
from auditor.release import Release
from auditor.series import distance_problems

#: Digits of an epsilon, and the least step between two of them.
_DIGITS: Final = 4
_TWELVE: Final = Context(prec=12, rounding=ROUND_CEILING)  # as a figure that does not end is stated
_LEAST_STEP: Final = Decimal("0.0001")
#: By what part a bound from rho may be above that recomputed, and one from losses, which are made discrete otherwise.
_LOOSER: Final = Fraction(2, 100_000)
_COARSER: Final = 0.02
#: By which epsilon follows.
_CONVERSIONS: Final = {
    "zcdp": "Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), proposition 12 and corollary 13; rounded up",
    "pure": "none: the budget is epsilon",
}
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w])")


#: A figure as text.
_DECIMAL: Final = re.compile(
    r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?|Infinity|inf(inity)?", re.ASCII | re.IGNORECASE
)


def statement_findings(release: Release) -> Iterator[Found]:
    """Budgets, scales and shares; epsilon from rho and from the losses; and that no words hold another number."""
    stated = {entry["universe"]: entry for entry in release.manifest["privacy"]}
    accounts = {entry["universe"]: entry for entry in release.manifest.get("accounts", ())}
    names = {universe.name for universe in release.form.universes}
    others = [f"statements are about {sorted(about)}, the spec has {sorted(names)}"
              for about in (stated.keys(), accounts.keys()) if about != names]  # fmt: skip
    yield holds("statements", "universes", others)
    for universe in release.form.universes:
        name = universe.title
        if universe.name in stated:
            yield holds("statements", f"{name}: noise", noise_problems(universe, stated[universe.name]))
        if universe.name in accounts:
            yield holds("statements", f"{name}: account", account_problems(universe, accounts[universe.name]))
        if universe.series.periods:
            yield holds("statements", f"{name}: histories", distance_problems(universe.series, universe.moved))
    yield holds("statements", "one person in all universes", person_problems(release.form, release.manifest))
    yield holds("statements", "households", household_problems(release.form, release.manifest))
    if release.manifest["spec"].get("marginals") is not None:
        yield holds("statements", "parts of the budget", parts_problems(release.form, release.manifest["spec"]))


def times_of(universe: Universe) -> Fraction:
    """How many times as much a record costs as one that moves each number by one; of a series, a history."""
    return universe.times(universe.reach) * universe.series.distance


def noise_problems(universe: Universe, stated: Stated) -> list[str]:
    """What is wrong with a universe's statement in `privacy`."""
    problems = []
    costs = (cost_of(one.seen(universe.moved), zcdp=universe.zcdp) for one in draws_of(universe))
    if (whole := exact_sum(costs) * times_of(universe)) != universe.record_budget:
        problems.append(f"what is drawn costs {whole}, the budget of a record is {universe.record_budget}")
    if Fraction(stated["budget"]) != universe.budget or stated["neighbours"] != universe.neighbours:
        problems.append(f"states {stated['budget']} for {stated['neighbours']}, the spec has {universe.budget}")
    if (stated["framework"], stated["conversion"]) != (universe.framework, _CONVERSIONS[universe.framework]):
        problems.append(f"states {stated['framework']}, {stated['conversion']!r:.160}; it is {universe.framework}")
    if not _near_above(decimal_of(stated["delta"]), universe.delta):
        problems.append(f"is for delta = {stated['delta']}, the spec has {universe.delta}")
    words: str = stated["words"]
    alone = not universe.invariants or changes_alone(universe, "record", "")
    budget = universe.budget if alone else 2 * universe.record_budget  # of two that swap
    is_stated = _near_above if universe.zcdp else is_rounded_up
    figures = (Decimal(text) for text in _NUMBER.findall(words) if _DECIMAL.fullmatch(text))
    spent = [number for number in figures if is_stated(number, budget)]
    if not spent and (alone or not words.startswith("Nothing is promised")):
        problems.append(f"its words do not state {budget}, which is spent")
    paid_apart = "" if words.startswith("Nothing is promised") else universe.chosen
    rest = words.replace(paid_apart, "", 1)
    if paid_apart not in words or "except for the upper end" in rest:
        problems.append("its words do not name the question that chose its upper end as the spec does")
    known = {decimal_of(stated["delta"]), *spent, Decimal(universe.together), *universe.series.numbers}
    return problems + strange_numbers(rest, known)


def decimal_of(text: object) -> Decimal:
    """A figure of the manifest; FormError where it is none, or one of which an exact copy would fill the memory."""
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise FormError(f"manifest.json: found {str(text)[:40]!r} among the figures; a decimal number is needed")
    return Decimal(text)


def _near_above(decimal: Decimal, exact: Fraction) -> bool:
    """Whether a decimal is the fraction, rounded up to twelve digits."""
    return exact <= Fraction(decimal) <= exact * (1 + Fraction(1, 10**11))


def is_rounded_up(stated: Decimal, exact: Fraction, looser: Fraction = Fraction(0)) -> bool:
    """Whether an epsilon is the number given, or one that is looser by that part of it, rounded up to its digits."""
    if not stated.is_finite():
        return False
    step = max(Decimal(1).scaleb(stated.adjusted() + 1 - _DIGITS), _LEAST_STEP)
    return exact <= Fraction(stated) < exact * (1 + looser) + Fraction(step)


def strange_numbers(words: str, known: set[Decimal]) -> list[str]:
    """Numbers in a text that are none of those stated as figures."""
    found = []
    for text in _NUMBER.findall(words):
        try:
            number = Decimal(text)
        except InvalidOperation:
            continue
        if number not in known:
            found.append(f"its words hold the number {text}, which is no figure of the statement")
    return found


def account_problems(universe: Universe, account: Stated) -> list[str]:
    """What is wrong with a universe's entry in `accounts`."""
    problems = []
    drawn = list(draws_of(universe))
    levels = [level for level, _, _ in universe.levels]
    due: dict[tuple[str, str], list[Use]] = {("record", ""): [one.seen(universe.moved) for one in drawn]}
    stated: set[tuple[str, str]] = set()
    if not universe.series.periods:  # of attributes and places of histories nothing is stated
        for name, _ in universe.cells.attributes:
            due["attribute", name] = [one.seen(2) for one in drawn if name in one.attributes]
        for number, level in enumerate(levels[:-1]):
            due["place", level] = [one.seen(2) for one in drawn if levels.index(one.level) > number]
    for statement in (account["record"], *account["attributes"], *account["places"]):
        at = statement["about"], statement["of"]
        if at not in due:
            problems.append(f"has a statement about {at}, of which the spec has none")
            continue
        stated.add(at)
        problems += [f"{' '.join(at)}: {p}" for p in _statement_problems(universe, statement, due[at])]
    if not universe.invariants:  # these leave nothing of some differences
        absent = sorted(due.keys() - stated)
        problems += [
            f"has no statement about {at}" for at in absent if at[0] != "attribute" or changes_alone(universe, *at)
        ]
    for statement in account["groups"]:
        size = int(statement["of"])
        budget = universe.record_budget * universe.times(size)
        problems += [f"group of {size}: {p}" for p in figure_problems(universe, statement, budget, None, [size])]
    return problems


def changes_alone(universe: Universe, about: str, of: str) -> bool:
    """Whether one record can change while nothing moves that is published exactly: by itself, or so.

    Args:
        universe: whose impossible cells and exact numbers are kept.
        about, of: what changes, as statements have it: "record", "attribute" and its name, "place" and the level that
            it stays in.
    """
    levels = [level for level, _, _ in universe.levels]
    lowest = max((levels.index(level) for level, _ in universe.invariants), default=-1)
    if about == "place":
        return lowest <= levels.index(of)
    if about == "record" and universe.invariants and universe.neighbours == "add-remove":
        return False  # exact numbers count every record
    if about == "record" and lowest < len(levels) - 1:
        return True  # to another place of the same area
    # Cells between which a record moves unseen have one number: the same exact answers, and the rest of it the same.
    seen = zeros(universe.cells.size)
    for _, query in universe.invariants:
        seen = np.unique(seen * query.size + query.of_cell, return_inverse=True)[1].reshape(-1)
    if about == "attribute":
        names, sizes = zip(*((name, len(values)) for name, values in universe.cells.attributes), strict=True)
        number = names.index(of)
        rest = np.arange(universe.cells.size).reshape(sizes).take([0], axis=number)
        seen = seen * universe.cells.size + np.broadcast_to(rest, sizes).ravel()
    _, many = np.unique(seen[~universe.impossible], return_counts=True)
    return bool((many > 1).any())


def _statement_problems(universe: Universe, statement: Stated, uses: list[Use]) -> list[str]:
    together = statement.get("records", 1)  # two that swap, where invariants leave nothing less
    if together == 0 and universe.invariants:
        return [] if statement["epsilon"] == "infinity" else ["promises something about no record"]
    if together not in ((1, 2) if universe.invariants else (1,)):
        return [f"is about {together} records, and no invariant makes them change together"]
    if universe.invariants:
        alone = changes_alone(universe, statement["about"], statement["of"])
        # Of some values of an attribute one record may have another alone, and two may swap others.
        if (together == 1 and not alone) or (together == 2 and alone and statement["about"] != "attribute"):
            return [f"is about {together} records; one can{'' if alone else 'not'} change alone by the invariants"]
    uses = [(name, scale, moved * together) for name, scale, moved in uses]
    budget = exact_sum(cost_of(use, zcdp=universe.zcdp) for use in uses)
    if universe.bypass and statement["about"] == "attribute":
        budget += together * 2 * universe.rest / universe.moved * _bypassed(universe, statement["of"])
    budget *= times_of(universe)
    by_rho = universe.bypass or universe.reach > 1 or not universe.zcdp or bool(universe.series.periods)
    return figure_problems(universe, statement, budget, None if by_rho else uses)


def _bypassed(universe: Universe, attribute: str) -> Fraction:
    """By how much more of the budget the worst path spends on queries that show an attribute, if levels are bypassed.

    A geounit that stands for some levels, one after the other, spends the shares of all of them on its own queries.
    """
    levels = [
        (share, exact_sum(part for query, part, _ in queries if attribute in universe.kept(query)))
        for _, share, queries in universe.levels
        if share
    ]
    worst = [Fraction(0)]  # of the levels from each one on
    for first in reversed(range(len(levels))):
        shares, shown = [share for share, _ in levels[first:]], levels[first][1]
        worst = [max(exact_sum(shares[:n]) * shown + worst[n - 1] for n in range(1, len(shares) + 1)), *worst]
    return worst[0] - exact_sum(share * shown for share, shown in levels)


def figure_problems(
    universe: Universe,
    statement: Stated,
    budget: Fraction,
    uses: list[Use] | None,
    numbers: Sequence[int] = (),
) -> list[str]:
    """What is wrong with the figures of a statement, and with the numbers in its words.

    Args:
        universe: whose framework and delta the statement has.
        statement: as the manifest has it.
        budget: rho or epsilon that it has to be about.
        uses: all that is drawn, if the distribution of their losses may give its epsilon; None where rho alone may.
        numbers: which its words may hold beside its figures.
    """
    problems = []
    epsilon = decimal_of(statement["epsilon"])
    if Fraction(statement["budget"]) != budget:
        problems.append(f"states the budget {statement['budget']}, it is {budget}")
    known = {epsilon, *map(Decimal, numbers), *universe.series.numbers}
    if not universe.zcdp:
        if not is_rounded_up(epsilon, budget):
            problems.append(f"states epsilon = {epsilon}, it is {budget}")
        return problems + strange_numbers(statement["words"], known)
    known |= {as_decimal(universe.delta), as_decimal(universe.delta, _TWELVE)}
    best, stated = zcdp_epsilon(budget, universe.delta), decimal_of(statement["zcdp"])
    if not is_rounded_up(stated, Fraction(best - Decimal("1e-12")), _LOOSER):
        problems.append(f"states {stated} from rho, it is {best:.6f}")
    figures = [stated]
    if statement["losses"] is not None:
        losses = decimal_of(statement["losses"])
        figures.append(losses)
        between = losses_epsilon(uses, universe.delta) if uses else None
        if between is None and budget:
            problems.append(f"states {losses} from the losses, from which nothing follows here")
        elif between is not None and not between[0] - 1e-3 <= losses <= Decimal(between[1] * (1 + _COARSER) + _COARSER):
            problems.append(f"states {losses} from the losses, they give {between[0]:.4f} to {between[1]:.4f}")
    if epsilon != min(figures):
        problems.append(f"states epsilon = {epsilon}, the least of its bounds is {min(figures)}")
    return problems + strange_numbers(statement["words"], known)


#: Persons in the smallest change that invariants may leave: none, one, or two that swap.
_SWAP: Final = 2


def person_problems(form: Form, manifest: Stated) -> list[str]:
    """What is wrong with `joint`, the statement that the release's one epsilon is taken from."""
    stated = manifest.get("joint")
    if stated is None:
        return ["the manifest has no statement about one person"]
    main, *others = form.universes
    persons, smallest = stated["records"], _persons(manifest, main)
    if (manifest.get("spec") or {}).get("marginals") is not None:
        # All universes have the same records: what changes alone in one of them changes alone.
        smallest = min((_persons(manifest, one) or _SWAP + 1 for one in form.universes), default=0) % (_SWAP + 1)
    if persons != smallest or persons not in ((0, 1, _SWAP) if main.invariants else (1,)):
        return [f"is about {persons} persons, the account of the release about {smallest}"]
    if persons == 0:
        return [] if stated["epsilon"] == "infinity" else ["promises something about no person"]
    if persons == 1:
        budget = exact_sum(one.budget for one in form.universes)
    else:
        # Two who swap are two changes of one record each; of what else they have, any two persons' records change.
        swap = main.budget * (_SWAP if main.together == 1 else main.times(_SWAP))
        budget = swap + exact_sum(one.budget * one.times(_SWAP) for one in others)
    plain = main.zcdp and not main.series.periods
    plain = plain and not any(one.bypass or one.together > 1 or one.reach > 1 for one in form.universes)
    uses = None
    if plain and (persons == 1 or not others):
        uses = [draw.seen(one.moved * persons) for one in form.universes for draw in draws_of(one)]
    return figure_problems(main, stated, budget, uses, [one.together for one in form.universes])


def household_problems(form: Form, manifest: Stated) -> list[str]:
    """What is wrong with `households`."""
    stated = {statement["of"]: statement for statement in manifest.get("households", ())}
    problems = [f"has a statement about {name}, which no join names" for name in stated.keys() - form.households.keys()]
    if len(stated) != len(manifest.get("households", ())):
        problems.append("has two statements about one companion")
    apart = any(universe.invariants and _persons(manifest, universe) != 1 for universe in form.universes)
    for companion, members in form.households.items():
        if companion not in stated:
            if not apart:  # invariants leave no household that changes alone
                problems.append(f"has no statement about a household of {companion}")
            continue
        found = stated[companion]
        if found["records"] != members:
            problems.append(f"{companion}: is about {found['records']} members, joins allow {members}")
        budget = exact_sum(
            one.record_budget if one.name == companion else one.budget * one.times(members) for one in form.universes
        )
        problems += [f"{companion}: {p}" for p in figure_problems(form.universes[0], found, budget, None, [members])]
    return problems


def _persons(manifest: Stated, universe: Universe) -> int | None:
    """How many records change in the smallest change of a universe, as its account has it."""
    accounts = {account["universe"]: account for account in manifest.get("accounts", ())}
    return int(accounts[universe.name]["record"]["records"]) if universe.name in accounts else None


def parts_problems(form: Form, spec: Stated) -> list[str]:
    """Cliques that have another part of what all have at a level, or are measured elsewhere, twice or not at all."""
    section = spec["marginals"]
    with understood("public/manifest.json: its [marginals]"):
        cliques = [frozenset(map(str, clique)) for clique in section["cliques"]]
        of = {**dict.fromkeys(cliques, 1), **_parts(section.get("parts"))}
        at = {str(level): {**of, **_parts(stated)} for level, stated in section.get("parts_at") or ()}
    problems = []
    for level in form.levels:
        spent: dict[frozenset[str], Fraction] = {}
        for universe in form.universes:
            for name, query, part in universe.measured:
                if name == level and part:
                    clique = frozenset(query.names)
                    if clique in spent:
                        problems.append(f"{query.name} is measured twice at {level}")
                    spent[clique] = universe.own_budget * part
        due, whole = at.get(level, of), exact_sum(spent.values())
        for clique in [*due, *(one for one in spent if one not in due)]:
            found, stated = spent.get(clique, Fraction(0)), due.get(clique, 0)
            if found * sum(due.values()) != stated * whole:
                problems.append(
                    f"{' * '.join(sorted(clique))} has {found} of the {whole} of all cliques at {level}; its part is "
                    f"{stated} of {sum(due.values())}"
                )
    return problems


def _parts(stated: Any) -> dict[frozenset[str], int]:
    return {frozenset(term.strip() for term in text.split("*")): int(part) for text, part in stated or ()}

"""What one person, and one household, costs over all universes together, recomputed from the spec.

Noise of different universes is independent, so costs add up. The budget of a universe is for all records of it that one
person alters; g persons together cost g^2 times the rho or g times the epsilon of one. A household is its members as
such a group, and one record of the households' own universe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from auditor.findings import Found, holds
from auditor.form import Form, Universe
from auditor.release import Release
from auditor.statements import figure_problems, uses_of

#: Persons in the smallest change that invariants may leave: none, one, or two that swap.
_SWAP: Final = 2


def together_findings(release: Release) -> Iterator[Found]:
    """What the manifest states about one person in all universes, and about a household of each joined companion."""
    yield holds("statements", "one person in all universes", person_problems(release.form, release.manifest))
    yield holds("statements", "households", household_problems(release.form, release.manifest))


def person_problems(form: Form, manifest: Mapping[str, Any]) -> list[str]:
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
        budget = sum((one.budget for one in form.universes), Fraction(0))
    else:
        # Two who swap are two changes of one record each; of what else they have, any two persons' records change.
        swap = _SWAP * main.budget if main.together == 1 else _of_group(main, _SWAP)
        budget = swap + sum((_of_group(one, _SWAP) for one in others), Fraction(0))
    plain = main.zcdp and main.series is None
    plain = plain and not any(one.bypass or one.together > 1 or one.reach > 1 for one in form.universes)
    uses = None
    if plain and (persons == 1 or not others):
        uses = [(name, scale, moved * persons) for one in form.universes for *_, (name, scale, moved) in uses_of(one)]
        uses += [] if main.cliques is None else [one.seen(main.moved) for one in main.cliques.drawn()]
    return figure_problems(main, stated, budget, uses, [one.together for one in form.universes])


def household_problems(form: Form, manifest: Mapping[str, Any]) -> list[str]:
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
        budget = sum(
            (one.record_budget if one.name == companion else _of_group(one, members) for one in form.universes),
            Fraction(0),
        )
        problems += [f"{companion}: {p}" for p in figure_problems(form.universes[0], found, budget, None, [members])]
    return problems


def _of_group(universe: Universe, persons: int) -> Fraction:
    """What so many persons cost who change together."""
    return universe.budget * persons ** (2 if universe.zcdp else 1)


def _persons(manifest: Mapping[str, Any], universe: Universe) -> int | None:
    """How many records change in the smallest change of a universe, as its account has it."""
    accounts = {account["universe"]: account for account in manifest.get("accounts", ())}
    return int(accounts[universe.name]["record"]["records"]) if universe.name in accounts else None

"""Budgets so large, or promises so empty, that a run wants to be told that they are meant.

A delta is the probability with which a promise may fail altogether. From 1 / (number of records) on, publishing one
record drawn at random, whole, would satisfy it; above 1e-5 it is large for any population. The number of records is
confidential unless it is public: only a declared `population` is used, never the records.

rho above 5 is about twice what the 2020 redistricting data of the US spent on persons and housing units together (2.56
and 0.07): epsilon is then above 25 at delta = 1e-10. Pure epsilon above 10 lets the odds of a guess grow 22,000-fold. A
larger budget may be right, and is never an accident. Of reports beside a central release both are meant, each by itself
and together.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from pipeline.privacy.accounting.local import budget_of_both
from pipeline.privacy.accounting.neighbours import vacuous
from pipeline.privacy.budget import BUDGET_NAMES, rounded_text

if TYPE_CHECKING:
    from pipeline.model.universe import Universe


LARGEST_DELTA: Final = Fraction(1, 100_000)
LARGEST_RHO: Final = Fraction(5)
LARGEST_EPSILON: Final = Fraction(10)
#: Framework -> what its budget is called, and the largest one.
_LARGEST: Final = {
    framework: (name, LARGEST_RHO if name == "rho" else LARGEST_EPSILON) for framework, name in BUDGET_NAMES.items()
}


def beyond_limits(universes: Sequence[Universe]) -> tuple[str, ...]:
    """What is beyond the limits, a sentence each without its full stop, beginning with its key in the spec.

    Args:
        universes: the release's own first, then its companions.
    """
    main = universes[0]
    found = []
    if main.delta > LARGEST_DELTA:
        found.append(f"privacy.delta: found {_text(main.delta)}; at most {_text(LARGEST_DELTA)} is usual")
    if main.population is not None and main.delta * main.population >= 1:
        found.append(
            f"privacy.delta: found {_text(main.delta)}; it must be less than 1 / {main.population:,}, the population: "
            "a release that shows a record drawn at random would satisfy it"
        )
    name, largest = _LARGEST[main.framework]
    key = "collect.parameters" if main.framework == "local" else f"privacy.{name}"
    spent = sum((one.budget for one in universes), Fraction(0))
    if spent > largest:
        together = " over all universes" if len(universes) > 1 else ""
        found.append(f"{key}: found {_text(spent)}{together}; at most {_text(largest)} is usual")
    for release in main.source.releases:
        (name, largest), both = _LARGEST[release.framework], budget_of_both(release, main.budget)
        if both > largest:
            found.append(
                f"collect.central.{name}: found {_text(both)} with one report; at most {_text(largest)} is usual"
            )
    for one in universes:
        if reason := vacuous(one):
            found.append(f"{one.key('invariants')}: {reason}")
    return tuple(found)


def _text(value: Fraction) -> str:
    return rounded_text(value, 6)

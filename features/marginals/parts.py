"""The part of the budget that each clique has: of all of it, or of each level's share.

A level has its share of the budget, and of that a clique its part of the sum of all parts there: with shares s and
parts p, clique c has s p / (sum of p) at a level, which over all cliques and levels is the whole, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from features.marginals.domain import Clique, Domain
from features.marginals.section import MarginalsSection
from geography.errors import InputError
from pipeline.model.query import terms_of
from pipeline.spec.fields import Misfit
from pipeline.spec.problems import dotted, unknown

__all__ = ["Parts", "Portion"]


@dataclass(frozen=True)
class Portion:
    """What some cliques have of the budget of all.

    Attributes:
        budget: as a part of the whole.
        levels: level -> its share of that, and of each clique that is measured there, its share of the level's.
    """

    budget: Fraction
    levels: Mapping[str, tuple[Fraction, Mapping[Clique, Fraction]]]


@dataclass(frozen=True)
class Parts:
    """Parts of the budget of all cliques.

    Attributes:
        of: of each clique at every level that `at` does not name.
        at: level -> clique -> its part there, 0 where it is not measured.
    """

    of: Mapping[Clique, int]
    at: Mapping[str, Mapping[Clique, int]]

    @classmethod
    def stated(
        cls, section: MarginalsSection, domain: Domain, cliques: Sequence[Clique], levels: Sequence[str]
    ) -> Parts:
        """Those of a section, 1 where none is stated; Misfit for what is no clique or level, or leaves one nothing."""
        of = {**dict.fromkeys(cliques, 1), **_of_cliques(section.parts or {}, ["parts"], domain, cliques)}
        at: dict[str, Mapping[Clique, int]] = {}
        for level, stated in (section.parts_at or {}).items():
            key = ["parts_at", level]
            if level not in levels:
                raise Misfit((dotted(["marginals", *key]), unknown("level", level, levels, are="the levels are")))
            at[level] = {**of, **_of_cliques(stated, key, domain, cliques)}
            if not any(at[level].values()):
                raise Misfit(
                    (dotted(["marginals", *key]), "no clique has a part at this level; one at least needs one")
                )
        return cls(of, at)

    def part(self, clique: Clique, level: str) -> int:
        """Of a clique at a level."""
        return self.at[level][clique] if level in self.at else self.of[clique]

    def whole(self, level: str) -> int:
        """The sum of all parts at a level."""
        return sum(self.at.get(level, self.of).values())

    def unused(self, domain: Domain, shares: Mapping[str, Fraction]) -> tuple[str, str] | None:
        """The key of `[marginals]` of parts that nothing can come of, and why; None where there are none."""
        if empty := [level for level in self.at if not shares.get(level)]:
            return dotted(
                ["parts_at", empty[0]]
            ), "this level has no share of the budget, so there is nothing to divide"
        measured = [level for level, share in shares.items() if share]
        if never := [one for one in self.of if not any(self.part(one, level) for level in measured)]:
            return "parts_at", f"{domain.text(never[0])} would be measured at no level; at one at least it needs a part"
        return None

    def portion(self, cliques: Sequence[Clique], shares: Mapping[str, Fraction]) -> Portion:
        """What some cliques have, where each level has its share of the budget of all."""
        own = {level: sum(self.part(clique, level) for clique in cliques) for level in shares}
        spent = {level: share * Fraction(own[level], self.whole(level)) for level, share in shares.items()}
        budget = sum(spent.values(), Fraction(0))
        found: dict[str, tuple[Fraction, Mapping[Clique, Fraction]]] = {}
        for level in shares:
            parts = {one: self.part(one, level) for one in cliques if self.part(one, level) and shares[level]}
            found[level] = (
                spent[level] / budget if budget else Fraction(0),
                {clique: Fraction(part, own[level]) for clique, part in parts.items()},
            )
        return Portion(budget, found)


def _of_cliques(
    stated: Mapping[str, int], place: Sequence[str], domain: Domain, cliques: Sequence[Clique]
) -> dict[Clique, int]:
    parts: dict[Clique, int] = {}
    for text, part in stated.items():
        key = dotted(["marginals", *place, text])
        try:
            clique = domain.clique(terms) if (terms := terms_of(text)) else ()
        except InputError as error:
            raise Misfit((key, str(error).partition(": ")[2])) from None
        if clique not in cliques:
            known = ", ".join(map(domain.query, cliques))
            raise Misfit((key, f"found {text!r}, which is no clique; allowed are {known}"))
        if clique in parts:
            raise Misfit((key, f"found a part of {domain.text(clique)} twice; each clique has one"))
        parts[clique] = part
    return parts

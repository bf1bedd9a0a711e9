"""The 2020 production strategy over the histogram of a P.L. 94-171 summary file, which has no group quarters in it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pipeline.spec.preset import load_preset

#: Queries of the production strategy on group quarters alone; what they cost goes to the group quarters' histogram.
QUARTERS_QUERIES = ("hhinstlevels", "hhgq")
#: The production's queries of all four attributes, and of the three without group quarters: here they are one.
_DETAILED = ("votingage * hispanic * cenrace", "detailed")


@dataclass(frozen=True)
class Shares:
    """A budget and its division: rho, level -> share, level -> query -> share of the level's."""

    rho: Fraction
    levels: dict[str, Fraction]
    queries: dict[str, dict[str, Fraction]]


def preset_name(state_code: str) -> str:
    """The production run that a state was part of."""
    return "pl94-2020-pr" if state_code == "72" else "pl94-2020-us"


def divide(preset: str, level_names: tuple[str, ...]) -> tuple[Shares, Shares]:
    """The shares of the persons' histogram and of the group quarters'.

    Every query is measured with the production's exact rho; together the two cost what the production costs at these
    levels. With group quarters summed out, the production's two finest queries are the same, so their shares add up.
    """
    loaded = load_preset(preset)
    matched = loaded.match_levels(level_names)
    persons: dict[str, dict[str, Fraction]] = {}
    quarters: dict[str, dict[str, Fraction]] = {}
    for name, level in matched.items():
        persons[name], quarters[name] = {}, {}
        for query, share in level.queries:
            rho = loaded.rho * level.share * share
            if query in QUARTERS_QUERIES:
                quarters[name][query] = rho
            else:
                own_query = "detailed" if query in _DETAILED else query
                persons[name][own_query] = persons[name].get(own_query, Fraction(0)) + rho
    return _shares(persons), _shares(quarters)


def _shares(rhos: dict[str, dict[str, Fraction]]) -> Shares:
    """Shares of rhos by level and query."""
    of_level = {level: sum(queries.values(), Fraction(0)) for level, queries in rhos.items()}
    rho = sum(of_level.values(), Fraction(0))
    return Shares(
        rho,
        {level: own / rho for level, own in of_level.items()},
        {level: {query: own / of_level[level] for query, own in queries.items()} for level, queries in rhos.items()},
    )

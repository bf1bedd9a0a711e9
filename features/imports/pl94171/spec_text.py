"""The spec of a release of a P.L. 94-171 summary file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from features.imports.pl94171.layout import SPINE_LEVELS
from features.imports.toml_text import assigned, commented, exact, key, listed, quoted, shares
from pipeline.exchange.pl94171_tables import QUARTERS, RACES
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


_HEAD = """
{state} {year}: the P.L. 94-171 redistricting data of {n_blocks:,} blocks, written by `spinewise import pl94171`.
File names are relative to this file.

Persons are counted by voting age, Hispanic origin and race, 252 cells a block, exactly as tables P1 to P4 state them.
{others}
What is measured, and with what noise, is the 2020 production strategy ({preset}) with group quarters summed out: the
same exact rho for every query at every level that is here.
"""
_QUARTERS_NOTE = """
Persons in group quarters by type (P5). The tables do not link them to the histogram above, so this is a
histogram of its own, with what the production spends on its queries of group quarters alone: together with privacy.rho
above it is the production's budget at these levels. A person in group quarters is in both histograms; their rhos add
up. The noise is large below the county. For better totals give this more, and the persons less.
"""
_UNITS_NOTE = """
Housing units (H1), with the strategy of the production. Their number in each block is published exactly, as in 2020.
"""


def spec_text(
    *, state: str, state_code: str, year: str, n_blocks: int, with_quarters: bool, named: Sequence[str] = ()
) -> str:
    """The text of release.toml, which is written beside blocks, persons, units and quarters, all .parquet.

    `named` are the levels whose names are in names.parquet.
    """
    preset = preset_name(state_code)
    persons, quarters = divide(preset, tuple(SPINE_LEVELS))
    others = (
        "Persons in group quarters by type (P5) and housing units (H1) are histograms of their own, further down.\n"
        if with_quarters
        else "Housing units (H1) are a histogram of their own, further down; group quarters were new in 2020.\n"
    )
    head = _HEAD.format(state=state.upper(), year=year, n_blocks=n_blocks, preset=preset, others=others.rstrip())
    lines = [
        commented(head),
        "",
        assigned("name", quoted(f"{state}-{year}-pl94"), "names the release's folder"),
        "",
        "[privacy]",
        assigned("rho", exact(persons.rho), f"about {float(persons.rho):.4f}; exact numbers are written in quotes"),
        assigned("delta", quoted("1e-10"), "for the (epsilon, delta) statement"),
        assigned("neighbours", quoted("change-one"), "protected: the content of one person's record"),
        commented('dataset = "..."   the ledger\'s name for these persons; then the run is charged to it'),
        "",
        "[geography]                                 # every block of the file, also the empty ones",
        assigned("file", quoted("blocks.parquet")),
        assigned("column", quoted("block")),
        f"levels = {{ {', '.join(f'{name} = {length}' for name, length in SPINE_LEVELS.items())} }}",
        "",
        commented(
            "off_spine.parquet lists the blocks of each place and American Indian area, for [geography.regroup]."
        ),
        "",
        *(_names_lines(named) if named else []),
        "[provenance.inputs]",
        *(['names = { source = "public", from = "the geographic header of the summary file" }'] if named else []),
        'geography = { source = "public", from = "the geographic header of the summary file" }',
        'schema = { source = "public", from = "the tables of the summary file" }',
        "",
        "[schema.attributes]",
        listed("votingage", ("under18", "18plus")),
        listed("hispanic", ("not_hispanic", "hispanic")),
        "# One race, two races ... all six, in the order of table P1.",
        listed("cenrace", RACES),
        "",
        f"# The strategy is that of the preset {preset}.",
        *_strategy("strategy", persons),
        "[invariants]",
        assigned("state", '["total"]', "published exactly, as in 2020: no noise, no protection"),
        "",
        "[input]",
        *_input("persons.parquet"),
        "",
        "[tables]                                    # what is published, besides the histograms",
        *(assigned(name, quoted(query)) for name, query in _TABLES.items()),
        "",
    ]
    if with_quarters:
        lines += _quarters_lines(quarters)
    lines += _units_lines(preset)
    return "\n".join(lines).rstrip() + "\n"


def _names_lines(named: Sequence[str]) -> list[str]:
    source = '{ file = "names.parquet", code = "geocode", name = "name" }'
    head = "[geography.names]                           # as the header has them"
    return [head, *(f"{level} = {source}" for level in named), ""]


_TABLES = {
    "total": "total",
    "race": "cenrace",
    "ethnicity": "hispanic * cenrace",
    "votingage": "votingage * hispanic",
    "detail": "detailed",
}


def _strategy(prefix: str, division: Shares) -> list[str]:
    """A table for each level."""
    lines: list[str] = []
    for level, share in division.levels.items():
        lines += [f"[{prefix}.levels.{level}]", assigned("share", exact(share)), ""]
        lines += [f"[{prefix}.levels.{level}.queries]", *shares(division.queries[level]), ""]
    return lines


def _input(file: str) -> list[str]:
    return [
        assigned("file", quoted(file)),
        assigned("form", quoted("long"), "one row a cell that is not empty, with its count"),
        assigned("geocode", quoted("block")),
        assigned("count", quoted("count")),
        assigned("coded", "true", "the columns hold the values' numbers, from 0 in the order above"),
    ]


def _quarters_lines(division: Shares) -> list[str]:
    section = "companions.quarters"
    attribute_of = {"hhinstlevels": "institution", "hhgq": "detailed"}
    renamed = Shares(
        division.rho,
        division.levels,
        {
            level: {attribute_of[query]: share for query, share in own.items()}
            for level, own in division.queries.items()
        },
    )
    return [
        commented(_QUARTERS_NOTE),
        "",
        f"[{section}.privacy]",
        assigned("rho", exact(division.rho), f"about {float(division.rho):.4f}"),
        "",
        f"[{section}.schema.attributes]",
        listed("quarters", [value for group in QUARTERS.values() for value in group]),
        "",
        f"[{section}.schema.recodes.institution]",
        assigned("attribute", quoted("quarters")),
        "",
        f"[{section}.schema.recodes.institution.groups]",
        *(listed(key(label), values) for label, values in QUARTERS.items()),
        "",
        *_strategy(f"{section}.strategy", renamed),
        f"[{section}.input]",
        *_input("quarters.parquet"),
        "",
        f"[{section}.tables]",
        assigned("quarters", quoted("quarters")),
        "",
    ]


def _units_lines(preset: str) -> list[str]:
    section = "companions.units"
    return [
        commented(_UNITS_NOTE),
        "",
        f"[{section}]",
        assigned("strategy", quoted(f"{preset}-units")),
        assigned("invariants", '{ block = ["total"] }'),
        "",
        f"[{section}.schema.attributes]",
        listed("status", ("occupied", "vacant")),
        "",
        f"[{section}.input]",
        *_input("units.parquet"),
        "",
        f"[{section}.tables]",
        assigned("units", quoted("status")),
        "",
    ]

"""The spec of a release of a P.L. 94-171 summary file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from features.imports.pl94171.summary_file import SPINE_LEVELS
from features.imports.toml_text import assigned, commented, exact, filled, key, listed, quoted, shares, table_inline
from pipeline.exchange.pl94171_tables import QUARTERS, RACES
from pipeline.spec.preset import load_preset

#: Queries of the production strategy on group quarters alone; what they cost goes to the group quarters' histogram.
QUARTERS_QUERIES = ("hhinstlevels", "hhgq")
#: The production's queries of all four attributes, and of the three without group quarters: here they are one.
_DETAILED = ("votingage * hispanic * cenrace", "detailed")


@dataclass(frozen=True)
class BudgetShares:
    """A budget and its division: rho, level -> share, level -> query -> share of the level's."""

    rho: Fraction
    levels: dict[str, Fraction]
    queries: dict[str, dict[str, Fraction]]


def divide(preset: str, level_names: tuple[str, ...]) -> tuple[BudgetShares, BudgetShares]:
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
        for query, measured in level.queries.items():
            rho = loaded.rho * level.share * measured.share
            if query in QUARTERS_QUERIES:
                quarters[name][query] = rho
            else:
                own_query = "detailed" if query in _DETAILED else query
                persons[name][own_query] = persons[name].get(own_query, Fraction(0)) + rho
    return _shares(persons), _shares(quarters)


def _shares(rhos: dict[str, dict[str, Fraction]]) -> BudgetShares:
    """Shares of rhos by level and query."""
    of_level = {level: sum(queries.values(), Fraction(0)) for level, queries in rhos.items()}
    rho = sum(of_level.values(), Fraction(0))
    return BudgetShares(
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
_WITH_QUARTERS = (
    "Persons in group quarters by type (P5) and housing units (H1) are histograms of their own, further down."
)
_WITHOUT = "Housing units (H1) are a histogram of their own, further down; group quarters were new in 2020."
_SPEC = """
$head

$name

[privacy]
$rho
delta = "1e-10"                             # for the (epsilon, delta) statement
neighbours = "change-one"                   # protected: the content of one person's record
# dataset = "..."   the ledger's name for these persons; then the run is charged to it

[geography]                                 # every block of the file, also the empty ones
file = "blocks.parquet"
column = "block"
$levels

# off_spine.parquet lists the blocks of each place and American Indian area, for [geography.regroup].

$names
[provenance.inputs]
$names_from
geography = { source = "public", from = "the geographic header of the summary file" }
schema = { source = "public", from = "the tables of the summary file" }

[schema.attributes]
votingage = ["under18", "18plus"]
hispanic = ["not_hispanic", "hispanic"]
# One race, two races ... all six, in the order of table P1.
$races

$preset
$strategy
[invariants]
state = ["total"]                           # published exactly, as in 2020: no noise, no protection

[input]
file = "persons.parquet"
$input
[tables]                                    # what is published, besides the histograms
total = "total"
race = "cenrace"
ethnicity = "hispanic * cenrace"
votingage = "votingage * hispanic"
detail = "detailed"

$quarters
# Housing units (H1), with the strategy of the production. Their number in each block is published exactly, as in 2020.

[companions.units]
$units_strategy
invariants = { block = ["total"] }

[companions.units.schema.attributes]
status = ["occupied", "vacant"]

[companions.units.input]
file = "units.parquet"
$input
[companions.units.tables]
units = "status"
"""
_QUARTERS = """
# Persons in group quarters by type (P5). The tables do not link them to the histogram above, so this is a
# histogram of its own, with what the production spends on its queries of group quarters alone: together with
# privacy.rho above it is the production's budget at these levels. A person in group quarters is in both histograms;
# their rhos add up. The noise is large below the county. For better totals give this more, and the persons less.

[companions.quarters.privacy]
$rho

[companions.quarters.schema.attributes]
$types

[companions.quarters.schema.recodes.institution]
attribute = "quarters"

[companions.quarters.schema.recodes.institution.groups]
$institution

$strategy
[companions.quarters.input]
file = "quarters.parquet"
$input
[companions.quarters.tables]
quarters = "quarters"
"""
#: How the three files of records are written.
_INPUT = (
    'form = "long"                               # one row a cell that is not empty, with its count',
    'geocode = "block"',
    'count = "count"',
    "coded = true                                # the columns hold the values' numbers, from 0 in the order above",
    "",
)


def spec_text(
    *, state: str, state_code: str, year: str, n_blocks: int, with_quarters: bool, named: Sequence[str] = ()
) -> str:
    """The text of release.toml, which is written beside blocks, persons, units and quarters, all .parquet.

    `named` are the levels whose names are in names.parquet.
    """
    preset = "pl94-2020-pr" if state_code == "72" else "pl94-2020-us"
    persons, quarters = divide(preset, tuple(SPINE_LEVELS))
    others = _WITH_QUARTERS if with_quarters else _WITHOUT
    head = _HEAD.format(state=state.upper(), year=year, n_blocks=n_blocks, preset=preset, others=others)
    names = [f'{level} = {{ file = "names.parquet", code = "geocode", name = "name" }}' for level in named]
    source = {"source": "public", "from": "the geographic header of the summary file"}
    rho = assigned("rho", exact(persons.rho), f"about {float(persons.rho):.4f}; exact numbers are written in quotes")
    return filled(
        _SPEC,
        head=[commented(head)],
        name=[assigned("name", quoted(f"{state}-{year}-pl94"), "names the release's folder")],
        rho=[rho],
        levels=[f"levels = {{ {', '.join(f'{name} = {length}' for name, length in SPINE_LEVELS.items())} }}"],
        names=["[geography.names]                           # as the header has them", *names, ""] if named else [],
        names_from=[table_inline("names", source)] if named else [],
        races=[listed("cenrace", RACES)],
        preset=[f"# The strategy is that of the preset {preset}."],
        strategy=_strategy("strategy", persons),
        input=_INPUT,
        quarters=_quarters(quarters) if with_quarters else [],
        units_strategy=[assigned("strategy", quoted(f"{preset}-units"))],
    )


def _strategy(prefix: str, division: BudgetShares) -> list[str]:
    """A table for each level."""
    lines: list[str] = []
    for level, share in division.levels.items():
        lines += [f"[{prefix}.levels.{level}]", assigned("share", exact(share)), ""]
        lines += [f"[{prefix}.levels.{level}.queries]", *shares(division.queries[level]), ""]
    return lines


def _quarters(division: BudgetShares) -> list[str]:
    attribute_of = {"hhinstlevels": "institution", "hhgq": "detailed"}
    queries = {
        level: {attribute_of[query]: share for query, share in own.items()} for level, own in division.queries.items()
    }
    text = filled(
        _QUARTERS,
        rho=[assigned("rho", exact(division.rho), f"about {float(division.rho):.4f}")],
        types=[listed("quarters", [value for group in QUARTERS.values() for value in group])],
        institution=[listed(key(label), values) for label, values in QUARTERS.items()],
        strategy=_strategy("companions.quarters.strategy", replace(division, queries=queries)),
        input=_INPUT,
    )
    return [text]

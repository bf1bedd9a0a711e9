"""The spec of a release of a table, with comments for the person who edits it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from features.imports.tables.areas import Areas
from features.imports.tables.attributes import AttributeColumn, attribute_name
from features.imports.tables.databases import is_database
from features.imports.tables.statement import TableStatement
from features.imports.toml_text import assigned, commented, exact, filled, key, listed, quoted, shares, table_inline
from pipeline.spec.value_ranges import collapse_numbers

#: Cells up to which a table of all attributes is published by default.
_MOST_PUBLISHED = 300


@dataclass(frozen=True)
class RecordsOf:
    """Persons, or households.

    Attributes:
        attributes: in order.
        file: the records, as the spec names them.
        geocode: the column of leaf codes.
        form: "microdata" or "long".
        count: the column of counts of the long form.
        left_out: columns that are not attributes, and why.
        size: of households, the attribute that is the number of their persons.
        expect: how many records and areas there are; None where nobody has stated it.
        by_pairs: whether pairs of attributes are measured, which a run chooses, since all together have too many cells.
    """

    attributes: tuple[AttributeColumn, ...]
    file: str
    geocode: str
    form: str
    count: str | None = None
    left_out: tuple[str, ...] = ()
    size: AttributeColumn | None = None
    expect: tuple[int, int] | None = None
    by_pairs: bool = False


_HEAD = """
{decide}
A release spec for {source},
written by `spinewise import table`. Read it before it runs. What was stated is in import.toml.
"""
_TO_DECIDE = (
    "To be decided before it runs: whether {inputs}, which {were} made from the records, may be published: "
    "see [provenance]."
)
_NOTHING_TO_DECIDE = "It runs as it is."
_SPEC = """
$head

$name

# What a release costs, in privacy loss: decide it before you look at any result. 1 is a start; more is more accurate.
[privacy]
rho = "1"                                   # exact numbers are written in quotes
neighbours = "change-one"                   # protected: the content of one record
# dataset = "..."   the ledger's name for these records; then the run is charged to it

$areas
[geography]
file = "areas.parquet"
$levels
$names

[provenance]                               # where what is published without noise comes from
$made

[provenance.inputs]
$inputs

$persons
$households
[postprocess]
passes = ["total"]                          # the total of each area is fixed first: sums of many small cells keep it

# [report]                                 # what readers see: who publishes it, and how it is cited
# title = "Persons by area"
# publisher = "Statistics Office"
# reference_date = 2030-04-01               # the day to which the counts refer
"""
_AREAS_OF_RECORDS = """
The list of areas was made from the records, and it is published with the release: an area in it reveals that
someone lives there, and areas without records are missing. Put a public list of all areas in its place.
"""
_AREAS_GIVEN = "The public list of all areas, also the empty ones."
_MADE = """
What was made from the records shows who is in them, whatever the noise. A run refuses it until there is a public list
in its place (source = "public"), or until you accept it here:
"""
_VALUES_GIVEN = "The values of the public list; their order is that of the histogram."
_VALUES = """
The values were found in the records, and they are published. Make them those of a public code list: add values that
no record has, and remove values that identify someone. Their order is that of the histogram.
"""
_HOUSEHOLDS = """
# Households are a histogram of their own, measured in the same run with a budget of its own. A person who leaves one
# household for another changes two of them; the noise is made for that, so a person's change costs both budgets
# together.
[companions.households]
records_per_person = 2                      # a person who moves changes the household left and the one joined

[companions.households.privacy]
rho = "1"

$universe
$join
"""
_JOIN = """
# Persons and households agree in every area: each household has as many members as its size says, and everybody lives
# in one.
[[join]]
companion = "households"
$size
$most
"""
_BY_PAIRS = """
All attributes together have too many cells to be measured. Pairs of them are, in every area, and along these whole
records are drawn. Which pairs is chosen from the records when it is run, privately, for these parts of the budget, and
nothing about it was read from the records here. A number that is within no pair is a guess, without an interval. Where
you know which attributes go together, state it in place of the choice: [marginals] with cliques = [["a", "b"], ...].
"""
#: Of the budget: what the choice of pairs costs, and the noisy tables of single attributes that it is made by.
_CHOICE = {"share": (Fraction(1, 10), "the choices"), "attributes_share": (Fraction(1, 20), "what they are made by")}
#: Members of the largest households, if nothing is known of them.
_MOST_MEMBERS = 20


def table_spec(
    stated: TableStatement,
    areas: Areas,
    origins: Mapping[str, tuple[str, str]],
    persons: RecordsOf,
    households: RecordsOf | None,
) -> str:
    """The text of release.toml, which is written beside areas.parquet.

    Args:
        stated: what the user states of the table.
        areas: as they are in areas.parquet.
        origins: public input -> "public" or "records", and where it is from.
        persons: what is counted.
        households: and of those, where there are some.
    """
    made = [one for one, (kind, _) in origins.items() if kind == "records"]
    decide = _NOTHING_TO_DECIDE
    if made:
        decide = _TO_DECIDE.format(inputs=" and ".join(made), were="was" if len(made) == 1 else "were")
    head = [commented(_HEAD.format(source=stated.label, decide=decide))]
    if stated.query is not None:
        head += ["# The query:", *(commented(f"    {line}") for line in stated.query.strip().splitlines())]
    name, levels = "release" if is_database(stated.source) else Path(stated.source).name.split(".")[0], areas.levels
    name = stated.name or attribute_name(name, ()).lower().replace("_", "-")
    names = ["", "[geography.names]                           # columns of areas.parquet with the areas' names"]
    names += [assigned(level, quoted(column)) for level, column in areas.names.items()]
    return filled(
        _SPEC,
        head=head,
        name=[assigned("name", quoted(name), "names the release's folder")],
        areas=[commented(_AREAS_GIVEN if origins["geography"][0] == "public" else _AREAS_OF_RECORDS)],
        levels=[listed("levels", levels)],
        names=names if areas.names else [],
        made=[commented(_MADE), f"# accept = [{', '.join(map(quoted, made))}]"] if made else [],
        inputs=[table_inline(one, {"source": kind, "from": where}) for one, (kind, where) in origins.items()],
        persons=_universe("", persons, levels, public=origins["schema"][0] == "public"),
        households=[] if households is None else _of_households(households, levels, origins),
    )


def _of_households(households: RecordsOf, levels: Sequence[str], origins: Mapping[str, tuple[str, str]]) -> list[str]:
    prefix, joined = "companions.households.", []
    public = origins[f"{prefix}schema"][0] == "public"
    if (size := households.size) is not None:
        most = [
            assigned(
                "most",
                str(max(_MOST_MEMBERS, 2 * int(label[:-1]))),
                f"the most persons that {label} stands for; change it if it can be more",
            )
            for label in size.values
            if label.endswith("+")
        ]
        joined = filled(_JOIN, size=[assigned("size", quoted(size.name))], most=most).splitlines()
    return [filled(_HOUSEHOLDS, universe=_universe(prefix, households, levels, public=public), join=joined)]


def _universe(prefix: str, universe: RecordsOf, levels: Sequence[str], *, public: bool) -> list[str]:
    lines = [commented(_VALUES_GIVEN if public else _VALUES), f"[{prefix}schema.attributes]"]
    for attribute in universe.attributes:
        if attribute.about:
            lines.append(f"# {attribute.about}")
        lines.append(listed(attribute.name, attribute.values))
    lines += [commented(f"left out: {text}") for text in universe.left_out]
    levels_lines = [
        f"[{prefix}strategy.levels]{'':<9} # each level's share of the budget, top first; adds up to 1",
        *shares(dict.fromkeys(levels, Fraction(1, len(levels)))),
    ]
    if universe.by_pairs:
        lines += ["", commented(_BY_PAIRS), "[marginals.choose]"]
        lines += [assigned(name, exact(share), about) for name, (share, about) in _CHOICE.items()]
        lines += ["", *levels_lines]
    else:
        names = [attribute.name for attribute in universe.attributes]
        lines += [
            "",
            f"[{prefix}strategy.queries]{'':<8} # what is measured at every level, and its share; adds up to 1",
            *shares(_query_shares(names, _n_cells(universe))),
            *("", *levels_lines, "", *_tables(prefix, universe)),
        ]
    return [*lines, "", *_input(prefix, universe), ""]


def _tables(prefix: str, universe: RecordsOf) -> list[str]:
    """What is published."""
    names, n_cells = [attribute.name for attribute in universe.attributes], _n_cells(universe)
    lines = [
        f"[{prefix}tables]{'':<18} # what is published, besides the histograms; a query each",
        assigned("total", quoted("total")),
        *(assigned(name, quoted(name)) for name in names if n_cells > 1),
    ]
    if len(names) > 1:
        detail = next(name for name in ("all", "every", "everything") if name not in map(str.casefold, names))
        line = assigned(detail, quoted("detailed"))
        lines.append(line if n_cells <= _MOST_PUBLISHED else f"# {line}   a table with {n_cells:,} columns")
    return lines


def _n_cells(universe: RecordsOf) -> int:
    return math.prod(len(attribute.values) for attribute in universe.attributes)


def _query_shares(names: Sequence[str], n_cells: int) -> dict[str, Fraction]:
    """A quarter for the total, a quarter for the attributes one by one, half for the detail."""
    if n_cells == 1:
        return {"total": Fraction(1)}
    if len(names) == 1:
        return {"total": Fraction(1, 2), "detailed": Fraction(1, 2)}
    each = Fraction(1, 4 * len(names))
    return {"total": Fraction(1, 4), **dict.fromkeys(names, each), "detailed": Fraction(1, 2)}


def _input(prefix: str, universe: RecordsOf) -> list[str]:
    about = {"microdata": "a row a record", "long": "a row a cell, with its count"}
    lines = [
        f"[{prefix}input]",
        assigned("file", quoted(universe.file)),
        assigned("form", quoted(universe.form), about[universe.form]),
        assigned("geocode", quoted(universe.geocode), "the column of leaf codes"),
    ]
    if not prefix and universe.expect is None:
        lines.append(assigned("expect", quoted("unproved"), "fill in before it runs: { records = N, areas = M }"))
    elif universe.expect is not None:
        records, areas = universe.expect
        lines.append(f"expect = {{ records = {records}, areas = {areas} }}")
    if universe.count is not None:
        lines.append(assigned("count", quoted(universe.count)))
    if columns := {a.name: a.column for a in universe.attributes if a.name != a.column}:
        lines.append(table_inline("columns", columns))
    for attribute in universe.attributes:
        if attribute.mapped:
            mapped = collapse_numbers(attribute.mapped)
            lines += ["", f"[{prefix}input.values.{key(attribute.name)}]{'':<6} # in the file = in the schema"]
            lines += [assigned(text, quoted(value)) for text, value in mapped.items()]
    return lines

"""`spinewise import ...`: from existing files to a folder with a spec that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import Output

if TYPE_CHECKING:
    from features.imports.folder import Imported


app = typer.Typer(
    short_help="Write a release spec for existing files.",
    name="import",
    help="""Write a release spec for existing files: census summary files, flows, tables or database queries.

    Example:

        spinewise import pl94171 ri2020.pl.zip --out ri2020
    """,
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(commands: typer.Typer) -> None:
    """Add the group of commands."""
    commands.add_typer(app)


OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="A new or empty folder.")]


@app.command("flows")
def import_flows_command(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(help="A CSV or Parquet file of flows, such as commuters.", metavar="FILE", show_default=False),
    ],
    out: OutOption,
    origin: Annotated[str, typer.Option("--from", metavar="COLUMN", help="The column of where a flow begins.")],
    destination: Annotated[str, typer.Option("--to", metavar="COLUMN", help="The column of where it ends.")],
    levels: Annotated[
        str,
        typer.Option(
            metavar="NAME=LENGTH,...",
            help="Levels of the areas, top first, by length of their codes (county=5,tract=11), or as columns of "
            "--areas (county,town,tract).",
        ),
    ],
    count: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of counts. [default: a row is one flow]")
    ] = None,
    areas: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The public list of all areas. [default: those of the flows]"),
    ] = None,
    geocode: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The list's column with the codes that the flows have. [default: the lowest level's]",
        ),
    ] = None,
    attribute: Annotated[
        str, typer.Option("--call", metavar="NAME", help="What the spec calls the destination, such as work.")
    ] = "destination",
    destinations: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="The level of the destinations. [default: the lowest]")
    ] = None,
    elsewhere: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One more destination, for all areas that the list lacks, such as abroad."),
    ] = None,
    flows: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The number of flows that the import must count.")
    ] = None,
    counted: Annotated[
        str | None, typer.Option(metavar="NOUN", help="What is counted, such as jobs. [default: people]")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The release's name. [default: that of the file]")] = None,
) -> None:
    """Import flows between areas, such as commuters or moves, and print the spec's path.

    A row is one flow, or two areas and the number of flows between them. Writes to DIR the list of areas, the flows
    added up by area, and release.toml: the areas where flows begin are its spine, and the areas where they end are the
    values of an attribute, grouped by the levels above them.

    Example:

        spinewise import flows t.csv --from home --to work --levels zone=6 --out t
    """
    from features.imports.flows import FlowsRequest, import_flows
    from features.imports.tables.statement import parse_levels, parse_names

    request = FlowsRequest(
        file,
        origin,
        destination,
        count,
        parse_levels(levels) if "=" in levels else parse_names(levels),
        areas=areas,
        geocode=geocode,
        attribute=attribute,
        destinations=destinations,
        elsewhere=elsewhere,
        flows=flows,
        counted=counted,
        name=name,
    )
    _print(import_flows(request, out), context)


@app.command("pl94171")
def pl94171(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(help="A folder or zip with one state's files.", metavar="PATH", show_default=False)
    ],
    out: OutOption,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse any mismatch, not only those that make counting impossible.")
    ] = False,
) -> None:
    """Import a redistricting summary file (PL 94-171) of the Census Bureau, and print the spec's path.

    PATH contains the geographic header and the segments: xxgeo2020.pl and xx000012020.pl to xx000032020.pl (fields
    separated by pipes), or the fixed-width header and the two segments of 2010.

    Writes to DIR the list of blocks, the histograms of persons (voting age, Hispanic origin, race), of persons in group
    quarters and of housing units, the places and American Indian areas of the blocks, and release.toml with the 2020
    production strategy. All tables are checked against each other; mismatches are reported, and listed in
    mismatches.csv. If the tables of a block contradict each other, nothing is written.

    Example:

        spinewise import pl94171 ri2020.pl.zip --out ri2020

        spinewise run ri2020/release.toml
    """
    from features.imports.pl94171.importer import import_pl94171

    _print(import_pl94171(path, out, strict=strict), context)


def _print(imported: Imported, context: typer.Context) -> None:
    """Say what was done, and print the path of the spec."""
    output = Output.of(context)
    for line in imported.messages:
        output.remark(line)
    if imported.mismatches:
        table = imported.spec.with_name("mismatches.csv")
        output.remark(f"Warning: some tables do not agree; all mismatches are in {table}")
        for line in imported.mismatches:
            output.remark(f"  {line}")
    typer.echo(imported.spec)


def _option(metavar: str, about: str) -> typer.models.OptionInfo:
    """An option of `import table`, called as its parameter."""
    option: typer.models.OptionInfo = typer.Option(metavar=metavar, help=about)
    return option


@app.command("table")
def table(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            help="A .csv, .zip, .parquet, .xlsx, .ods, .dta, .sav or .sas7bdat file; or, with --query, a database.",
            metavar="SOURCE",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, _option("DIR", "A new or empty folder.")] = None,
    recipe: Annotated[Path | None, _option("FILE", "What was stated before: an import.toml.")] = None,
    query: Annotated[str | None, _option("SQL", "For a database: the query.")] = None,
    geography: Annotated[
        str | None, _option("COLUMNS", "The columns of the levels, top first: state,county=county_name.")
    ] = None,
    count: Annotated[str | None, _option("COLUMN", "A row is a cell; this column has its count.")] = None,
    records: Annotated[bool, typer.Option("--records", help="A row is a record.")] = False,
    wide: Annotated[
        str | None,
        _option("PATTERN", "Counts side by side, in columns such as 'pop_{sex}_{age}', '{sex:m|f}'."),
    ] = None,
    attributes: Annotated[str | None, _option("COLUMNS", "Columns to count by: 'sex,age=ages five-year'.")] = None,
    schema: Annotated[str | None, _option("FILE", "The public list of attributes and values, in TOML.")] = None,
    level: Annotated[str | None, _option("COLUMN", "The column that says each row's level.")] = None,
    drop_level: Annotated[str | None, _option("VALUES", "Levels whose rows are left out: state,county.")] = None,
    levels: Annotated[str | None, _option("NAME=N,...", "Levels by length of their codes: land=2,kreis=5.")] = None,
    areas: Annotated[
        str | None,
        typer.Option(
            "--areas", "--lookup", metavar="FILE", help="The public list of all areas, with the levels above."
        ),
    ] = None,
    only: Annotated[list[str] | None, _option("CONDITION", "Rows to keep: 'sex != Total and age in 0-4, 5-9'.")] = None,
    header: Annotated[str | None, _option("ROW[:ROW]", "The rows of the header. [default: 1]")] = None,
    last: Annotated[int | None, _option("ROW", "The last row of the table, where notes stand below it.")] = None,
    sheet: Annotated[str | None, _option("NAME", "The sheet of a workbook.")] = None,
    zeros: Annotated[int | None, _option("WIDTH", "Codes lost zeros: fill them up to this width.")] = None,
    missing: Annotated[str | None, _option("TEXTS", "What means no value in attributes and keys: 999,-1.")] = None,
    households: Annotated[str | None, _option("SOURCE", "A table of the households.")] = None,
    households_query: Annotated[str | None, _option("SQL", "For a database: the query of the households.")] = None,
    key: Annotated[str | None, _option("COLUMN", "The column that links persons to households.")] = None,
    household_attributes: Annotated[
        str | None, _option("COLUMNS", "Columns to count households by. [default: size]")
    ] = None,
    separator: Annotated[str | None, _option("MARK", "Separator of a CSV file; tab for tabs.")] = None,
    encoding: Annotated[str | None, _option("NAME", "Encoding of a CSV file, such as cp1252.")] = None,
    name: Annotated[str | None, _option("NAME", "The release's name. [default: that of the file]")] = None,
    expect_records: Annotated[int | None, _option("N", "How many people there are; must be met.")] = None,
    expect_areas: Annotated[int | None, _option("M", "How many areas the rows name; must be met.")] = None,
    unproved: Annotated[
        bool, typer.Option("--unproved", help="Nobody knows: write a spec that run refuses until it is filled in.")
    ] = False,
) -> None:
    """Import a table as you state it: write a spec that runs, and print the spec's path.

    Without --out, the file is described, with a command to copy that states a reading; nothing is written. Otherwise
    everything is stated by options, or by a recipe of them: nothing is guessed. The numbers of people and of areas,
    which you know from elsewhere, prove the reading; where they are missed, nothing is written.

    Example:

        spinewise import table persons.csv

        spinewise import table persons.csv --out mine --records --geography county --attributes sex --expect-records 600
        --expect-areas 12

        spinewise import table next.csv --recipe mine/import.toml --out next --expect-records 610 --expect-areas 12
    """
    options = locals()
    from features.imports.tables.description import describe_table
    from features.imports.tables.importer import import_table
    from features.imports.tables.statement import PARTS, TableStatement, read_recipe
    from pipeline.errors import InputError

    stated = {name: options[name] for name in PARTS} | {"only": tuple(only or ())}
    if recipe is not None:
        if both := [one for one, value in stated.items() if value not in (None, False, ())]:
            raise InputError(
                f"--{both[0].replace('_', '-')} and --recipe: what is stated stands in one place; change {recipe}"
            )
        stated = read_recipe(recipe)
    statement = TableStatement(
        source, **stated, expect_records=expect_records, expect_areas=expect_areas, unproved=unproved
    )  # fmt: skip
    if not statement.is_stated:
        for line in describe_table(statement):
            typer.echo(line)
        if out is not None:
            raise InputError(f"--out {out}: nothing is stated of the table, and nothing was written")
        return
    if out is None:
        raise InputError(
            "--out DIR is needed: what is stated is written there; state nothing to see the file described"
        )
    _print(import_table(statement, out), context)

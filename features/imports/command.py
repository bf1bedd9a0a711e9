"""`spinewise import ...`: from existing files to a folder with a spec that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from features.imports.flows_command import import_flows_command

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


app.command("flows")(import_flows_command)
Form = Literal["microdata", "long", "wide"]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="A new or empty folder.")]


@app.command("pl94171")
def pl94171(
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
    from pipeline.execution.console import error_console

    imported = import_pl94171(path, out, strict=strict)
    console = error_console()
    for line in imported.messages:
        console.print(line)
    if imported.mismatches:
        console.print(f"Warning: some tables do not agree; all mismatches are in {out / 'mismatches.csv'}")
        for line in imported.mismatches:
            console.print(f"  {line}")
    typer.echo(imported.spec)


@app.command("table")
def table(
    source: Annotated[
        str,
        typer.Argument(
            help="A .csv, .zip, .parquet, .xlsx, .ods, .dta, .sav or .sas7bdat file; or, with --query, a database.",
            metavar="SOURCE",
            show_default=False,
        ),
    ],
    out: OutOption,
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="For a database: the query that returns the records.")
    ] = None,
    people: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The number of people that the import must count.")
    ] = None,
    form: Annotated[
        Form | None, typer.Option(help="What a row is: a record, a cell with its count, or an area with counts.")
    ] = None,
    count: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of counts, if a row is a cell.")
    ] = None,
    counts: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="The columns of counts, one for each cell, if a row is an area."),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Columns that are attributes, whatever their values look like."),
    ] = None,
    ignore: Annotated[str | None, typer.Option(metavar="COLUMNS", help="Columns to leave out.")] = None,
    repeated: Annotated[
        Literal["add"] | None, typer.Option(help="Add up rows of the same cell instead of refusing them.")
    ] = None,
    geography: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="The columns of the levels, top first: county,tract. [default: guessed]"),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(metavar="NAME=LENGTH,...", help="Levels by length of their codes: state=2,county=5."),
    ] = None,
    areas: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The public list of all areas, or a table from leaf codes to the levels above."
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The public list of attributes and values, a TOML file: [attributes], then "
            'sex = ["f", "m"] for each column. [default: guessed]',
        ),
    ] = None,
    geocode: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The records' column of leaf codes. [default: guessed]")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="CODES|X,Y:SIZE",
            help="A grid as geography: a column of INSPIRE codes, or of coordinates with a size.",
        ),
    ] = None,
    households: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="A table of households, if SOURCE is a table of persons.")
    ] = None,
    households_query: Annotated[
        str | None, typer.Option(metavar="SQL", help="For a database: the query that returns the households.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that links persons to households.")
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="The sheet of a workbook. [default: the one with a table]")] = None,
    separator: Annotated[
        str | None, typer.Option(help="Field separator of a CSV file; tab for tabs. [default: guessed]")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a CSV file, such as cp1252. [default: guessed]")
    ] = None,
    decimal: Annotated[
        Literal[".", ","] | None, typer.Option(help="Decimal mark of a CSV file. [default: guessed]")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The release's name. [default: that of the file]")] = None,
    tolerance: Annotated[
        str | None, typer.Option(metavar="N|N%", help="How far from --people the number may be. [default: 0]")
    ] = None,
    thousands: Annotated[
        str | None,
        typer.Option(metavar="MARK", help="What separates thousands: comma, point, space, apostrophe or none."),
    ] = None,
    marks: Annotated[
        str | None,
        typer.Option(metavar="MARK=MEANING,...", help='Marks in place of numbers: "*=missing,..=0,c=margins".'),
    ] = None,
    header_rows: Annotated[
        str | None, typer.Option(metavar="ROW[:ROW]", help="The rows of the header, such as 5:6. [default: found]")
    ] = None,
    lookup: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table from leaf codes to the levels above; the same as --areas."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A column of survey weights: refused, with the reason.")
    ] = None,
    counted: Annotated[
        str | None, typer.Option(metavar="NOUN", help="What is counted, such as households. [default: people]")
    ] = None,
) -> None:
    """Import a table: guess its spine and schema, write a spec to be edited, and print the spec's path.

    A row is a record, a cell with its count, or an area with its counts side by side. A table of persons with a column
    of household keys, or two tables, become two histograms that are released together. Writes to DIR release.toml with
    comments, the list of areas, and the data that were fetched or joined. Every guess is listed with its reason and the
    number of people that results, and is in the spec. If a table can be read in two ways that differ in the number of
    people, nothing is written; the readings are listed, each with the option that chooses it (status 2).

    Example:

        spinewise import table persons.csv --out mine --people 10512

        spinewise import table persons.xlsx --areas lookup.csv --out mine

        spinewise import table register.duckdb --query "select * from persons" --out mine
    """
    from features.imports.tables.asked import Asked, parse_tolerance
    from features.imports.tables.cells import parse_marks
    from features.imports.tables.grid import GridRequest
    from features.imports.tables.guess_format import AskedFormat
    from features.imports.tables.importer import import_table
    from features.imports.tables.layout import parse_header_rows
    from features.imports.tables.request import TableRequest, TableSource, parse_levels, parse_names
    from pipeline.errors import InputError
    from pipeline.execution.console import error_console

    if households is None and households_query is not None:
        raise InputError("--households-query: there is no --households to ask; give both, or neither")
    if lookup is not None and areas is not None:
        raise InputError("--lookup and --areas: both name the list of areas; give one")
    request = TableRequest(
        TableSource(source, query, sheet, parse_header_rows(header_rows)),
        TableSource(households, households_query) if households is not None else None,
        key,
        areas or lookup,
        parse_names(geography),
        name=name,
        geocode=geocode,
        levels=parse_levels(levels),
        grid=GridRequest.parse(grid) if grid is not None else None,
        reading=Asked(form, count, parse_names(counts), people, parse_tolerance(tolerance, people)),
        ignore=parse_names(ignore),
        attributes=parse_names(attribute),
        repeated=repeated == "add",
        text=AskedFormat.checked(separator, encoding, decimal, thousands),
        schema=schema,
        marks=parse_marks(marks),
        weights=weights,
        counted=counted,
    )
    imported = import_table(request, out)
    console = error_console()
    for line in imported.summary:
        console.print(line)
    typer.echo(imported.spec)

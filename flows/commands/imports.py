"""`spinewise import ...`: from files as they come to a folder with a spec that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    short_help="Make a release spec from files as they come.",
    name="import",
    help="""Make a release spec from files as they come: census summary files, tables, database queries.

    Example:

        spinewise import pl94171 ri2020.pl.zip --out ri2020
    """,
    no_args_is_help=True,
    rich_markup_mode=None,
)

OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder that is new or empty.")]


@app.command("pl94171")
def pl94171(
    path: Annotated[
        Path, typer.Argument(help="A folder or zip with one state's files.", metavar="PATH", show_default=False)
    ],
    out: OutOption,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse every mismatch, not only those that make counting impossible.")
    ] = False,
) -> None:
    """Import a redistricting summary file (PL 94-171) of the Census Bureau; prints the spec's path.

    PATH holds the geographic header and the segments: xxgeo2020.pl, xx000012020.pl to xx000032020.pl (fields between
    pipes), or the two segments and the fixed-width header of 2010.

    DIR gets the list of blocks, the histograms of persons (voting age, Hispanic origin, race), of persons in group
    quarters and of housing units, the places and American Indian areas that blocks belong to, and release.toml with the
    2020 production strategy. All tables are checked against each other; what does not fit is told, and listed in
    mismatches.csv. Where tables of a block contradict each other, nothing is written.

    Example:

        spinewise import pl94171 ri2020.pl.zip --out ri2020

        spinewise run ri2020/release.toml
    """
    from flows.console import error_console
    from pipeline.imports.pl94171.importer import import_pl94171

    imported = import_pl94171(path, out, strict=strict)
    console = error_console()
    for line in imported.told:
        console.print(line)
    if imported.mismatches:
        console.print(f"Warning: some tables do not fit each other; all of it is in {out / 'mismatches.csv'}")
        for line in imported.mismatches:
            console.print(f"  {line}")
    typer.echo(imported.spec)


@app.command("table")
def table(
    source: Annotated[
        str,
        typer.Argument(
            help="A .csv, .csv.gz or .parquet file; or, with --query, a .duckdb file, duckdb: or postgresql://...",
            metavar="SOURCE",
            show_default=False,
        ),
    ],
    out: OutOption,
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="The query that gives the records, for a database.")
    ] = None,
    geography: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="The columns of the levels, top first: county,tract. Guessed by default."),
    ] = None,
    areas: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The public list of all areas, with the same columns.")
    ] = None,
    households: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="A table of households, where SOURCE is one of persons.")
    ] = None,
    households_query: Annotated[
        str | None, typer.Option(metavar="SQL", help="The query that gives the households, for a database.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that leads from persons to households.")
    ] = None,
    count: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of counts, where a row is not one record.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The release's name; by default that of the file.")] = None,
) -> None:
    """Import a table: guess its spine and schema, and write a spec to edit; prints the spec's path.

    A row is a record, a cell with its count, or an area with its counts side by side. A table of persons with a key of
    households, or two tables, give two histograms that are released together. DIR gets release.toml with comments, the
    list of areas, and what was fetched or joined. Everything that was guessed is told, and stands in the spec.

    Example:

        spinewise import table persons.csv --out mine

        spinewise import table register.duckdb --query "select * from persons" --out mine
    """
    from flows.console import error_console
    from pipeline.errors import InputError
    from pipeline.imports.tables.importer import TableRequest, TableSource, import_table

    if households is None and households_query is not None:
        raise InputError("--households-query: there is no --households to ask; give both, or neither")
    request = TableRequest(
        TableSource(source, query),
        TableSource(households, households_query) if households is not None else None,
        key,
        areas,
        tuple(part.strip() for part in geography.split(",") if part.strip()) if geography else (),
        count,
        name,
    )
    imported = import_table(request, out)
    console = error_console()
    for line in imported.told:
        console.print(line)
    typer.echo(imported.spec)

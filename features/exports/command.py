"""`spinewise export`: a release in the layouts of other software."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import Output


class Layout(StrEnum):
    """The layouts on offer."""

    pl94171 = "pl94171"
    nmf = "nmf"
    csv = "csv"
    xlsx = "xlsx"
    parquet = "parquet"
    sdmx = "sdmx"
    duckdb = "duckdb"
    gpkg = "gpkg"
    geoparquet = "geoparquet"
    dp_registry = "dp-registry"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export", short_help="Write a release in another layout.")(export)


def export(
    context: typer.Context,
    release: Annotated[
        Path, typer.Argument(help="The directory of a release.", metavar="RELEASE_DIR", show_default=False)
    ],
    layout: Annotated[Layout, typer.Option("--format", help="The layout to write.", show_default=False)],
    out: Annotated[Path, typer.Option(help="A new or empty folder.", show_default=False)],
    table: Annotated[list[str] | None, typer.Option(help="Only this table (of tables); repeatable.")] = None,
    level: Annotated[list[str] | None, typer.Option(help="Only this level (of tables); repeatable.")] = None,
    microdata: Annotated[bool, typer.Option("--microdata", help="The microdata, too (csv, parquet).")] = False,
    measurements: Annotated[
        bool, typer.Option("--measurements", help="The noisy measurements with labelled columns, too (csv, parquet).")
    ] = False,
) -> None:
    """Write a release in another layout, from its public files alone, and print the folder.

    pl94171: the tables P1 to P5 and H1 of the 2020 redistricting data, as CSV in tables/ and, if the areas are census
    areas, as summary files with a geographic header. nmf: the noisy measurements, in the layout of those that the
    Census Bureau published; run --measurements reads it. csv, xlsx, parquet: the release's tables with their margins of
    error; csv and parquet with a description of their columns. sdmx: the tables as SDMX-CSV with their structure as
    SDMX-ML. duckdb: all tables in one database. gpkg, geoparquet: the tables of levels with polygons, for maps.
    dp-registry: an entry for the registry of differential privacy deployments.

    Example:

        spinewise export releases/rhode-island --format csv --out rhode-island-csv
    """
    from features.exports.facts import facts
    from features.exports.release import export_release
    from pipeline.published import open_finished

    finished = open_finished(release, check_hashes=False)  # each file before it is read
    written = export_release(
        finished,
        layout,
        out,
        tables=table or (),
        levels=level or (),
        microdata=microdata,
        measurements=measurements,
    )
    Output.of(context).remark("; ".join(f"{key}: {text}" for key, text in facts(finished).items()))
    typer.echo(written)

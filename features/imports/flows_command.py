"""`spinewise import flows`: from a table of flows to a folder with a spec that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import Output


def import_flows_command(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(help="A CSV or Parquet file of flows, such as commuters.", metavar="FILE", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new or empty folder.")],
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
    imported = import_flows(request, out)
    output = Output.of(context)
    for line in imported.messages:
        output.remark(line)
    typer.echo(imported.spec)

"""`spinewise import ...`: from files as they come to a folder with a spec that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="import",
    help="Make a release spec from files as they come: census summary files, tables, database queries.",
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
    """Import a P.L. 94-171 redistricting summary file, as the Census Bureau publishes it; prints the spec's path.

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
    from pipeline.imports.pl94171 import import_pl94171

    imported = import_pl94171(path, out, strict=strict)
    console = error_console()
    for line in imported.told:
        console.print(line)
    if imported.mismatches:
        console.print(f"Warning: some tables do not fit each other; all of it is in {out / 'mismatches.csv'}")
        for line in imported.mismatches:
            console.print(f"  {line}")
    typer.echo(imported.spec)

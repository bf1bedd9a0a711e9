"""`spinewise doctor`: what is missing or wrong on this machine, and how to mend it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    spec: Annotated[
        Path | None,
        typer.Argument(help="Look also at what this release needs; its records are not read.", metavar="SPEC"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder in which releases are to be made. [default: releases]")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes; all cores by default.")] = None,
) -> None:
    """Say what is missing or wrong on this machine, and how to mend it. Changes nothing.

    Looked at are the settings, Python, the packages and their versions, whether each solver solves a small problem,
    access to the folder of releases, the ledger, Prefect's server and its workers; and with a spec, its files and
    whether its run fits into memory.

    The status is 0 if nothing is wrong, else 2; notes are worth knowing and no hindrance.

    Example:

        spinewise doctor release.toml
    """
    from rich.console import Console

    from flows.checks.doctor import examine

    console = Console(highlight=False, markup=False, soft_wrap=True)
    counts = {"well": 0, "note": 0, "wrong": 0}
    for one in examine(spec, out=out, workers=workers):
        counts[one.state] += 1
        mark = {"well": "ok   ", "note": "note ", "wrong": "WRONG"}[one.state]
        console.print(f"{mark}  {one.what:<9} {one.found}")
        if one.remedy:
            console.print(f"                 -> {one.remedy}")
    if counts["wrong"]:
        console.print(f"{counts['wrong']} wrong")
        raise typer.Exit(2)
    console.print("nothing is wrong")

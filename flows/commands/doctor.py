"""`spinewise doctor`: what is missing or wrong on this machine, and how to fix it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import JsonOption, OutOption, Output, WorkersOption


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", short_help="Check this machine, and say what is missing or wrong.")(doctor)


def doctor(
    context: typer.Context,
    spec: Annotated[
        Path | None,
        typer.Argument(help="Look also at what this release needs; its records are not read.", metavar="SPEC"),
    ] = None,
    out: OutOption = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Report what is missing or wrong on this machine, and how to fix it. Changes nothing.

    Each check is shown as it runs; all of them take a few seconds. Checks the settings, Python, the packages and their
    versions, whether each solver solves a small problem, access to the folder of releases, the ledger, Prefect's
    server and its workers; and with a spec, its files and whether its run fits into memory.

    The status is 0 if nothing is wrong, else 2; notes do not prevent a run.

    Example:

        spinewise doctor release.toml
    """
    from rich.console import Console

    from flows.checks.doctor import examine

    output = Output.of(context, json=json)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    looked_at = []
    shown = console.is_terminal and not (json or output.quiet)

    def begins(what: str) -> None:
        if shown:  # what is found stands in its place
            console.file.write(f"...    {what}\r")
            console.file.flush()

    for one in examine(spec, begins, out=out, workers=workers):
        looked_at.append(one)
        if json or (output.quiet and one.state != "wrong"):
            continue
        mark = {"well": "ok   ", "note": "note ", "wrong": "WRONG"}[one.state]
        console.print(f"{mark}  {one.what:<9} {one.found}")
        if one.remedy:
            console.print(f"                 -> {one.remedy}")
    wrong = sum(one.state == "wrong" for one in looked_at)
    output.result(f"{wrong} wrong" if wrong else "nothing is wrong", [asdict(one) for one in looked_at])
    if wrong:
        raise typer.Exit(2)

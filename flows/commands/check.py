"""`spinewise check`: whether a release keeps every constraint of its spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(
    release: Annotated[
        Path, typer.Argument(help="The directory of a release.", metavar="RELEASE_DIR", show_default=False)
    ],
) -> None:
    """Check that a release keeps every constraint of its spec, by a program that shares nothing with its solver.

    Counts are whole numbers from 0, every parent is the sum of its children in every cell, tables and microdata agree
    with the histograms, and invariants, structural zeros and bounds hold exactly. Nothing under restricted/ is read.

    Example:

        spinewise check releases/rhode-island
    """
    from flows.console import tell_problems
    from pipeline.checker.release import examine

    findings = examine(release)
    if problems := findings.problems:
        tell_problems(f"{release}: this release does not keep its spec", problems)
        raise typer.Exit(1)
    typer.echo(f"{release}: every constraint of the spec holds ({findings.n_checks:,} checks)")

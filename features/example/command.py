"""`spinewise example`: a synthetic state, ready to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from geography.errors import InputError


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("example", short_help="Write a synthetic state that is ready to run.")(example)


def example(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.", metavar="DIR", show_default=False)],
    people: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**9, help="Number of persons. [default: 1000000; with --years 100000]", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another state.")] = 2020,
    households: Annotated[
        bool, typer.Option("--households", help="Persons and households, which are released together and agree.")
    ] = False,
    years: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="A register of so many years, whose people are born, die, move and age."),
    ] = None,
) -> None:
    """Write a synthetic state (records, areas and a spec that is ready to run), and print the path of the spec.

    Example:

        spinewise example demo

        spinewise run demo/release.toml
    """
    if years is not None:
        from features.example.years import write_years

        if households:
            raise InputError("--households: not with --years")
        typer.echo(write_years(folder, years, people=people or 100_000, seed=seed))
        return
    from features.example.example import write_example

    typer.echo(write_example(folder, people=people or 1_000_000, seed=seed, households=households))

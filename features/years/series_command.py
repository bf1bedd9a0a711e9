"""`spinewise series ...`: what there is of a series of releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import JsonOption

_HELP = """What there is of a series of releases.

Example:

    spinewise series show releases
"""

series = typer.Typer(
    name="series",
    help=_HELP,
    short_help="What there is of a series of releases.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SeriesArgument = Annotated[
    Path,
    typer.Argument(
        help="The folder with the releases of one series, or one of its releases.", metavar="DIR", show_default=False
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(series)


@series.callback()
def _series() -> None:
    """Commands on series."""


@series.command("show")
def show(folder: SeriesArgument, json: JsonOption = False) -> None:
    """The periods of a series, which of them are released, what it costs, and what people lose by their spells.

    Reads public files only.

    Example:

        spinewise series show releases

        spinewise series show releases/padron-2031 --json
    """
    import json as text

    from features.years.show import series_lines, series_report

    report = series_report(folder)
    typer.echo(text.dumps(report, indent=1) if json else "\n".join(series_lines(report)))

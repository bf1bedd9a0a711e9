"""`spinewise revise`: one consistent history of the releases of a series so far."""

from __future__ import annotations

from typing import Annotated

import typer

from features.years.series_command import SeriesArgument
from pipeline.execution.options import OutOption, Output, QuietOption


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("revise", short_help="Combine the releases of a series into one history.")(revise)


def revise(
    folder: SeriesArgument,
    out: OutOption = None,
    model: Annotated[
        bool,
        typer.Option(
            "--model-of-change",
            help="Expect areas to change as the area above them does; the intervals do not rely on it. For series "
            "with very many areas; the spec asks for it with [series.change].",
        ),
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Combine the releases of a series so far into one history, from their public files, and print its folder.

    Least squares over areas and periods together; then whole numbers that are not negative and add up in every period.
    It costs no budget. Tables of all periods and of changes, each with its 90 % interval, are written to
    OUT/NAME-revised-PERIOD, the last period that is released. If an earlier revision is in the same folder, what has
    changed since is written too.

    Example:

        spinewise revise releases --out revisions
    """
    from features.years.revision import revised, series_at
    from features.years.vintage import write_revision
    from pipeline.execution.settings import load_settings

    made = write_revision(revised(series_at(folder), model=model), load_settings(out=out).out)
    Output(quiet).result(str(made), {"directory": str(made)})

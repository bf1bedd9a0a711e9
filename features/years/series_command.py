"""`spinewise series ...`: what there is of a series of releases, what its designs would give, and one history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import JsonOption, OutOption, Output

_HELP = """Show a series of releases, plan one, or combine its releases into one history.

Example:

    spinewise series show releases
"""

series = typer.Typer(
    name="series",
    help=_HELP,
    short_help="Show, plan or revise a series of releases.",
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
    """Show the periods of a series, which of them are released, what it costs, and what people lose by their spells.

    Reads public files only.

    Example:

        spinewise series show releases

        spinewise series show releases/padron-2031 --json
    """
    import json as text

    from features.years.plan import series_lines, series_report

    report = series_report(folder)
    typer.echo(text.dumps(report, indent=1) if json else "\n".join(series_lines(report)))


@series.command("plan")
def plan(
    spec: Annotated[Path, typer.Argument(help="The release spec, a TOML file.", metavar="SPEC", show_default=False)],
    spells: Annotated[
        list[int] | None,
        typer.Option(metavar="K", help="Design for people with at most so many spells; repeatable. Default: 1, 2, 3."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the errors of designs of a series, and what people lose by each, compared with independent noise.

    Also how much memory a history of all periods takes. Reads the spec and its geography, no records, and spends
    nothing.

    Example:

        spinewise series plan release.toml

        spinewise series plan release.toml --spells 2 --spells 4
    """
    import json as text

    from features.years.plan import series_plan

    found = series_plan(spec, spells or ())
    typer.echo(text.dumps(found.as_dict(), indent=1) if json else "\n".join(found.lines()))


@series.command("revise")
def revise(
    context: typer.Context,
    folder: SeriesArgument,
    out: OutOption = None,
    model: Annotated[
        bool,
        typer.Option(
            "--model-of-change",
            help="Expect areas to change as the area above them does; the intervals do not rely on it. For series "
            "with very many areas.",
        ),
    ] = False,
) -> None:
    """Combine the releases of a series so far into one history, from their public files, and print its folder.

    Least squares over areas and periods together; then whole numbers that are not negative and add up in every period.
    It costs no budget. Tables of all periods and of changes, each with its 90 % interval, are written to
    OUT/NAME-revised-PERIOD, the last period that is released. If an earlier revision is in the same folder, what has
    changed since is written too.

    Example:

        spinewise series revise releases --out revisions
    """
    from features.years.revision import revised, series_at
    from features.years.vintage import write_revision
    from pipeline.execution.settings import load_settings

    made = write_revision(revised(series_at(folder), model=model), load_settings(out=out).out)
    Output.of(context).result(str(made), {"directory": str(made)})

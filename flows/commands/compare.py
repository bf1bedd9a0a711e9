"""`spinewise compare`: two releases side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import JsonOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pipeline.reading.compare import AreaChanges, Comparison


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", short_help="Compare two releases: has an area grown, what differs.")(compare)


def compare(
    first: Annotated[Path, typer.Argument(help="The directory of a release.", metavar="FIRST", show_default=False)],
    second: Annotated[
        Path, typer.Argument(help="The directory of another release.", metavar="SECOND", show_default=False)
    ],
    area: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AREA",
            help="A code or name: whether each of its numbers rose or fell, with the margin of error of the change; "
            "repeatable.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare two releases, such as those of two years, budgets or estimators.

    With --area: whether the numbers of an area rose, fell, or changed by no more than the noise explains ("cannot
    tell"), each with the margin of error of its change. The total comes first.

    Otherwise: what differs in spec and software and, for every table and level that both publish, how large the
    differences are, next to the margins of error of both. Areas that only one release has are counted, but not
    compared. Reads only public files.

    Example:

        spinewise compare releases/state-2030 releases/state-2035 --area "Birch County"

        spinewise compare releases/rhode-island releases/rhode-island-topdown
    """
    from pipeline.reading.compare import compare as compare_releases
    from pipeline.reading.reader import open_reader

    comparison = compare_releases(open_reader(first), open_reader(second))
    changed = [comparison.of_area(one) for one in area or ()]
    if json:
        import json as library

        areas = {"areas": [one.data() for one in changed]} if area else {}
        typer.echo(library.dumps(comparison.data() | areas, indent=2, ensure_ascii=False))
        return
    if area:
        _show_areas(comparison, changed)
    else:
        _show(comparison)


def _show(comparison: Comparison) -> None:
    from rich.table import Table

    from pipeline.execution.console import output_console

    console = output_console()
    console.print(f"First:  {comparison.first.run.root}\nSecond: {comparison.second.run.root}\n", soft_wrap=True)
    for title, release in (("first", comparison.first), ("second", comparison.second)):
        console.print(f"The {title}: {release.manifest.promise}", soft_wrap=True)
    console.print()
    stated = Table("differs", "first", "second", box=None, pad_edge=False, header_style="bold")
    for statement in comparison.statements:
        stated.add_row(statement.key, _text(statement.first), _text(statement.second))
    if comparison.statements:
        console.print(stated)
    else:
        console.print("Spec and software are the same.")
    console.print()
    table = _differences(comparison, narrow=False)
    if console.measure(table, options=console.options.update(max_width=100_000)).maximum > console.width:
        table = _differences(comparison, narrow=True)
    console.print(table)
    for row in comparison.tables:
        if row.only_first or row.only_second:
            name = f"{row.universe} {row.table}".strip()
            console.print(
                f"{name} at {row.level}: {row.only_first:,} areas in the first only, {row.only_second:,} in the second"
            )
    for text in comparison.left_out:
        console.print(f"Not compared: {text}")
    console.print(f"\n{comparison.remark}")


def _differences(comparison: Comparison, *, narrow: bool) -> Table:
    """A row for each table and level; in a `narrow` terminal a table has a line of its own, and no digit is cut off."""
    from pipeline.execution.console import table_of

    shown = table_of(("table and level",) if narrow else ("table", "level"))
    for title in (
        "areas",
        "equal",
        "mean\n|diff.|" if narrow else "mean\n|difference|",
        "mean\ndiff." if narrow else "mean\ndifference",
        "margin,\nfirst",
        "margin,\nsecond",
        "beyond\nmargin",
    ):
        shown.add_column(title, justify="right", no_wrap=True)
    before = ""
    for row in comparison.tables:
        name = f"{row.universe} {row.table}".strip()
        if narrow and name != before:
            shown.add_row(name)
        shown.add_row(
            *([f"  {row.level}"] if narrow else [name if name != before else "", row.level]),
            f"{row.geounits:,}",
            f"{row.equal:.1%}",
            f"{row.mean_absolute:,.2f}",
            f"{row.bias:+,.3f}",
            _margin(row.first_margin),
            _margin(row.second_margin),
            "" if row.beyond is None else f"{row.beyond:.1%}",
        )
        before = name
    return shown


def _show_areas(comparison: Comparison, areas: Sequence[AreaChanges]) -> None:
    from pipeline.execution.console import output_console, table_of

    console = output_console()
    for area in areas:
        console.print(" ".join(one for one in (area.level, area.geocode, area.name) if one), style="bold")
        table = table_of(("table",))
        table.add_column("number")
        for title in ("first", "second", "change", "margin"):
            table.add_column(title, justify="right")
        table.add_column("")
        before = ""
        for one in area.changes:
            name = f"{one.universe} {one.table}".strip()
            margin = "" if one.margin is None else f"±{one.margin:,.1f}"
            change = f"{one.second - one.first:+,}"
            shown = name if name != before else ""
            table.add_row(
                shown, comparison.title_of(one), f"{one.first:,}", f"{one.second:,}", change, margin, one.verdict
            )
            before = name
        console.print(table)
        console.print()
    console.print(comparison.remark)


def _text(value: str | None) -> str:
    if value is None:
        return "-"
    return value if len(value) <= 40 else f"{value[:37]}..."


def _margin(value: float | None) -> str:
    return "none" if value is None else f"±{value:,.2f}"

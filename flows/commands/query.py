"""`spinewise query`: numbers of a finished release with their 90 % intervals."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.reading.release import Release


class Show(StrEnum):
    """What is shown of the numbers of a query."""

    counts = "counts"
    shares = "shares"
    median = "median"
    ranks = "ranks"
    difference = "difference"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("query", short_help="Print numbers of a release with their 90 % intervals.")(query)


def query(
    release: Annotated[
        Path, typer.Argument(help="The directory of a release.", metavar="RELEASE_DIR", show_default=False)
    ],
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERY]", help='Attributes and recodes joined by *, such as "votingage * race"; or total.'
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="TERM=VALUE", help="Count only these values, separated by commas; repeatable."),
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="LEVEL", help="Every geounit of this level.")] = None,
    area: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AREAS",
            help="An area, or one of your own: geocodes or names, separated by commas; repeatable.",
        ),
    ] = None,
    areas: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The areas of a CSV file with the columns area and geocode.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="A published table, unchanged; requires --at.")] = None,
    show: Annotated[
        Show,
        typer.Option(help="The counts, or what they make: percentages of their sum, a median, ranks, a difference."),
    ] = Show.counts,
    companion: Annotated[str, typer.Option(help="Numbers of this companion instead of the release's own.")] = "",
    rows: Annotated[
        int, typer.Option(min=1, max=10**9, help="The most rows to show; --csv and --json print all.")
    ] = 50,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print numbers of a release with the intervals that cover the truth in 90 % of cases.

    The interval of a sum takes into account how the errors of its parts are correlated; its width is not the sum of
    theirs. Areas need not be on the spine. Reads only public files. Without a query, lists what can be queried.

    --show shares: each number in percent of their sum. --show median: of one attribute, by the order of its values.
    --show ranks: 1 for the largest geounit of the level. --show difference: the first of two areas less the second.
    Each with the interval that holds the truth in 90 % of cases; for ranks, all of them at once.

    Example:

        spinewise query releases/example

        spinewise query releases/example --table race --at county

        spinewise query releases/example "votingage * race" --where race=black --at county

        spinewise query releases/example race --area north=99001,99003

        spinewise query releases/example race --area "Birch County"

        spinewise query releases/example race --at county --show shares
    """
    from pipeline.reading.release import open_release

    opened = open_release(release)
    if companion:
        opened = opened.companion(companion)
    options = QueryOptions(
        question=question,
        where=tuple(where or ()),
        at=at,
        area=tuple(area or ()),
        areas=areas,
        table=table,
        show=show,
        rows=rows,
        csv=csv,
        json=json,
    )
    _check(options)
    if question is None and table is None:
        typer.echo(_what_there_is(release, opened))
        return
    if show is not Show.counts:
        _print(opened, _derived(opened, options), options)
        return
    numbers, exact = _answer(opened, options)
    _show(opened, numbers, exact, options)


@dataclass(frozen=True)
class QueryOptions:
    """What to query, and how to print it; see the options of the command."""

    question: str | None
    where: tuple[str, ...]
    at: str | None
    area: tuple[str, ...]
    areas: Path | None
    table: str | None
    show: Show
    rows: int
    csv: bool
    json: bool

    @property
    def is_text(self) -> bool:
        """Whether the output is for people; then numbers that are certain are marked."""
        return not self.csv and not self.json


def _answer(opened: Release, options: QueryOptions) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The numbers with their margins and, for text, which of them are certain."""
    if options.table is not None:
        level = str(options.at)
        exact = opened.exact_table(options.table, level) if options.is_text else None
        return opened.table(options.table, level), exact
    selection = opened.query(str(options.question)).where(**_conditions(options.where))
    if options.at is not None:
        return selection.at(options.at), selection.exact_at(options.at) if options.is_text else None
    named = _areas(opened, options.area, options.areas)
    return selection.over(named), selection.exact_over(named) if options.is_text else None


def _derived(opened: Release, options: QueryOptions) -> pd.DataFrame:
    """What `--show` asks for, with the ends of its intervals."""
    from pipeline.errors import InputError

    selection = opened.query(str(options.question)).where(**_conditions(options.where))
    level, show = options.at, options.show
    if level is not None and show is not Show.difference:
        return {
            Show.shares: selection.shares_at, Show.median: selection.medians_at, Show.ranks: selection.ranks_at,
        }[show](level)  # fmt: skip
    if show is Show.ranks:
        raise InputError("--show ranks: the geounits of a level are ranked; --at LEVEL is needed")
    areas = {} if level is not None else _areas(opened, options.area, options.areas)
    if show is not Show.difference:
        return selection.shares_over(areas) if show is Show.shares else selection.medians_over(areas)
    if len(areas) != 2:
        found = f"--at {level}" if level is not None else f"{len(areas)} of them"
        raise InputError(f"--show difference: two areas are needed, by --area or --areas; found {found}")
    return selection.difference(*areas.values())


def _print(opened: Release, numbers: pd.DataFrame, options: QueryOptions) -> None:
    """Print derived numbers, each with its interval in parentheses."""
    if not options.is_text:
        _show(opened, numbers, None, options)
        return
    from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX

    labels = [name for name in numbers.columns if not name.endswith((LOW_SUFFIX, HIGH_SUFFIX))]
    form = "{:.1f} %" if options.show is Show.shares else "{}" if options.show is Show.median else "{:,.0f}"
    cells = [[_with_interval(form, row, label) for label in labels] for _, row in numbers.head(options.rows).iterrows()]
    at_once = ", all of a column at once" if options.show is Show.ranks else ""
    legend = f"The interval in parentheses holds the truth in 90 % of cases{at_once}."
    _print_table(opened, numbers, Columns(labels, cells, legend), options)


@dataclass(frozen=True)
class Columns:
    """What stands after the areas in a table of text: a cell for each of the first areas and each label."""

    labels: Sequence[str]
    cells: Sequence[Sequence[str]]
    legend: str


def _print_table(opened: Release, numbers: pd.DataFrame, columns: Columns, options: QueryOptions) -> None:
    """Print the first rows of numbers as a table, how many are left, what the intervals mean, and the status."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(str(numbers.index.name), no_wrap=True)
    names: list[str] = []
    if options.at is not None and options.at in opened.named_levels:
        names = opened.names(options.at).reindex(numbers.index).tolist()
    if names:
        table.add_column("name", no_wrap=True)
    titles = _titles(opened, options)
    for label in columns.labels:
        table.add_column(titles.get(label, label), justify="right")
    for number, (code, line) in enumerate(zip(numbers.index, columns.cells, strict=False)):
        table.add_row(str(code), *names[number : number + 1], *line)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 1000
    console.print(table)
    if len(numbers) > len(columns.cells):
        console.print(f"and {len(numbers) - len(columns.cells):,} more; --csv prints all")
    console.print(columns.legend)
    if opened.manifest.status != "official":
        console.print(opened.manifest.status)


def _with_interval(form: str, row: pd.Series[Any], label: str) -> str:
    """A number and its interval as text."""
    from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX

    if label + LOW_SUFFIX not in row:
        return form.format(row[label])
    value, low, high = (
        "unknown" if end is None or end != end else form.format(end)
        for end in (row[label], row[label + LOW_SUFFIX], row[label + HIGH_SUFFIX])
    )
    return f"{value} ({low} to {high})"


def _what_there_is(directory: Path, opened: Release) -> str:
    """The release in a few lines, and commands to try."""
    begin = f"spinewise query {shlex.quote(str(directory))}"
    level = opened.levels[min(1, len(opened.levels) - 1)]
    attribute = shlex.quote(opened.schema.attributes[0].name)
    lines = [*repr(opened).splitlines()[:-1], "", "Try:"]
    tables = [table for table in opened.universe.tables if level in table.levels]
    lines += [f"  {begin} --table {shlex.quote(table.name)} --at {level}" for table in tables[:1]]
    lines += [f"  {begin} total --at {level}", f"  {begin} {attribute} --at {level} --csv"]
    return "\n".join(lines)


def _check(options: QueryOptions) -> None:
    """Refuse options that contradict each other."""
    from pipeline.errors import InputError

    question, table = options.question, options.table
    given = (("--at", options.at), ("--area", options.area), ("--areas", options.areas))
    places = [name for name, value in given if value]
    if options.csv and options.json:
        raise InputError("found --csv and --json; one of the two is allowed")
    if question is None and options.show is not Show.counts:
        raise InputError(f"--show {options.show}: a query is needed, such as a published attribute's name")
    if table is not None and question is not None:
        raise InputError(f"found the query {question!r} and --table {table}; one of the two is allowed")
    if table is not None and (options.at is None or options.where or options.area or options.areas):
        raise InputError("--table shows a table as it was published: it requires --at LEVEL, and no other choice")
    if question is None and table is None and (places or options.where):
        raise InputError(f"found {', '.join(places or ['--where'])} and no query; name one, or a table by --table")
    if question is not None and len(places) != 1:
        raise InputError(f"found {' and '.join(places) or 'no areas'}; one of --at, --area and --areas is needed")


def _conditions(where: Sequence[str]) -> dict[str, list[str]]:
    from pipeline.errors import InputError

    conditions: dict[str, list[str]] = {}
    for text in where:
        term, equals, values = text.partition("=")
        if not equals or not term.strip() or not values.strip():
            raise InputError(f"--where: found {text!r}; TERM=VALUE is needed, such as race=black")
        if term.strip() in conditions:
            raise InputError(f"--where: {term.strip()!r} stands twice; join its values by a comma")
        conditions[term.strip()] = [value.strip() for value in values.split(",")]
    return conditions


def _areas(opened: Release, area: Sequence[str], file: Path | None) -> dict[str, list[str]]:
    """Area -> its geocodes and names; a name may hold the signs that separate others."""
    from pipeline.errors import InputError

    if file is not None:
        return _areas_of_file(file)
    named: dict[str, list[str]] = {}
    for number, text in enumerate(area):
        name, equals, codes = text.partition("=")
        if opened.areas.named(text):
            name, codes = text, text
        elif not equals:
            name, codes = f"area {number + 1}" if len(area) > 1 else "area", text
        if name.strip() in named:
            raise InputError(f"--area: {name.strip()!r} stands twice; each area needs a name of its own")
        whole = bool(opened.areas.named(codes))
        parts = [codes] if whole else codes.split(",")
        named[name.strip()] = [part.strip() for part in parts if part.strip()]
    return named


def _areas_of_file(file: Path) -> dict[str, list[str]]:
    """Area -> geocodes of a CSV file, in the order of first appearance."""
    import pandas as pd

    from pipeline.errors import InputError

    try:
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    except OSError as error:
        raise InputError(f"--areas {file}: cannot be read ({error.strerror or error})") from None
    except (ValueError, UnicodeDecodeError):
        raise InputError(f"--areas {file}: is no CSV file; one with the columns area and geocode is needed") from None
    if missing := [name for name in ("area", "geocode") if name not in frame.columns]:
        raise InputError(f"--areas {file}: no column {missing[0]!r}; its columns are {', '.join(frame.columns)}")
    return {str(name): part["geocode"].tolist() for name, part in frame.groupby("area", sort=False)}


def _show(opened: Release, numbers: pd.DataFrame, exact: pd.DataFrame | None, options: QueryOptions) -> None:
    if options.csv:
        typer.echo(_with_names(opened, numbers, options).to_csv(lineterminator="\n"), nl=False)
        return
    if options.json:
        frame = _with_names(opened, numbers, options).reset_index()
        typer.echo(frame.to_json(orient="records", indent=2, force_ascii=False))
        return
    from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX, is_count

    labels = [name for name in numbers.columns if is_count(name)]
    certain = (
        [(False,) * len(labels)] * options.rows
        if exact is None
        else exact[labels].head(options.rows).to_numpy().tolist()
    )
    cells = [
        [
            _cell(row[label], (row.get(label + LOW_SUFFIX), row.get(label + HIGH_SUFFIX)), exact=is_certain)
            for label, is_certain in zip(labels, sure, strict=True)
        ]
        for (_, row), sure in zip(numbers.head(options.rows).iterrows(), certain, strict=False)
    ]
    legend = "In brackets: the truth lies between these in 90 % of cases. Only numbers marked exact are certain."
    _print_table(opened, numbers, Columns(labels, cells, legend), options)


def _with_names(opened: Release, numbers: pd.DataFrame, options: QueryOptions) -> pd.DataFrame:
    """The numbers with the names of their areas, where the level has some."""
    from pipeline.model.area_names import as_cell

    if options.at is None or options.at not in opened.named_levels:
        return numbers
    names = opened.names(options.at).reindex(numbers.index).tolist()
    column = "name" if "name" not in numbers else "area name"
    frame = numbers.copy()
    frame.insert(0, column, [as_cell(name) if options.csv else name for name in names])
    return frame


def _titles(opened: Release, options: QueryOptions) -> dict[str, str]:
    """Column of the numbers -> its label for people."""
    if options.table is not None:
        query = next(table.query for table in opened.universe.tables if table.name == options.table)
    else:
        query = opened.query(str(options.question)).query
    return opened.labels.columns(query)


def _cell(count: float, ends: tuple[float | None, float | None], *, exact: bool) -> str:
    low, high = ends
    if exact:
        return f"{count:,.0f} exact"
    if low is None or high is None:
        return f"{count:,.0f}"
    return f"{count:,.0f} (unknown)" if low != low else f"{count:,.0f} ({low:,.0f} to {high:,.0f})"

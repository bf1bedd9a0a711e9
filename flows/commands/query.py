"""`spinewise query`: numbers of a finished release with their 90 % intervals."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.query_output import OutputForm, QueryOptions, Show, check, show_counts, show_derived, show_frame

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.reading.reader import Reader


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
            metavar="[QUERY]",
            help='What to count: total, or attributes and recodes joined by *, such as "votingage * race".',
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="TERM=VALUE", help="Count only these values, separated by commas; repeatable."),
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="LEVEL", help="Every area of this level.")] = None,
    area: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]AREAS",
            help="An area, by its code or name; or one of your own, NAME=CODES or names, separated by commas; with "
            "--areas, one of these; repeatable.",
        ),
    ] = None,
    areas: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Areas of your own: a CSV file with the columns area and geocode."),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="A published table, unchanged; requires --at.")
    ] = None,
    show: Annotated[
        Show,
        typer.Option(help="The counts, or what is derived from them; see above."),
    ] = Show.counts,
    change: Annotated[
        str | None,
        typer.Option(
            metavar="FROM..TO",
            help="Changes between two periods of the series that the release is of; with a query and --at.",
        ),
    ] = None,
    companion: Annotated[
        str, typer.Option(metavar="NAME", help="Numbers of this companion instead of the release's own.")
    ] = "",
    form: Annotated[
        OutputForm, typer.Option("--format", help="How to print the numbers: as text the first 50 rows, else all.")
    ] = OutputForm.text,
    tidy: Annotated[
        bool, typer.Option("--tidy", help="One row a number: value, low, high; with --format csv, json or markdown.")
    ] = False,
) -> None:
    """Print numbers of a release, each with its 90 % interval.

    Without a query: what can be queried, and how the release is cited. Reads only public files.

    An area is one of the release, by code or name, or any of your own that is made of them. The interval of a sum
    allows for the correlation between the errors of its parts.

    --show shares: each number in percent of their sum. --show median: the median of an attribute whose values have an
    order. --show cumulative: for each value of such an attribute, how many have it or one before it; with --table, as
    it was published. --show ranks: the rank of each area of a level, 1 for the largest, with the ranks that it may
    have; these hold for all areas at once.
    --show difference: the first of two areas minus the second, and which of the two is larger.

    --change 2031..2033: for a release of a series: how much each number changed between two periods, and whether it
    rose or fell. The releases of the series have to be in the same folder.

    --companion NAME: numbers of what was released together with the persons, such as households. --show means: of a
    table of a companion that holds an amount, such as wages: sums, records and means. --show household-sizes: persons
    per household, where the two are joined, without a query.

    Example:

        spinewise query releases/example

        spinewise query releases/example total --area "Birch County"

        spinewise query releases/example race --at county --show shares

        spinewise query releases/example "votingage * race" --where race=black --at county

        spinewise query releases/example race --area north=99001,99003

        spinewise query releases/example total --area 99001 --area 99003 --show difference

        spinewise query releases/example --table race --at county

        spinewise query releases/example race --at county --tidy --format csv

        spinewise query releases/population-2033 sex --at county --change 2031..2033
    """
    from pipeline.model.query import terms_of
    from pipeline.reading.reader import open_reader
    from pipeline.reading.release import Release

    opened = open_reader(release)
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
        form=form,
        tidy=tidy,
    )
    check(options)
    if question is not None or table is not None:
        opened = opened.holding([*terms_of(question or "total"), *_conditions(options.where)], table or "")
    if change is not None:
        _show_changes(opened, release, change, options)
        return
    if show is Show.household_sizes:
        show_derived(opened, _household_sizes(opened, options), options)
        return
    if show is Show.means:
        show_derived(opened, Release(opened).means(str(table), str(at)), options)
        return
    if question is None and table is None:
        typer.echo(_what_there_is(release, opened))
        return
    cumulative = show is Show.cumulative
    linked = [one.name for one in opened.linked_tables]
    if options.tidy and options.table is not None and options.table not in linked:
        numbers = Release(opened).table(options.table, str(options.at), tidy=True, cumulative=cumulative)
        show_frame(opened, numbers.set_index("geocode"), options)
        return
    if options.table is not None and cumulative:
        show_derived(opened, Release(opened).table(options.table, str(options.at), cumulative=True), options)
        return
    if show is not Show.counts:
        compared = tuple(_areas(opened, options.area, options.areas)) if show is Show.difference and at is None else ()
        show_derived(opened, _derived(opened, options), options, compared)
        return
    numbers, exact = _answer(opened, options)
    show_counts(opened, numbers, exact, options)


def _show_changes(opened: Reader, release: Path, change: str, options: QueryOptions) -> None:
    """What `--change` asks for, of the feature that has series."""
    from features.registry import part_of
    from pipeline.errors import InputError

    tables = part_of("years", "revision")
    if options.question is None or options.at is None or options.show is not Show.counts or options.tidy:
        raise InputError("--change: a query and --at LEVEL are needed, and no --show or --tidy")
    conditions = {term: list(values) for term, values in _conditions(options.where).items()}
    show_frame(opened, tables.changes(release, options.question, conditions, options.at, change), options)


def _answer(opened: Reader, options: QueryOptions) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The numbers with their margins and, for text, which of them are certain."""
    from pipeline.reading.release import Release

    if options.table is not None:
        release, level = Release(opened), str(options.at)
        if options.table in release.household_tables:
            return release.household_table(options.table, level), None
        exact = release.exact_table(options.table, level) if options.is_text else None
        return release.table(options.table, level), exact
    selection = Release(opened).query(str(options.question)).where(**_conditions(options.where))
    if options.at is not None:
        return selection.at(options.at), selection.exact_at(options.at) if options.is_text else None
    named = _areas(opened, options.area, options.areas)
    return selection.over(named), selection.exact_over(named) if options.is_text else None


def _derived(opened: Reader, options: QueryOptions) -> pd.DataFrame:
    """What `--show` asks for, with the ends of its intervals."""
    from pipeline.errors import InputError
    from pipeline.reading.release import Release

    selection = Release(opened).query(str(options.question)).where(**_conditions(options.where))
    level, show = options.at, options.show
    if level is not None and show is not Show.difference:
        return {
            Show.shares: selection.shares_at, Show.median: selection.medians_at, Show.ranks: selection.ranks_at,
            Show.cumulative: selection.cumulative_at,
        }[show](level)  # fmt: skip
    if show is Show.ranks:
        raise InputError("--show ranks: the geounits of a level are ranked; --at LEVEL is needed")
    areas = {} if level is not None else _areas(opened, options.area, options.areas)
    if show is not Show.difference:
        return {
            Show.shares: selection.shares_over, Show.median: selection.medians_over,
            Show.cumulative: selection.cumulative_over,
        }[show](areas)  # fmt: skip
    if len(areas) != 2:
        found = f"--at {level}" if level is not None else f"{len(areas)} of them"
        raise InputError(f"--show difference: two areas are needed, by --area or --areas; found {found}")
    return selection.difference(*areas.values())


def _household_sizes(opened: Reader, options: QueryOptions) -> pd.DataFrame:
    """Average household sizes with their intervals."""
    from pipeline.reading.release import Release

    if options.at is not None:
        return Release(opened).household_sizes(options.at)
    return Release(opened).household_sizes_over(_areas(opened, options.area, options.areas))


def _what_there_is(directory: Path, opened: Reader) -> str:
    """The release in a few lines, and commands to try."""
    from pipeline.reading.release import Release

    begin = f"spinewise query {shlex.quote(str(directory))}"
    level = opened.levels[min(1, len(opened.levels) - 1)]
    attribute = shlex.quote(opened.schema.attributes[0].name)
    lines = [*repr(Release(opened)).splitlines()[:-1], "", "Try:"]
    tables = [table for table in opened.universe.tables if level in table.levels]
    lines += [f"  {begin} total --at {level}"]
    lines += [f"  {begin} --table {shlex.quote(table.name)} --at {level}" for table in tables[:1]]
    lines += [f"  {begin} {attribute} --at {level} --format csv"]
    if opened.joined:
        lines += [f"  {begin} --show household-sizes --at {level}"]
        lines += [f"  {begin} --table {shlex.quote(one.name)} --at {level}" for one in opened.linked_tables[:1]]
    return "\n".join(lines)


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


def _areas(opened: Reader, area: Sequence[str], file: Path | None) -> dict[str, list[str]]:
    """Area -> its geocodes and names; a name may hold the signs that separate others.

    An area that is one geounit is called what it was asked for by.
    """
    from pipeline.errors import InputError

    if file is not None:
        from pipeline.reading.question import areas_of_file, picked

        return picked(areas_of_file(file), area, file) if area else areas_of_file(file)
    named: dict[str, list[str]] = {}
    for number, text in enumerate(area):
        name, equals, codes = text.partition("=")
        if opened.areas.named(text) or not (equals or "," in text):
            name, codes = text, text
        elif not equals:
            name, codes = f"area {number + 1}" if len(area) > 1 else "area", text
        if name.strip() in named:
            raise InputError(f"--area: {name.strip()!r} stands twice; each area needs a name of its own")
        whole = bool(opened.areas.named(codes))
        parts = [codes] if whole else codes.split(",")
        named[name.strip()] = [part.strip() for part in parts if part.strip()]
    return named

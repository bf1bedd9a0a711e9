"""`spinewise fitness`: how good a release is for its uses."""

from __future__ import annotations

import json as library
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import JsonOption, Output, ReleaseArgument, WorkersOption

if TYPE_CHECKING:
    from pipeline.reading.reader import Reader


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fitness", short_help="Measure how fit a release is for its uses.")(fitness)


def fitness(
    context: typer.Context,
    release: ReleaseArgument,
    truth: Annotated[
        bool, typer.Option("--truth", help="Compare with the true counts; the results stay in restricted/.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also protect the same counts in other ways; requires --truth."),
    ] = False,
    threshold: Annotated[
        list[int] | None, typer.Option(min=1, help="A number of people on which funding depends; repeatable.")
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(metavar="LEVEL", help="Thresholds of this level alone; repeatable.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Measure how fit a release is for its uses.

    Errors by table, level and size of area (mean absolute, root mean square, bias, percent), the groups with the
    largest errors, and the accuracy target of the 2020 census. Without --truth they are estimated from the release's
    intervals and draws: only public files are read, and the result may be published. With --truth they are measured
    against the true counts; fitness.html and fitness.json are written to restricted/, and none of it is printed.

    --threshold: areas that may be on the wrong side of it. --compare: what the true counts would look like if they were
    protected by the other estimator, by noise on every table, by cell keys or by swapping.

    Example:

        spinewise fitness releases/example --threshold 1000 --at tract

        spinewise fitness releases/example --truth --compare
    """
    from features.fitness.confidential import write_fitness
    from pipeline.errors import InputError
    from pipeline.reading.reader import open_reader
    from pipeline.storage.files import check_page_file

    if compare and not truth:
        raise InputError("--compare: other ways protect true counts, and it requires --truth")
    if truth and (html is not None or json):
        raise InputError("--truth: the page and the data go to restricted/ only; leave out --html and --json")
    if html is not None:
        check_page_file("--html", html)
    opened = open_reader(release)
    levels = tuple(at or opened.levels)
    for level in levels:
        opened.index_of(level)
    releases = [opened, *(opened.companion(name) for name in opened.companions)]
    if not truth:
        _public(releases, tuple(threshold or ()), levels, html, json)
        return
    output = Output.of(context)
    others = None
    if compare:
        from features.fitness.other_estimator import estimated_otherwise
        from pipeline.execution.settings import load_settings

        processes = load_settings(workers=workers).processes
        others = estimated_otherwise(opened.run, processes, output.progress())
    write_fitness(releases, tuple(threshold or ()), levels, others)
    typer.echo(str(opened.run.fitness_page))


def _public(
    releases: Sequence[Reader],
    thresholds: Sequence[int],
    levels: Sequence[str],
    html: Path | None,
    json: bool,
) -> None:
    from features.fitness.fitness import Fitness, show_fitness
    from features.fitness.from_public import public_tables, public_thresholds
    from pipeline.errors import InputError
    from pipeline.model.texts.catalogue import texts_in
    from pipeline.storage.files import write_page_file

    own, by_name = releases[0], {release.universe.name: release for release in releases}
    tables = tuple(table for release in releases for table in public_tables(release, by_name[release.counted]))
    if not tables:
        raise InputError(
            f"{own.name}: publishes neither intervals nor draws (publish.margins, publish.draws); its errors are known "
            "only with --truth"
        )
    found = Fitness(
        release=own.name,
        status=own.manifest.status,
        restricted=False,
        tables=tables,
        thresholds=tuple(public_thresholds(own, thresholds, levels, {})),
    )
    if html is not None:
        write_page_file("--html", html, found.page(texts_in(own.spec.report.language)))
    if json:
        typer.echo(library.dumps(found.data(), indent=1, ensure_ascii=False, allow_nan=False))
        return
    show_fitness(found)
    if html is not None:
        typer.echo(f"Page written to {html}")

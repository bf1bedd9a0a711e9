"""`spinewise run`: a release, from records to published files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from flows.runs.request import EngineName

KeyFileOption = Annotated[
    Path | None, typer.Option(help="File with the master key; by default it is the run's own, restricted/key.")
]
KeyDescriptorOption = Annotated[
    int | None, typer.Option(min=0, help="Open file descriptor that the master key can be read from.")
]
KeyCommandOption = Annotated[
    str | None,
    typer.Option(help="Command that prints the master key, such as one that asks a vault; run without a shell."),
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    context: typer.Context,
    spec: Annotated[Path, typer.Argument(help="The release spec, a TOML file.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Folder in which the release's directory is made. [default: releases]")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Records to use instead of the spec's: a file, or a folder with files of the same names."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes; all cores by default.")] = None,
    key_file: KeyFileOption = None,
    key_fd: KeyDescriptorOption = None,
    key_command: KeyCommandOption = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="SPINEWISE_LEDGER",
            help="Ledger to charge, where the spec names a dataset: a file, sqlite:///PATH or postgresql://...; "
            "default: the user's own.",
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Who works on the parts of a large spine: local, or dask, a cluster.")
    ] = "local",
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of the Dask scheduler, such as tcp://10.0.0.5:8786.")
    ] = None,
    scratch: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Folder that this machine and all Dask workers can reach: a path, or s3://..., gs://...; "
            "by default the release's own directory.",
        ),
    ] = None,
) -> None:
    """Run a release, and print its directory.

    The release is written to OUT/<name>: public/ may be published, restricted/ must not. The same command again goes on
    with a run that was interrupted, and repeats a finished one to the same bytes; other records or another spec are
    refused there.

    Example:

        spinewise run examples/rhode_island.toml --out /srv/releases --workers 4
    """
    if ledger is not None:
        os.environ["SPINEWISE_LEDGER"] = ledger
    from flows.confidential.custody import KeySource, configured_key
    from flows.console import error_console, make_progress, tell_end
    from flows.execution.interrupts import stopping_loses_nothing
    from flows.execution.workers import default_workers
    from flows.orchestration.retries import TimedOutError
    from flows.orchestration.server import temporary_server
    from flows.runs.request import Engine, Request, check_ledger_is_used, check_request
    from flows.settings import load_settings
    from pipeline.spec.release_spec import load_spec

    settings = load_settings(out=out, workers=workers)
    load_spec(spec)  # what is wrong with it is told before a server is started
    stopping_loses_nothing()
    context.with_resource(temporary_server())  # it starts while records are read, and before it could see any of them
    given = KeySource(key_file, key_fd, key_command)
    key = given.read() if given != KeySource() else configured_key(spec, settings)
    count = settings.workers or default_workers()
    request = Request(spec, settings.out, data, count, key_file, key, Engine(engine, scheduler, scratch))
    checked = check_request(request)  # before an engine is started
    source = context.get_parameter_source("ledger")
    asked_for = source is not None and source.name == "COMMANDLINE"
    if ledger is not None and (odd := check_ledger_is_used(checked.universes, asked_for=asked_for)):
        error_console().print(f"Warning: {odd}")
    from flows.orchestration.release_flow import key_of_run, progress_of_run, release

    tokens = progress_of_run.set(make_progress()), key_of_run.set(key)
    try:
        root = release(
            spec=spec,
            out=request.out,
            data=data,
            workers=request.workers,
            key_file=key_file,
            engine=cast("EngineName", request.engine.name),
            scheduler=scheduler,
            scratch=scratch,
        )
    except TimeoutError:
        raise TimedOutError(
            f"{checked.run.root}: stopped after {settings.timeout:g} s, the setting timeout; the same command again "
            "goes on where it was"
        ) from None
    finally:
        progress_of_run.reset(tokens[0])
        key_of_run.reset(tokens[1])
    tell_end(checked.run)
    typer.echo(root)

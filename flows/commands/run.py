"""`spinewise run`: a release, from records to published files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

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
    from flows.console import make_progress, tell_end
    from flows.custody import KeySource, configured_key
    from flows.request import Request, check_request
    from flows.retries import TimedOutError
    from flows.settings import load_settings
    from flows.workers import default_workers

    settings = load_settings(out=out, workers=workers)
    source = KeySource(key_file, key_fd, key_command)
    key = source.read() if source != KeySource() else configured_key(spec, settings)
    request = Request(spec, settings.out, data, settings.workers or default_workers(), key_file, key)
    checked = check_request(request)  # before an engine is started
    from flows.release import key_of_run, progress_of_run, release

    tokens = progress_of_run.set(make_progress()), key_of_run.set(key)
    try:
        root = release(
            spec=spec,
            out=request.out,
            data=data,
            workers=request.workers,
            key_file=key_file,
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

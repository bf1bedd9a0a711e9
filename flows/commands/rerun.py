"""`spinewise rerun`: compute a release again from its records and its key, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import (
    KeyCommandOption,
    KeyDescriptorOption,
    KeyFileOption,
    ReleaseArgument,
    WorkersOption,
)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rerun", short_help="Compute a release again from its records and its key.")(rerun)


def rerun(
    context: typer.Context,
    release: ReleaseArgument,
    data: Annotated[
        Path | None,
        typer.Option(help="The records: a file, or a folder with files of the same names; by default where they were."),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(help="The release's spec, needed only where its restricted/ folder is not."),
    ] = None,
    workers: WorkersOption = None,
    key_file: KeyFileOption = None,
    key_fd: KeyDescriptorOption = None,
    key_command: KeyCommandOption = None,
) -> None:
    """Compute every public file again from the records and the key, and compare all of them byte by byte.

    The same noise is drawn as before, so it costs no budget; other records are refused before any is drawn. It is done
    in restricted/, or, where that is not there or cannot be written, in a temporary folder (TMPDIR says where) that is
    closed to others and holds true counts while it is there. Where other versions are installed than the release was
    made with, they are named, and all is compared all the same.

    Example:

        spinewise rerun releases/rhode-island --data persons.parquet
    """
    from flows.confidential.custody import KeySource, key_of_release
    from flows.console import error_console, make_progress, tell_problems
    from flows.orchestration.server import temporary_server
    from flows.runs.record_sources import universes_to_rerun
    from flows.settings import load_settings
    from pipeline.published import release_at

    workers = load_settings(workers=workers).workers
    run = release_at(release)
    universes_to_rerun(run, data, spec)  # before an engine is started
    context.with_resource(temporary_server())
    source = KeySource(key_file, key_fd, key_command)
    if source == KeySource() and not run.key.exists():
        settings = load_settings()
        source = KeySource(settings.key_file, command=settings.key_command)
    key = key_of_release(run, source)
    from flows.orchestration.audit_flows import key_of_rerun
    from flows.orchestration.audit_flows import rerun as rerun_flow
    from flows.orchestration.tasks import progress_of_run

    tokens = progress_of_run.set(make_progress()), key_of_rerun.set(key)
    try:
        found = rerun_flow(
            release=release,
            data=data,
            spec=spec,
            workers=workers,
        )
    finally:
        progress_of_run.reset(tokens[0])
        key_of_rerun.reset(tokens[1])
    for remark in found.remarks:
        error_console().print(f"Note: {remark}")
    if found.same:
        typer.echo(f"{release}: rerun; all {found.files} public files are the same")
        return
    shown = [str(difference) for difference in found.differences[:20]]
    if found.differences[20:]:
        shown.append(f"and {len(found.differences) - 20} more")
    tell_problems(f"{release}: {len(found.differences)} of {found.files} public files differ, first", shown)
    raise typer.Exit(1)

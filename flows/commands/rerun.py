"""`spinewise rerun`: recompute a release from its records and its key, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import (
    CombinedWithOption,
    KeyCommandOption,
    KeyDescriptorOption,
    KeyFileOption,
    ReleaseArgument,
    WorkersOption,
)

if TYPE_CHECKING:
    from pipeline.confidential.custody import KeySource


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rerun", short_help="Recompute a release from its records and its key.")(rerun)


def rerun(
    context: typer.Context,
    release: ReleaseArgument,
    data: Annotated[
        Path | None,
        typer.Option(help="The records: a file, or a folder with files of the same names. [default: where they were]"),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(help="The release's spec, needed only without its restricted/ folder."),
    ] = None,
    combined_with: CombinedWithOption = None,
    workers: WorkersOption = None,
    key_file: KeyFileOption = None,
    key_fd: KeyDescriptorOption = None,
    key_command: KeyCommandOption = None,
) -> None:
    """Recompute every public file from the records and the key, and compare them byte by byte.

    Draws the same noise as before, so it costs no budget; other records are refused before any noise is drawn. Works in
    restricted/ or, if that is missing or cannot be written, in a temporary folder (set TMPDIR to choose where); the
    folder is closed to other users, contains true counts, and is removed at the end. If other versions are installed
    than those that made the release, they are listed, and the files are compared nevertheless. An answer of spinewise
    ask is drawn again in the same way; its charge must be in the ledger.

    Example:

        spinewise rerun releases/rhode-island --data persons.parquet
    """
    from pipeline.execution.light_arrow import spare_pandas

    spare_pandas()
    from flows.orchestration.server import temporary_server
    from pipeline.confidential.custody import KeySource
    from pipeline.errors import InputError
    from pipeline.execution.console import error_console, make_progress, tell_problems
    from pipeline.execution.settings import load_settings
    from pipeline.published import release_at
    from pipeline.questions.manifest import is_answer
    from pipeline.runs.record_sources import universes_to_rerun
    from pipeline.runs.rerun import repeated_apart

    if is_answer(release):
        _rerun_answer(release, spec, data, KeySource(key_file, key_fd, key_command), combined_with)
        return
    if combined_with is not None:
        raise InputError(f"--release: {release} is no answer that could be combined with a release")
    workers = load_settings(workers=workers).workers
    run = release_at(release)
    universes_to_rerun(run, data, spec)  # before an engine is started
    context.with_resource(temporary_server())
    source = KeySource(key_file, key_fd, key_command)
    if source == KeySource() and not run.key.exists():
        settings = load_settings()
        source = KeySource(settings.key_file, command=settings.key_command)
    measured = context.with_resource(repeated_apart(run, source))
    from flows.orchestration.audit_flows import repeating
    from flows.orchestration.audit_flows import rerun as rerun_flow
    from flows.orchestration.tasks import progress_of_run

    tokens = progress_of_run.set(make_progress()), repeating.set(measured)
    try:
        outcome = rerun_flow(
            release=release,
            data=data,
            spec=spec,
            workers=workers,
        )
    finally:
        progress_of_run.reset(tokens[0])
        repeating.reset(tokens[1])
    for remark in outcome.remarks:
        error_console().print(f"Note: {remark}")
    if outcome.same:
        typer.echo(f"{release}: rerun; all {outcome.files} public files are the same")
        return
    lines = [str(difference) for difference in outcome.differences[:20]]
    if outcome.differences[20:]:
        lines.append(f"and {len(outcome.differences) - 20} more")
    tell_problems(f"{release}: {len(outcome.differences)} of {outcome.files} public files differ, first", lines)
    raise typer.Exit(1)


def _rerun_answer(
    answer: Path, spec: Path | None, data: Path | None, source: KeySource, combined_with: Path | None
) -> None:
    from pipeline.confidential.custody import KeySource
    from pipeline.errors import InputError
    from pipeline.execution.console import error_console, tell_problems
    from pipeline.execution.settings import load_settings
    from pipeline.release.layout import RunDirectory
    from pipeline.runs.questions.checking import rerun_answer
    from pipeline.runs.questions.combining import is_combined, release_of

    run = RunDirectory(answer)
    if source == KeySource() and not run.key.exists():
        settings = load_settings()
        source = KeySource(settings.key_file, command=settings.key_command)
    combined = is_combined(run)
    if combined_with is not None and not combined:
        raise InputError(f"--release: {answer} is not combined with a release")
    release = release_of(run, combined_with) if combined else None
    if combined and release is None:
        error_console().print("Note: combined numbers were not computed again: name the release with --release")
    differing, files = rerun_answer(run, spec, data, source, release), 3 if release is None else 5
    if differing:
        tell_problems(f"{answer}: {len(differing)} of {files} public files differ", differing)
        raise typer.Exit(1)
    typer.echo(f"{answer}: rerun; all {files} public files are the same")

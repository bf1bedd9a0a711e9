"""`spinewise verify --records`, formerly `spinewise rerun`: recompute a release from its records and its key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import (
    CombinedWithOption,
    KeyCommandOption,
    KeyDescriptorOption,
    KeyFileOption,
    Output,
    ReleaseArgument,
    WorkersOption,
)

if TYPE_CHECKING:
    from pipeline.confidential.custody import KeySource
    from pipeline.release.layout import RunDirectory


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rerun", short_help="Recompute a release from its records and its key.", hidden=True)(rerun)


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
    ask is drawn again in the same way; its charge must be in the ledger. The same as spinewise verify --records.

    Example:

        spinewise rerun releases/rhode-island --data persons.parquet
    """
    from pipeline.confidential.custody import KeySource

    source = KeySource(key_file, key_fd, key_command)
    recompute(context, release, Records(data, spec, source, combined_with, workers), Output())


@dataclass(frozen=True)
class Records:
    """What a release is recomputed from: options of the command."""

    data: Path | None
    spec: Path | None
    source: KeySource
    combined_with: Path | None
    workers: int | None


def recompute(context: typer.Context, release: Path, given: Records, output: Output) -> None:
    """Print whether the records and the key give the same public files; exit status 1 where they do not."""
    from pipeline.execution.light_arrow import spare_pandas

    spare_pandas()
    from flows.orchestration.server import temporary_server
    from pipeline.errors import InputError
    from pipeline.execution.console import tell_problems
    from pipeline.execution.settings import load_settings
    from pipeline.published import release_at
    from pipeline.questions.manifest import is_answer
    from pipeline.runs.record_sources import universes_to_rerun
    from pipeline.runs.rerun import repeated_apart

    if is_answer(release):
        _rerun_answer(release, given, output)
        return
    if given.combined_with is not None:
        raise InputError(f"--release: {release} is no answer that could be combined with a release")
    workers = load_settings(workers=given.workers).workers
    run = release_at(release)
    universes_to_rerun(run, given.data, given.spec)  # before an engine is started
    context.with_resource(temporary_server())
    source = _key_of(run, given.source)
    measured = context.with_resource(repeated_apart(run, source))
    from flows.orchestration.audit_flows import repeating
    from flows.orchestration.audit_flows import rerun as rerun_flow
    from flows.orchestration.tasks import progress_of_run

    tokens = progress_of_run.set(output.progress()), repeating.set(measured)
    try:
        outcome = rerun_flow(
            release=release,
            data=given.data,
            spec=given.spec,
            workers=workers,
        )
    finally:
        progress_of_run.reset(tokens[0])
        repeating.reset(tokens[1])
    for remark in outcome.remarks:
        output.remark(f"Note: {remark}")
    problems = [str(difference) for difference in outcome.differences]
    if problems and not output.json:
        lines = problems[:20] + ([f"and {len(problems) - 20} more"] if problems[20:] else [])
        tell_problems(f"{release}: {len(problems)} of {outcome.files} public files differ, first", lines)
    else:
        output.result(
            f"{release}: rerun; all {outcome.files} public files are the same",
            {"release": str(release), "same": not problems, "files": outcome.files, "problems": problems},
        )
    if problems:
        raise typer.Exit(1)


def _key_of(run: RunDirectory, source: KeySource) -> KeySource:
    """Where the key is: as given, else in the run's own folder, else where the settings say."""
    from pipeline.confidential.custody import KeySource
    from pipeline.execution.settings import load_settings

    if source != KeySource() or run.key.exists():
        return source
    settings = load_settings()
    return KeySource(settings.key_file, command=settings.key_command)


def _rerun_answer(answer: Path, given: Records, output: Output) -> None:
    from features.registry import part_of
    from pipeline.errors import InputError
    from pipeline.execution.console import tell_problems
    from pipeline.release.layout import RunDirectory
    from pipeline.runs.questions.combining import is_combined, release_of

    run = RunDirectory(answer)
    source, combined_with = _key_of(run, given.source), given.combined_with
    combined = is_combined(run)
    if combined_with is not None and not combined:
        raise InputError(f"--release: {answer} is not combined with a release")
    release = release_of(run, combined_with) if combined else None
    if combined and release is None:
        output.remark("Note: combined numbers were not computed again: name the release with --release")
    rerun_answer = part_of("questions", "answering").rerun_answer
    differing, files = rerun_answer(run, given.spec, given.data, source, release), 3 if release is None else 5
    if differing and not output.json:
        tell_problems(f"{answer}: {len(differing)} of {files} public files differ", differing)
    else:
        output.result(
            f"{answer}: rerun; all {files} public files are the same",
            {"answer": str(answer), "same": not differing, "files": files, "problems": differing},
        )
    if differing:
        raise typer.Exit(1)

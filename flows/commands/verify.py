"""`spinewise verify`: compute a release again from its measurements, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(
    release: Annotated[
        Path, typer.Argument(help="The directory of a release.", metavar="RELEASE_DIR", show_default=False)
    ],
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes; all cores by default.")] = None,
) -> None:
    """Check a release from what is public of it, and compute it again from its noisy measurements.

    Every file must have the hash that the manifest states, and everything that follows from the measurements must come
    out the same to the last byte. Nothing under restricted/ is read, so anyone with the public/ folder can do it.

    Example:

        spinewise verify releases/rhode-island
    """
    from flows.console import make_progress, tell_problems
    from flows.execution.workers import default_workers
    from flows.runs.verify import verify_release
    from flows.settings import load_settings
    from pipeline.published import release_at

    run = release_at(release)
    progress = make_progress()
    try:
        problems = verify_release(run, load_settings(workers=workers).workers or default_workers(), progress)
    finally:
        progress.close()
    if problems:
        tell_problems(f"{release}: this release does not verify", problems)
        raise typer.Exit(1)
    typer.echo(f"{release}: verified; all of it follows from its measurements")

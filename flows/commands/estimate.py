"""`spinewise estimate`: a release from noisy measurements that were made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import WorkersOption


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("estimate", short_help="Compute a release from measurements made elsewhere.")(estimate)


def estimate(
    measurements: Annotated[
        Path, typer.Argument(help="Folder of noisy measurement files.", metavar="NMF_DIR", show_default=False)
    ],
    spec: Annotated[Path, typer.Argument(help="The spec that they were made by.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder in which the release's directory is made.")] = Path("releases"),
    workers: WorkersOption = None,
) -> None:
    """Compute a release from noisy measurements that were made elsewhere, and print its directory.

    No records are read and no key is needed. The folder has a Parquet file (or a folder of them) for each level with
    the columns geocode, query_name, query_shape, value and variance, as the Census Bureau published its measurements
    of 2020, and as spinewise export --format nmf writes them; companions are in companions/NAME. Rows with variance 0
    are the invariants. The spec says what was measured with which budget: every query of it has to be there for every
    area, with the variance that the budget gives. The manifest says that the noise was drawn elsewhere.

    Example:

        spinewise estimate measurements examples/rhode_island.toml --out estimated
    """
    from flows.console import make_progress
    from flows.execution.workers import default_workers
    from flows.runs.from_measurements import estimate_release

    progress = make_progress()
    try:
        root = estimate_release(measurements, spec, out, default_workers() if workers is None else workers, progress)
    finally:
        progress.close()
    typer.echo(root)

"""`spinewise estimate`: a release from noisy measurements made with other software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import WorkersOption


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("estimate", short_help="Compute a release from other software's measurements.")(estimate)


def estimate(
    measurements: Annotated[
        Path, typer.Argument(help="Folder of noisy measurement files.", metavar="NMF_DIR", show_default=False)
    ],
    spec: Annotated[Path, typer.Argument(help="The spec by which they were made.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder in which to create the release's directory.")] = Path("releases"),
    workers: WorkersOption = None,
) -> None:
    """Compute a release from noisy measurements made with other software, and print its directory.

    Reads no records and needs no key. NMF_DIR has a Parquet file (or a folder of them) for each level, with the columns
    geocode, query_name, query_shape, value and variance: the layout in which the Census Bureau published its
    measurements of 2020, and which spinewise export --format nmf writes. Companions are in companions/NAME. Rows with
    variance 0 are invariants. Every query of the spec must be present for every area, with the variance that follows
    from the spec's budget. The manifest states that the noise was not drawn by Spinewise.

    Example:

        spinewise estimate measurements examples/rhode_island.toml --out estimated
    """
    from pipeline.execution.light_arrow import spare_pandas

    spare_pandas()
    from pipeline.execution.console import make_progress
    from pipeline.execution.workers import default_workers
    from pipeline.runs.from_measurements import estimate_release

    progress = make_progress()
    try:
        root = estimate_release(measurements, spec, out, default_workers() if workers is None else workers, progress)
    finally:
        progress.close()
    typer.echo(root)

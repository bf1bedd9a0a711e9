"""The public files of a run, by what they follow from; `pipeline.metadata.products` has the catalogue of them."""

from __future__ import annotations

from pathlib import Path

from pipeline.execution.job import Job
from pipeline.metadata.products import (
    TABLES,
    Product,
    ReleaseScope,
    files_of,
    files_with_role,
)
from pipeline.publishing.public_inputs import public_input_files


def product_files(job: Job, *products: Product, universe: str | None = None, level: str = "") -> tuple[Path, ...]:
    """The files of some products, of all universes and levels or of one."""
    return files_of(_scope(job), *products, universe=universe, level=level)


def published_tables(job: Job) -> list[tuple[str, str, Path]]:
    """Every table at each of its levels: universe, level, file."""
    return [(file.universe, file.level, file.path) for file in TABLES.files(_scope(job))]


def input_files(job: Job) -> tuple[Path, ...]:
    """Everything under public/ from which the rest is computed."""
    return tuple(dict.fromkeys((*public_input_files(job), *files_with_role(_scope(job), "input", "measured"))))


def output_files(job: Job) -> tuple[Path, ...]:
    """Everything under public/ that is computed from the inputs, except the manifest."""
    return files_with_role(_scope(job), "computed")


def _scope(job: Job) -> ReleaseScope:
    return ReleaseScope(job.spec, job.universes, job.run)

"""The public files of a run, by what they follow from; `pipeline.metadata.products` has the catalogue of them."""

from __future__ import annotations

from pathlib import Path

from pipeline.execution.job import Job
from pipeline.metadata.products import TABLES, files_with_role
from pipeline.publishing.public_inputs import public_input_files


def published_tables(job: Job) -> list[tuple[str, str, Path]]:
    """Every table at each of its levels: universe, level, file."""
    return [(file.universe, file.level, file.path) for file in TABLES.files(job)]


def input_files(job: Job) -> tuple[Path, ...]:
    """Everything under public/ from which the rest is computed."""
    return tuple(dict.fromkeys((*public_input_files(job), *files_with_role(job, "input", "measured"))))


def output_files(job: Job) -> tuple[Path, ...]:
    """Everything under public/ that is computed from the inputs, except the manifest."""
    return files_with_role(job, "computed")

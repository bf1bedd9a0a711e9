"""The public steps of a finished release, computed again with its spine cut into parts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.execution.batches import Batches
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.publishing.files import input_files
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.spine import read_public_spine
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.paths import unchecked


@contextmanager
def computed_again(published: Path, root: Path, most: int, part: int, workers: Workers | int = 1) -> Iterator[Job]:
    """A job on the public inputs of a release, whose spine is cut."""
    source, again = RunDirectory(published), RunDirectory(root)
    spec = ReleaseSpec.from_public_dict(read_manifest(source.manifest).spec)
    spine = read_public_spine(unchecked(source.spine), spec.geography.level_names)
    again.staging.mkdir(parents=True)
    with Workers(workers) if isinstance(workers, int) else workers as pool:
        job = Job(again, spec, spec.universes(), spine, pool, Silent(), Batches(again, "test"), most, part)
        for path in input_files(job):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.root / path.relative_to(again.root), path)
        yield job

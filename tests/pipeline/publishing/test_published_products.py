"""The steps of a run write the files that the catalogue of published files has, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from releases.chosen import write_chosen
from releases.homes import write_homes
from releases.named import write_named_town
from releases.small import write_town
from releases.wages import write_wages

from features.registry import is_installed
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.metadata import products
from pipeline.metadata.products import ReleaseScope, files_of
from pipeline.publishing.files import answer_paths, input_files, output_files
from pipeline.publishing.steps import public_steps
from pipeline.release.layout import RunDirectory
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import load_spec


def _town(folder: Path) -> Path:
    return write_town(folder, ("unbiased = true", "unbiased = true\ndraws = 2\nmicrodata = true"))


#: With the features joins and amounts, where they are installed: their files are written, too.
LINKED = [*([write_homes] if is_installed("joins") else []), *([write_wages] if is_installed("amounts") else [])]


@pytest.mark.parametrize("write", [_town, write_named_town, *LINKED, write_chosen])
def test_the_steps_of_a_run_write_what_the_catalogue_has(write: Callable[[Path], Path], tmp_path: Path) -> None:
    """Each computed file is of one step, and no step writes another; of all others, the run has those of its spec."""
    spec = load_spec(write(tmp_path))
    side = open_listed(spec, spec.universes())
    job = side.job(RunDirectory(tmp_path / "out" / spec.name), Workers(1), Silent())
    written = [path for step in public_steps(job) for path in step.files]
    assert len(written) == len(set(written))
    assert set(written) == set(output_files(job))
    assert not set(written) & set(input_files(job))
    for universe in job.universes:
        for level in job.spine.level_names:
            assert set(answer_paths(job, universe, level)) <= set(input_files(job))
    every = ReleaseScope(job.spec, job.universes, job.run)
    known = [product for product in products.products_of(job.spec.of_features) if product.role != "statement"]
    assert set(files_of(every, *known)) == {*written, *input_files(job)}

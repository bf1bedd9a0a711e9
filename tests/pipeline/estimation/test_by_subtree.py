"""A spine that is cut into subtrees gives the same public files, and goes on with the parts that are done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from releases.again import computed_again
from releases.small import public_bytes

from pipeline.estimation.by_subtree import SubtreeEstimation, estimation_of
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.publishing.steps import perform_public_steps
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest

#: Leaf cells: every tract of the town is a part of its own; two or three share one.
CUTS = [(1, 1), (1, 250)]


@pytest.mark.parametrize(("most", "part"), CUTS)
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_public_files_do_not_show_the_cut(town: Path, tmp_path: Path, most: int, part: int, workers: int) -> None:
    with computed_again(town, tmp_path / "town", most, part, workers) as job:
        estimation = estimation_of(job, job.universes[0])
        assert isinstance(estimation, SubtreeEstimation)
        assert len(estimation.cut.parts) > 1
        told = perform_public_steps(job)
        # Done with, the parts are gone.
        assert not [path for path in job.run.main.checkpoints.rglob("*.npz") if "simulate" not in str(path)]
    expected = public_bytes(town)
    assert public_bytes(tmp_path / "town") == {k: v for k, v in expected.items() if not k.endswith("manifest.json")}
    assert told == read_manifest(RunDirectory(town).manifest).solver


def test_a_killed_run_goes_on_with_the_parts_that_are_whole(town: Path, tmp_path: Path) -> None:
    root = tmp_path / "town"
    with computed_again(town, root, 1, 1) as job:

        class Killed(Silent):
            """Ends the run after some parts of the last step."""

            parts = 0

            def advance(self, _: int) -> None:
                self.parts += 1
                if self.parts > 11:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            perform_public_steps(replace(job, progress=Killed()))
        folder = job.run.main.checkpoints / "batches"
        left = sorted(folder.glob("estimate-below-tract*/block-*.npz"))
        assert left
        whole = sum(1 for _ in folder.rglob("*.npz"))
        content = left[0].read_bytes()
        left[0].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        sorted(folder.glob("combine*/*"))[0].write_bytes(b"")
        worked_on: list[str] = []

        class Counted(Workers):
            def run(self, function, tasks, done=None):  # type: ignore[no-untyped-def]
                tasks = [*tasks]
                worked_on.extend(function.__name__ for _ in tasks)
                return super().run(function, tasks, done)

        perform_public_steps(replace(job, workers=Counted(1)))
        cut = estimation_of(job, job.universes[0]).cut
        assert cut is not None
        parts = len(cut.parts)
        assert worked_on.count("estimate_top") < 2 * parts
        assert worked_on.count("estimate_below") < 2 * parts
        assert whole > 1
    expected = public_bytes(town)
    assert public_bytes(root) == {k: v for k, v in expected.items() if not k.endswith("manifest.json")}

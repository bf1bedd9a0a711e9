"""A spine that is cut into subtrees gives the same public files, and goes on with the parts that are done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from releases.again import computed_again
from releases.small import public_bytes

from pipeline.estimation import by_subtree
from pipeline.estimation.by_subtree import ComputedBySubtree, SubtreeEstimation, TopTask, estimation_of
from pipeline.estimation.problem import measurement_files
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


@pytest.mark.parametrize(("held", "some"), [(0, "none"), (1, "some"), (1 << 20, "all")])
def test_values_that_are_held_for_all_parts_are_those_of_the_files(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, some: str
) -> None:
    monkeypatch.setattr(by_subtree, "HELD", held)
    with computed_again(town, tmp_path / "town", 1, 1) as job:
        estimation = estimation_of(job, job.universes[0])
        assert isinstance(estimation, SubtreeEstimation)
        computed, cut = estimation.computed, estimation.cut
        assert isinstance(computed, ComputedBySubtree)
        all_files = measurement_files(job, job.universes[0])[cut.level :]
        sizes = {
            (i, number): len(level) * file.header.size
            for i, (level, of_level) in enumerate(zip(job.spine.levels[cut.level :], all_files, strict=True))
            for number, file in enumerate(of_level)
        }
        limit = held * cut.largest(job.spine) * job.universes[0].schema.n_cells
        for number in range(len(cut.parts)):
            part, files, basis = computed.part(number)
            here = {place for place in sizes if files[place[0]][place[1]] is None}
            assert sum(sizes[place] for place in here) <= limit
            assert max((sizes[place] for place in here), default=0) <= min(
                (size for place, size in sizes.items() if place not in here), default=limit
            )
            assert {"none": not here, "some": 0 < len(here) < len(sizes), "all": len(here) == len(sizes)}[some]
            without, none_here, _ = computed.part(number, values=False)
            assert not any(one.values.size for level in without.measured for one in level)
            found, read = TopTask(number, part, files, basis).problem(), TopTask(number, without, none_here, basis)
            for (i, query), size in sizes.items():
                values = found.measured[i][query].values
                assert 0 < values.size <= size
                assert np.array_equal(values, read.problem().measured[i][query].values)
        perform_public_steps(job)
    expected = public_bytes(town)
    assert public_bytes(tmp_path / "town") == {k: v for k, v in expected.items() if not k.endswith("manifest.json")}

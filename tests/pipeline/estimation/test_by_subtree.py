"""A spine that is cut into subtrees gives the same public files, wherever its parts are worked on, stopped or not."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.again import computed_again
from releases.sent import Sent
from releases.small import public_bytes

from pipeline.estimation import by_subtree, draws
from pipeline.estimation.by_subtree import SubtreeEstimation, estimation_of
from pipeline.estimation.draws import DrawBelowTask
from pipeline.estimation.margins import Simulation
from pipeline.execution.cluster import Portable, _arrays_in
from pipeline.execution.steps import Silent
from pipeline.execution.workers import WorkerError, Workers
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.run import DrawSource, ReleaseRun


def of_steps(root: Path) -> dict[str, bytes]:
    """All public files but the manifest, which the last step of a run writes."""
    return {name: content for name, content in public_bytes(root).items() if not name.endswith("manifest.json")}


@dataclass(frozen=True)
class Cut:
    """The town computed again in parts of two or three tracts, all of which were sent."""

    root: Path
    told: Any
    left: list[Path]
    sent: list[tuple[Portable, dict[str, Any]]]


@pytest.fixture(scope="module")
def cut(drawn_town: Path, tmp_path_factory: pytest.TempPathFactory) -> Cut:
    root, workers = tmp_path_factory.mktemp("cut") / "town", Sent()
    with computed_again(drawn_town, root, 1, 250, workers) as job:
        estimation = estimation_of(job, job.universes[0])
        assert isinstance(estimation, SubtreeEstimation)
        assert len(estimation.cut.parts) > 1
        ReleaseRun(job, DrawSource()).perform()
        told = job.notes
        # Done with, the parts are gone.
        left = [path for path in job.run.main.checkpoints.rglob("*.npz") if "simulate" not in str(path)]
    return Cut(root, told, left, workers.sent)


def test_the_public_files_do_not_show_the_cut_nor_who_worked_on_its_parts(drawn_town: Path, cut: Cut) -> None:
    assert of_steps(cut.root) == of_steps(drawn_town)
    assert cut.told == read_manifest(RunDirectory(drawn_town).manifest).solver
    assert not cut.left
    assert {type(task).__name__ for task, _ in cut.sent} >= {"TopTask", "BelowTask", "DrawBelowTask", "Simulation"}


@pytest.mark.slow
@pytest.mark.parametrize(("part", "workers", "at_cut", "held"), [(1, 1, 1 << 26, 1), (250, 2, 1, 0)])
def test_other_parts_workers_and_rounds_of_draws_do_not_show(
    drawn_town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int, workers: int, at_cut: int, held: int
) -> None:
    """Every tract a part of its own, some values held for all; each draw in a round of its own over the parts."""
    monkeypatch.setattr(by_subtree, "HELD", held)
    monkeypatch.setattr(draws, "MOST_AT_CUT", at_cut)
    with computed_again(drawn_town, tmp_path / "town", 1, part, workers) as job:
        ReleaseRun(job, DrawSource()).perform()
    assert of_steps(tmp_path / "town") == of_steps(drawn_town)


#: What an attacker makes of an array, by its name's ending.
SPOILT: dict[str, Callable[[Any], Any]] = {
    "classes": lambda array: array + 10**6,
    "info_precision": lambda array: array[:, :0],
    "info_known": lambda array: array.astype(np.float32),
    "info_covariance": lambda array: np.full_like(array, np.nan),
    "children_mean": lambda array: array[:-1],
    "children_precision": lambda array: array.astype(np.int64),
    "counts.data": lambda array: -array - 1,
    "counts.indices": lambda array: array + 10**6,
    "counts.indptr": lambda array: array[::-1].copy(),
    "counts.shape": lambda array: array * 1000,
    "variances0": lambda array: np.full_like(array, np.inf),
    "answers0": lambda array: array[:-1],
    "report": lambda _array: np.frombuffer(b'{"families": "many"}', dtype=np.uint8),
}


@pytest.mark.parametrize("ending", SPOILT)
def test_spoilt_arrays_are_refused(cut: Cut, ending: str) -> None:
    having = [(task, arrays) for task, arrays in cut.sent if any(name.endswith(ending) for name in arrays)]
    task, arrays = next(pair for pair in having if not isinstance(pair[0], Simulation))
    spoilt = {name: SPOILT[ending](array) if name.endswith(ending) else array for name, array in arrays.items()}
    with pytest.raises(WorkerError, match=rf"not those of its part \((\d\.)?{ending}\)"):
        task.result_of(spoilt)


def test_arrays_of_other_names_forms_and_places_are_refused(cut: Cut) -> None:
    """Of every kind of part. Counts may be wrong, as those of any worker; but no index leads out of an array."""
    for kind in {type(task) for task, _ in cut.sent}:
        task, arrays = next(pair for pair in cut.sent if type(pair[0]) is kind)
        changed = [{**arrays, "x": np.zeros(1)}, dict(list(arrays.items())[1:])]
        if kind in (Simulation, DrawBelowTask):
            of_form = [{**arrays, name: array.astype(np.float32)} for name, array in arrays.items() if array.size]
            changed += of_form
        if kind is Simulation:
            changed += [{**arrays, name: array - 10**12} for name, array in arrays.items() if array.size]
        if kind is DrawBelowTask:
            changed += [{**arrays, name: array[:-1]} for name, array in arrays.items()]
        for some in changed:
            with pytest.raises(WorkerError, match="not those of its part"):
                task.result_of(some)


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("form", ["pickle", "objects"])
def test_nothing_in_a_result_is_executed(tmp_path: Path, form: str) -> None:
    hostile = Hostile(tmp_path / "run")
    body = io.BytesIO()
    if form == "pickle":
        body.write(pickle.dumps(hostile))
    else:
        np.savez(body, allow_pickle=True, classes=np.array([hostile], dtype=object))
    with pytest.raises(WorkerError, match="a result that is not arrays"):
        _arrays_in(body.getvalue())
    assert not (tmp_path / "run").exists()
    pickle.loads(pickle.dumps(hostile))  # noqa: S301  # what would have happened
    assert (tmp_path / "run").exists()


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
            ReleaseRun(replace(job, progress=Killed()), DrawSource()).perform()
        folder = job.run.main.checkpoints / "batches"
        left = sorted(folder.glob("estimate-below-tract*/block-*.npz"))
        assert left
        content = left[0].read_bytes()
        left[0].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        sorted(folder.glob("combine*/*"))[0].write_bytes(b"")
        worked_on: list[str] = []

        class Counted(Workers):
            def run(self, function, tasks, done=None):  # type: ignore[no-untyped-def]
                tasks = [*tasks]
                worked_on.extend(function.__name__ for _ in tasks)
                return super().run(function, tasks, done)

        ReleaseRun(replace(job, workers=Counted(1)), DrawSource()).perform()
        cut = estimation_of(job, job.universes[0]).cut
        assert cut is not None
        assert worked_on.count("estimate_top") < 2 * len(cut.parts)
        assert worked_on.count("estimate_below") < 2 * len(cut.parts)
    assert of_steps(root) == of_steps(town)

"""Whatever is handed to workers could be done anywhere: nothing of a task is changed, and results travel as arrays."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from releases.command import feature_module
from releases.made_case import made_case
from releases.placements import PlacedWorkers, kept_as_arrays

import postprocess.downward.tasks
from features.registry import is_installed
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release

#: The functions of all tasks that workers are handed; of another kind a release below shows that it is not known.
TASKS = {
    "features.audit.trials.run_trials",
    "features.joins.knowledge.estimate_implied",
    "features.report.table_numbers.packed_table",
    "features.report.workers.alike_numbers",
    "pipeline.estimation.by_subtree.estimate_below",
    "pipeline.estimation.by_subtree.estimate_top",
    "pipeline.estimation.draws.draw_below",
    "pipeline.estimation.draws.run_draw",
    "pipeline.estimation.linear_parts.linear_below",
    "pipeline.estimation.margins.run_simulation",
    "pipeline.estimation.subtree_answers.estimate_answers",
    "postprocess.downward.intervals.Intervals.prepared",
    "postprocess.downward.level.solve_task",
}
#: Case -> its release; between them, they have every kind of task.
RELEASES = {"drawn": "homes", "shares": "town"} if is_installed("joins") and is_installed("shares") else {}


@pytest.mark.slow
@pytest.mark.skipif(not RELEASES, reason="without features that hand out tasks")
def test_each_kind_could_be_done_elsewhere(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a release is computed again, whole and cut: the same bytes, of tasks that share nothing with any other."""
    monkeypatch.setattr(postprocess.downward.tasks, "BATCH_CELLS", 60)  # several tasks of each level
    kept_as_arrays(monkeypatch)
    seen: set[str] = set()
    for case, name in RELEASES.items():
        root = RunDirectory(made_case(tmp_path_factory, case) / "out" / name)
        for cells in (None, 1):
            workers = PlacedWorkers()
            with monkeypatch.context() as patch:
                patch.setattr("pipeline.runs.verify.Workers", lambda *_, placed=workers, **__: placed)
                if cells:
                    patch.setattr("pipeline.runs.verify.Job", partial(Job, most_cells=cells, part_cells=cells))
                assert verify_release(root, 1, Silent()) == [], (case, cells)
            seen |= workers.kinds
    trials, (trial, *_) = feature_module("features.audit.trials"), feature_module("features.audit.installed").CASES
    pair = trials.write_pair(tmp_path, trial, Fraction(1))
    workers = PlacedWorkers()
    with workers:
        trials.outcomes_of(pair, pair, 2, 1, workers, whole=False)
    seen |= workers.kinds
    assert seen == {task for task in TASKS if task.split(".")[0] != "features" or is_installed(task.split(".")[1])}

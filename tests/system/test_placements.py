"""Whatever is handed to workers could be done anywhere: nothing of a task is changed, and results travel as arrays."""

from __future__ import annotations

import ast
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from releases.command import PROJECT, feature_module
from releases.made_case import made_case
from releases.placements import PlacedWorkers, kept_as_arrays

import postprocess.downward.tasks
from features.registry import is_installed
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release

#: Module that hands tasks to workers -> the functions of its tasks, which are those that it has in most cases.
ALL_TASKS = {
    "features/audit/trials.py": ["run_trials"],
    "features/joins/knowledge.py": ["estimate_implied"],
    "features/report/workers.py": ["features.report.table_numbers.packed_table", "alike_numbers"],
    "pipeline/estimation/by_subtree.py": ["estimate_top", "estimate_below"],
    "pipeline/estimation/draws.py": ["run_draw", "draw_below"],
    "pipeline/estimation/linear_parts.py": ["linear_below"],
    "pipeline/estimation/margins.py": ["run_simulation", "postprocess.downward.intervals.Intervals.prepared"],
    "pipeline/estimation/subtree_answers.py": ["estimate_answers", "estimate_answers"],
    "pipeline/estimation/whole_spine.py": ["postprocess.downward.level.solve_task"],
}
#: The same without features whose folders are not there.
TASKS = {module: kinds for module, kinds in ALL_TASKS.items() if (PROJECT / module).exists()}
#: Case -> its release; between them, they have every kind of task.
RELEASES = {"drawn": "homes", "shares": "town"} if is_installed("joins") and is_installed("shares") else {}


def handed_out(path: Path) -> int:
    """How often a module names what hands out tasks: `workers.run`, `workers.begin` or `run_kept`."""
    return sum(
        (isinstance(node, ast.Attribute) and node.attr in ("run", "begin") and "workers" in ast.unparse(node.value))
        or (isinstance(node, ast.Name) and node.id == "run_kept")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )


def test_every_kind_of_task_is_known() -> None:
    """A module that hands out tasks of another kind fails here until `TASKS` has it, and the test below does it."""
    folders = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
    paths = [path for folder in folders for path in (PROJECT / folder).rglob("*.py") if path.parts[-2] != "execution"]
    found = {path.relative_to(PROJECT).as_posix(): handed_out(path) for path in paths}
    known = {module: len(kinds) for module, kinds in TASKS.items()}
    assert {module: number for module, number in found.items() if number} == known


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
    modules = {module: module.removesuffix(".py").replace("/", ".") for module in TASKS}
    every = {kind if "." in kind else f"{modules[module]}.{kind}" for module, kinds in TASKS.items() for kind in kinds}
    assert seen == every

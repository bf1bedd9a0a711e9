"""Where and when tasks are done does not show in a single public byte, and no task changes what it is given."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from releases.command import PROJECT, feature_module
from releases.households import write_quarter
from releases.made_case import made_case
from releases.placements import PlacedWorkers, Placement, kept_as_arrays
from releases.shared_town import write_shared_town
from releases.small import run

import postprocess.downward.tasks
from features.registry import is_installed
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import read_table
from pipeline.runs.verify import verify_release
from pipeline.storage.readable import unchecked
from postprocess.downward.samples import Rates

pytestmark = pytest.mark.slow

#: Module that hands tasks to workers -> the functions of its tasks.
ALL_TASKS = {
    "features/audit/trials.py": ("features.audit.trials.run_trials",),
    "pipeline/estimation/by_subtree.py": (
        "pipeline.estimation.by_subtree.estimate_top",
        "pipeline.estimation.by_subtree.estimate_below",
    ),
    "pipeline/estimation/draws.py": (
        "pipeline.estimation.draws.run_draw",
        "pipeline.estimation.draws.draw_below",
    ),
    "features/joins/knowledge.py": ("features.joins.knowledge.estimate_implied",),
    "pipeline/estimation/linear_parts.py": ("pipeline.estimation.linear_parts.linear_below",),
    "pipeline/estimation/margins.py": (
        "pipeline.estimation.margins.run_simulation",
        "postprocess.downward.intervals.Intervals.prepared",
    ),
    # For unbiased estimates, and for intervals around them: test_around_estimates.py places these.
    "pipeline/estimation/subtree_answers.py": ("pipeline.estimation.subtree_answers.estimate_answers",) * 2,
    "pipeline/estimation/whole_spine.py": ("postprocess.downward.level.solve_task",),
    "features/report/workers.py": (
        "features.report.table_numbers.packed_table",
        "features.report.workers.alike_numbers",
    ),
}
#: The same without features whose folders are not there.
TASKS = {module: tasks for module, tasks in ALL_TASKS.items() if (PROJECT / module).exists()}
#: What may be simulated of a spine below the top: in the first run nothing at all.
RATES = Rates(4, (4.0, 4.0, 1.0), 1)
#: Placements of a whole spine and of one that is cut; workers, and a spine that is cut, are columns of the matrix.
WAYS = [(Placement.ARRAYS, False), (Placement.ALTERNATING, True), (Placement.ARRAYS, True)]
#: The kinds of tasks that were seen, over all tests of this module.
SEEN: set[str] = set()


def with_draws(folder: Path) -> Path:
    """The town with shares, draws, unbiased estimates and margins."""
    return write_shared_town(folder, ("unbiased = true", "unbiased = true\ndraws = 2"))


#: Of the features that hand out tasks, those that are installed.
WRITTEN = {name: write for name, write in (("shares", with_draws), ("joins", write_quarter)) if is_installed(name)}


@pytest.fixture(scope="module", params=WRITTEN.values(), ids=list(WRITTEN))
def released(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose margins are of a sample, with everything done in one process."""
    write: Callable[[Path], Path] = request.param
    folder = tmp_path_factory.mktemp("placed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.estimation.margins.rates_of", lambda *_: RATES)
        return run(write(folder), folder / "out", i_know=True)


@pytest.mark.parametrize(("placement", "cut"), WAYS)
def test_every_placement_gives_the_same_bytes(
    released: Path, placement: Placement, *, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the release is computed again, and nothing that was handed out or came back was changed."""
    monkeypatch.setattr("pipeline.estimation.margins.rates_of", lambda *_: RATES)
    # The town is one batch; small ones make several tasks of each level.
    monkeypatch.setattr(postprocess.downward.tasks, "BATCH_CELLS", 60)
    if placement is Placement.ARRAYS:
        kept_as_arrays(monkeypatch)
    if cut:
        monkeypatch.setattr("pipeline.runs.verify.Job", partial(Job, most_cells=1, part_cells=1))
    workers = PlacedWorkers(placement)
    monkeypatch.setattr("pipeline.runs.verify.Workers", lambda *_, **__: workers)
    assert verify_release(RunDirectory(released), 1, Silent()) == []
    SEEN.update(workers.kinds)


def test_trials_of_the_installed_audit(tmp_path: Path) -> None:
    trials, (case, *_) = feature_module("features.audit.trials"), feature_module("features.audit.installed").CASES
    pair = trials.write_pair(tmp_path, case, Fraction(1))
    found = []
    for placement in (Placement.HERE, Placement.ALTERNATING):
        workers = PlacedWorkers(placement)
        with workers:
            (outcomes,) = trials.outcomes_of(pair, pair, 2, 1, workers, whole=False)
        found.append((outcomes.one.tobytes(), outcomes.other.tobytes()))
        SEEN.update(workers.kinds)
    assert found[0] == found[1]


def test_every_kind_of_task_is_known_and_was_done() -> None:
    """A module that hands out tasks of another kind fails here until the tests above do them."""
    found = {
        str(path.relative_to(PROJECT)): number
        for folder in ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
        for path in sorted((PROJECT / folder).rglob("*.py"))
        if path.parent != PROJECT / "pipeline" / "execution" and (number := handed_out(path))
    }
    assert found == {name: len(kinds) for name, kinds in TASKS.items()}
    assert {kind for kinds in TASKS.values() for kind in kinds} == SEEN


def handed_out(path: Path) -> int:
    """How often a module names what hands out tasks: `workers.run`, `workers.begin` or `run_kept`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sum(
        (isinstance(node, ast.Attribute) and node.attr in ("run", "begin") and "workers" in ast.unparse(node.value))
        or (isinstance(node, ast.Name) and node.id == "run_kept")
        for node in ast.walk(tree)
    )


def test_intervals_of_a_sampled_spine_cover(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The case of the matrix whose margins are of a sample, with no leaf in the first run: each size is covered."""
    folder = made_case(tmp_path_factory, "sampled")
    table = read_table(unchecked(RunDirectory(folder / "out" / "sampled").main.table("group", "leaf")))
    assert table.lows is not None
    assert table.highs is not None
    true = pd.read_csv(folder / "people.csv").set_index("leaf").loc[list(table.geocodes)].to_numpy()
    inside = (table.lows <= true) & (true <= table.highs)
    for sizes in (true, table.counts):
        for least, most in ((5, 10), (10, 100), (100, 1000), (1000, math.inf)):
            of_size = (sizes >= least) & (sizes < most)
            assert of_size.sum() > 1000
            assert 0.88 <= inside[of_size].mean() <= 0.95, (least, inside[of_size].mean())

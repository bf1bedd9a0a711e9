"""Neither place nor processor shows: whatever is handed to workers could be done anywhere, and all kernels agree.

Nothing of a task is changed, results travel as arrays, and it leaves none to be looked for as garbage.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import io
import pickle
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from project.trees import modules
from releases.command import PROJECT, feature_module, spinewise
from releases.made_case import made_case
from releases.small import QUICK, write_town

import postprocess.downward.batch
from features.registry import is_installed
from pipeline.execution.batches import Batches
from pipeline.execution.cluster import Portable, _arrays_in
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers, apart, immutable
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release
from postprocess.arrays import Arrays

#: Module that hands tasks to workers -> the functions of its tasks, which are those that it has in most cases.
ALL_TASKS = {
    "features/audit/trials.py": ["run_trials"],
    "features/joins/knowledge.py": ["estimate_implied"],
    "features/report/workers.py": ["features.report.table_numbers.packed_table", "alike_numbers"],
    "pipeline/estimation/by_subtree.py": ["estimate_top", "estimate_below"],
    "pipeline/estimation/draws.py": ["run_draw", "draw_below"],
    "pipeline/estimation/margins.py": ["run_simulation", "postprocess.downward.intervals.Intervals.prepared"],
    "pipeline/estimation/subtree_answers.py": ["linear_below", "estimate_answers", "estimate_answers"],
    "pipeline/estimation/whole_spine.py": ["postprocess.downward.level.solve_task"],
}
#: The same without features whose folders are not there.
TASKS = {module: kinds for module, kinds in ALL_TASKS.items() if (PROJECT / module).exists()}
#: Case -> its release; between them, they have every kind of task.
RELEASES = {"drawn": "homes", "shares": "town"} if is_installed("joins") and is_installed("shares") else {}


#: Values without parts, which a fingerprint takes as they are shown.
_PLAIN = (str, bytes, int, float, bool, type(None), Path, Enum, np.generic)


class PlacedWorkers(Workers):
    """Each task is done as if it were on another machine; use it as a context manager.

    Attributes:
        kinds: the functions whose tasks were done.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self.kinds: set[str] = set()
        self._results: list[tuple[str, object, bytes]] = []

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], done: Callable[[Any], None] | None = None
    ) -> Iterator[Any]:
        for task in tasks:
            result = self._placed(function, task)
            if done is not None:
                done(task)
            yield result

    def begin(self, function: Callable[..., Any], *given: Any, **named: Any) -> Callable[[], Any]:
        return cache(partial(self._placed, partial(function, **named), *given))

    def close(self, *, at_once: bool = False) -> None:
        changed = [kind for kind, result, before in self._results if fingerprint(result) != before]
        assert at_once or not changed, f"results were changed after they were given: {changed}"

    def _placed(self, function: Callable[..., Any], *given: Any) -> Any:
        kind = name_of(function)
        self.kinds.add(kind)
        assert not (open_ := mutable_parts(immutable(given))), f"{kind} is given what can be changed: {open_}"
        before = fingerprint(given)
        found = without_garbage(partial(_elsewhere, function, *given))
        assert fingerprint(given) == before, f"{kind} changed what it was given"
        assert not (open_ := mutable_parts(found)), f"{kind} gives what can be changed: {open_}"
        self._results.append((kind, found, fingerprint(found)))
        return found


def kept_as_arrays(patch: pytest.MonkeyPatch) -> None:
    """Have all results of batches come back as the arrays in which a resumed run finds them."""

    def run_kept(
        workers: Workers, _: Batches, __: str, function: Callable[[Any], Any], tasks: Sequence[Any],
        *, packed: Callable[[Any], Arrays], unpacked: Callable[[Arrays], Any], done: Any, **_named: object,
    ) -> Iterator[Any]:  # fmt: skip
        for result in workers.run(function, tasks, done):
            yield immutable(unpacked(_sent(packed(result))))

    for module in ("draws", "margins", "whole_spine"):
        patch.setattr(f"pipeline.estimation.{module}.run_kept", run_kept)


def name_of(function: Callable[..., Any]) -> str:
    """The module and name of a task's function."""
    while isinstance(function, partial):
        function = function.func
    return f"{function.__module__}.{function.__qualname__}"


def _elsewhere(function: Callable[..., Any], *given: Any) -> Any:
    """The result of a task from another machine, where it has one form of arrays, or else from another process."""
    if given and isinstance(given[0], Portable):
        there = _pickled(given[0].packed())
        before = fingerprint(there)
        result = there.arrays_of(apart(function, there))
        assert fingerprint(there) == before, f"{name_of(function)} changed what was sent to it"
        return immutable(given[0].result_of(_sent(result)))
    _pickled((function, *given))
    return immutable(_pickled(apart(function, *given)))


def _pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # of this very process


def _sent(arrays: Arrays) -> Arrays:
    body = io.BytesIO()
    np.savez(body, allow_pickle=False, **arrays)
    return _arrays_in(body.getvalue())


def without_garbage(function: Callable[[], Any]) -> Any:
    """What a function gives; it has to leave no arrays in objects that only refer to each other.

    Processes look for garbage seldom, and would hold these until they do. Arrays are freed at once otherwise.
    """
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        found = function()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [one for one in gc.garbage if any(isinstance(part, np.ndarray) for part in gc.get_referents(one))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        if was_enabled:
            gc.enable()
    assert not left, f"{function} leaves arrays in {sorted({type(one).__qualname__ for one in left})}"
    return found


def mutable_parts(value: object) -> list[str]:
    """What could be changed in a value: types that are not frozen, and arrays that can be written to."""
    found = []
    for part in _parts(value):
        if is_dataclass(part) and not part.__dataclass_params__.frozen:  # type: ignore[union-attr]
            found.append(type(part).__qualname__)
        if isinstance(part, np.ndarray) and part.flags.writeable:
            found.append(f"array {part.shape}")
    return found


def fingerprint(value: object) -> bytes:
    """A hash of all that a value says: of fields, containers and arrays; not of what objects remember beside."""
    return hashlib.sha256(repr([_said(part) for part in _parts(value)]).encode()).digest()


def _said(part: object) -> object:
    if isinstance(part, np.ndarray):
        content = repr(part.tolist()).encode() if part.dtype == object else np.ascontiguousarray(part).tobytes()
        return part.dtype.str, part.shape, hashlib.sha256(content).hexdigest()
    if isinstance(part, _PLAIN):
        return part
    return type(part).__qualname__, len(part) if isinstance(part, tuple | list | Mapping) else 0


def _parts(value: object) -> Iterator[object]:
    """The value and all that is in it, in a fixed order."""
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, _PLAIN):
            if id(part) in seen:
                continue
            seen.add(id(part))
        yield part
        if isinstance(part, (*_PLAIN, type)):
            continue
        if sp.issparse(part):
            # Whether indices are in order is found out at some time, and written down; the numbers are the same.
            waiting.extend((part.data, part.indices, part.indptr))  # type: ignore[attr-defined]
        elif is_dataclass(part):
            waiting.extend(getattr(part, field.name) for field in fields(part))
        elif isinstance(part, tuple | list):
            waiting.extend(part)
        elif isinstance(part, Mapping):
            waiting.extend(item for pair in part.items() for item in pair)
        elif isinstance(part, partial):
            waiting.extend((name_of(part), part.args, part.keywords))
        elif hasattr(part, "__dict__") and not callable(part):
            waiting.extend(value for _, value in sorted(vars(part).items()))


def handed_out(module: ast.Module) -> int:
    """How often a module names what hands out tasks: `workers.run`, `workers.begin`, `run_kept` or `run_missing`."""
    return sum(
        (isinstance(node, ast.Attribute) and node.attr in ("run", "begin") and "workers" in ast.unparse(node.value))
        or (isinstance(node, ast.Name) and node.id in ("run_kept", "run_missing"))
        for node in ast.walk(module)
    )


def test_every_kind_of_task_is_known() -> None:
    """A module that hands out tasks of another kind fails here until `TASKS` has it, and the test below does it."""
    folders = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
    found = {name: handed_out(tree) for name, tree in modules(*folders).items() if "/execution/" not in name}
    known = {module: len(kinds) for module, kinds in TASKS.items()}
    assert {module: number for module, number in found.items() if number} == known


@pytest.mark.slow
@pytest.mark.skipif(not RELEASES, reason="without features that hand out tasks")
def test_each_kind_could_be_done_elsewhere(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a release is computed again, whole and cut: the same bytes, of tasks that share nothing with any other."""
    monkeypatch.setattr(postprocess.downward.batch, "BATCH_CELLS", 60)  # several tasks of each level
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


FLAGS = Path("/proc/cpuinfo")


def needs(core: str, flag: str) -> object:
    """The kernels of one processor family, where this machine can run them."""
    able = platform.machine() == "x86_64" and FLAGS.exists() and flag in FLAGS.read_text(encoding="utf-8")
    return pytest.param(core, marks=pytest.mark.skipif(not able, reason=f"this processor has no {flag}"))


#: Every set of kernels that a processor of this family can have, and the flag that a machine needs to run it.
KERNELS = {
    "Prescott": "pni",
    "Sandybridge": "avx",
    "Haswell": "avx2",
    "Zen": "avx2",
    "SkylakeX": "avx512f",
    "Cooperlake": "avx512_bf16",
    "SapphireRapids": "amx_bf16",
}
#: A private choice of detail, and a second invariant, beside the town's other options.
_ALL_OPTIONS = (
    (
        "[strategy.queries]",
        '[select.chosen]\nlevel = "block"\nversions = ["total", "sex", "sex * age"]\nthresholds = [0, 10, 40]\n'
        'share = "1/5"\nchoice_share = "1/4"\n\n[strategy.queries]',
    ),
    ('[invariants]\ncounty = ["total"]', '[invariants]\ncounty = ["total", "sex"]'),
    ('detail = "detailed"', 'detail = { query = "detailed", levels = ["county", "tract", "block"] }'),
)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The town with every option of [publish], a choice, a companion and constraints of all kinds; oldest kernels."""
    folder = tmp_path_factory.mktemp("town")
    spec = write_town(folder, *QUICK, *_ALL_OPTIONS)
    done = spinewise("run", spec, "--out", folder / "out", "--workers", 1, OPENBLAS_CORETYPE="Nehalem")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.slow
@pytest.mark.parametrize("core", [needs(core, flag) for core, flag in KERNELS.items()])
def test_every_option_gives_the_same_bytes_with_all_kernels(town: Path, core: str) -> None:
    done = spinewise("verify", town, "--workers", 1, OPENBLAS_CORETYPE=core)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_is_known_exactly_has_no_variance(town: Path) -> None:
    """County totals are invariants; that each sex is, too, makes it no less exact. Noise of rounding does not show."""
    for level, expected in (("county", True), ("tract", False)):
        estimates = pd.read_parquet(RunDirectory(town).main.estimates(level))
        variances = np.stack(estimates["total:variance"].tolist())
        assert (variances == 0).all() if expected else (variances > 0.01).all()

"""An estimation computes once what its steps share, and holds nothing of it after its block."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

import pipeline.estimation.computed
from pipeline.estimation.whole_spine import Estimation
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.release.layout import RunDirectory
from pipeline.release.spine import read_public_spine
from pipeline.spec.release_spec import load_spec
from pipeline.storage.readable import unchecked
from postprocess.algebra import Basis
from postprocess.linear.upward import LevelEstimate, upward_pass
from postprocess.problem import Problem


def _job(town: Path, town_spec: Path) -> Job:
    spec, run = load_spec(town_spec), RunDirectory(town)
    return Job(
        run,
        spec,
        spec.universes(),
        read_public_spine(unchecked(run.spine), spec.geography.level_names),
        Workers(1),
        Silent(),
    )


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_computed_is_freed_with_the_block(
    town: Path, town_spec: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """At once, and not when cycles are collected: the arrays of a country are large."""
    job = _job(town, town_spec)
    passes: list[int] = []

    def counted(problem: Problem, basis: Basis) -> list[LevelEstimate]:
        passes.append(1)
        return upward_pass(problem, basis)

    monkeypatch.setattr(pipeline.estimation.computed, "upward_pass", counted)
    estimation = Estimation(job, job.universes[0])
    gc.disable()
    try:
        with suppress(KeyboardInterrupt), estimation:
            estimation.combine()
            assert estimation.problem is not None
            kept = [weakref.ref(each) for each in (estimation.problem, estimation.upward[0], estimation.known)]
            if fails:
                raise KeyboardInterrupt
        assert [one() for one in kept] == [None] * 3
    finally:
        gc.enable()
    assert len(passes) == 1
    assert estimation.problem is not None, "computed again where it is asked for"

"""Faults in single functions are planted, one after the other, while the test that must find each of them runs."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
import scipy.stats  # noqa: F401 - which takes long, and is loaded once so for all children
from releases.command import forks
from releases.mutant import Mutant
from releases.tested_mutants import TESTED, TESTED_SLOWLY

from features.registry import is_installed

TESTS = Path(__file__).resolve().parents[1]


class Failures:
    """Where tests failed: a fixture that fails has found nothing."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.stages.append(report.when)


@pytest.mark.parametrize(
    "mutant",
    [*TESTED, *(pytest.param(one, marks=pytest.mark.slow) for one in TESTED_SLOWLY)],
    ids=lambda mutant: mutant.name,
)
def test_the_test_of_a_fault_fails_with_it(mutant: Mutant, tmp_path: Path) -> None:
    folder, name, *_ = mutant.test.split("/")
    if folder == "features" and not is_installed(name):
        pytest.skip("without the feature")
    forks()  # for its commands, too
    gc.freeze()  # so that the child does not go through all that is loaded
    child = os.fork()  # which has all that is imported, and ends with the fault
    if child == 0:
        ends = int(pytest.ExitCode.INTERNAL_ERROR)
        try:
            ends = with_fault(mutant, tmp_path / "own")
        finally:
            os._exit(ends)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == pytest.ExitCode.TESTS_FAILED


def with_fault(mutant: Mutant, folder: Path) -> int:
    """How the test of a fault ends with it, in a process that does nothing else any more."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("auditor", "features", "pipeline", "postprocess"):
            for kept in [one for one in vars(module).values() if hasattr(one, "cache_clear")]:
                kept.cache_clear()
    assert mutant.plant is not None
    mutant.plant(pytest.MonkeyPatch())
    failures = Failures()
    words = [f"--basetemp={folder}", "-qx", "--tb=no", "-p", "no:cacheprovider", str(TESTS / mutant.test)]
    ended = pytest.main(words, plugins=[failures])
    return int(ended if failures.stages == ["call"] else pytest.ExitCode.INTERNAL_ERROR)

"""Faults in single functions are planted, one after the other, while the test that must find each of them runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from _pytest.runner import SetupState, runtestprotocol
from releases.mutant import Mutant
from releases.tested_mutants import TESTED, TESTED_SLOWLY

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "mutant",
    [*TESTED, *(pytest.param(one, marks=pytest.mark.slow) for one in TESTED_SLOWLY)],
    ids=lambda mutant: mutant.name,
)
def test_the_test_of_a_fault_fails_with_it(mutant: Mutant, request: pytest.FixtureRequest) -> None:
    if not (TESTS / mutant.test.partition("::")[0]).exists():
        pytest.skip("without the feature")
    child = os.fork()  # which has all that is imported, and ends with the fault
    if child == 0:
        found = 2
        try:
            found = int(fails_with(mutant, request.session))
        finally:
            os._exit(found)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def fails_with(mutant: Mutant, session: pytest.Session) -> bool:
    """Whether a test of the fault fails with it, in a process that does nothing else any more."""
    session.config.option.markexpr = session.config.option.keyword = ""
    session._setupstate = SetupState()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("auditor", "features", "pipeline", "postprocess"):
            for kept in [one for one in vars(module).values() if hasattr(one, "cache_clear")]:
                kept.cache_clear()
    tests = session.perform_collect([str(TESTS / mutant.test)])
    assert mutant.plant is not None
    mutant.plant(pytest.MonkeyPatch())
    ends = [one for test in tests for one in runtestprotocol(test, log=False) if one.failed]
    return bool(ends) and ends[0].when == "call"

"""What solvers did is added up without changing what a task gave."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from postprocess.downward.report import SolverReport
from postprocess.families.family import Solution


def test_reports_are_added_and_none_is_changed() -> None:
    x = np.zeros((1, 1))
    one = SolverReport.of([Solution(x, "batched", 3, 0.5, 2e-9), Solution(x, "exact", 4, 0.25, 1e-9)])
    other = SolverReport(2, {"exact": 2}, 1, 0.75, 0.0, 2, 1e-5)
    before = asdict(one), asdict(other)
    total = sum([one, other], SolverReport())
    assert (asdict(one), asdict(other)) == before
    assert total == SolverReport(4, {"batched": 1, "exact": 3}, 8, 0.75, 2e-9, 2, 1e-5)
    assert json.loads(json.dumps(asdict(total))) == asdict(total)
    assert SolverReport.of([]) == SolverReport()

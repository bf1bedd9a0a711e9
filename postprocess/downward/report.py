"""What the solvers did, for the manifest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from postprocess.families.family import Solution


@dataclass
class SolverReport:
    """What the solvers did, for the manifest; only public values."""

    families: int = 0
    by_solver: dict[str, int] = field(default_factory=dict)
    iterations: int = 0
    primal: float = 0.0
    dual: float = 0.0
    checked: int = 0
    largest_difference: float = 0.0

    def add(self, solution: Solution) -> None:
        """Count one family's solution."""
        self.families += 1
        self.by_solver[solution.solver] = self.by_solver.get(solution.solver, 0) + 1
        self.iterations += solution.iterations
        self.primal = max(self.primal, solution.primal)
        self.dual = max(self.dual, solution.dual)

    def merge(self, report: SolverReport) -> None:
        """Add what another report counts."""
        self.families += report.families
        for solver, count in report.by_solver.items():
            self.by_solver[solver] = self.by_solver.get(solver, 0) + count
        self.iterations += report.iterations
        self.primal = max(self.primal, report.primal)
        self.dual = max(self.dual, report.dual)
        self.checked += report.checked
        self.largest_difference = max(self.largest_difference, report.largest_difference)

    def public(self) -> dict[str, object]:
        """For the manifest: what does not depend on the last bits of floating point. Residuals are upper limits."""
        return {
            "families": self.families,
            "by_solver": dict(sorted(self.by_solver.items())),
            "primal_residual_at_most": _at_most(self.primal),
            "dual_residual_at_most": _at_most(self.dual),
            "solved_again_by_cvxpy": self.checked,
            "largest_difference_at_most": _at_most(self.largest_difference),
        }


def _at_most(residual: float) -> float:
    """The next power of ten, from 1e-6."""
    return float(f"1e{max(-6, math.ceil(math.log10(max(residual, 1e-12))))}")

"""What the solvers did, for the manifest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from postprocess.families.family import Solution


@dataclass(frozen=True)
class SolverReport:
    """What the solvers did, for the manifest; only public values. Reports are added with `+`."""

    families: int = 0
    by_solver: Mapping[str, int] = field(default_factory=dict)
    iterations: int = 0
    primal: float = 0.0
    dual: float = 0.0
    checked: int = 0
    largest_difference: float = 0.0

    @classmethod
    def of(cls, solutions: Iterable[Solution]) -> SolverReport:
        """The report of some families' solutions."""
        every = tuple(solutions)
        return cls(
            families=sum(solution.families for solution in every),
            by_solver=dict(sum((Counter({one.solver: one.families}) for one in every), Counter())),
            iterations=sum(solution.iterations for solution in every),
            primal=max([0.0, *(solution.primal for solution in every)]),
            dual=max([0.0, *(solution.dual for solution in every)]),
        )

    def __add__(self, other: SolverReport) -> SolverReport:
        return SolverReport(
            families=self.families + other.families,
            by_solver=dict(Counter(self.by_solver) + Counter(other.by_solver)),
            iterations=self.iterations + other.iterations,
            primal=max(self.primal, other.primal),
            dual=max(self.dual, other.dual),
            checked=self.checked + other.checked,
            largest_difference=max(self.largest_difference, other.largest_difference),
        )

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

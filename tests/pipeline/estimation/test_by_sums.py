"""A release of 1,227,744 cells, one hundredth of the benchmark's: each cell of its solutions, and who looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from releases.command import spinewise
from scipy.sparse.linalg import lsmr

from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.runs.verify import verify_release
from postprocess.arrays import FloatArray
from postprocess.families.active_set import Exact
from postprocess.families.family import Family
from postprocess.sums import downward
from postprocess.sums.solution import solve_on_sums
from postprocess.sums.weights import SumWeights

pytestmark = pytest.mark.slow

#: Persons.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Made:
    """The release, and its families with their solutions, top first."""

    directory: Path
    families: list[tuple[Family, FloatArray]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """With one worker, so that the families are solved here."""
    folder, families = tmp_path_factory.mktemp("dhc"), []

    def noted(family: Family) -> Exact | None:
        exact = solve_on_sums(family)
        if isinstance(family.precision, SumWeights):
            assert exact is not None
            families.append((family, exact.x))
        return exact

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[3] / "benchmarks")
        patch.setattr(downward, "solve_on_sums", noted)
        spec = import_module("bench_scale").write_dhc(folder, 100)
        run_release(check_request(Request(spec, folder / "out", None, 1)), Silent())
    return Made(folder / "out" / "dhc-100", families)


def gradient(family: Family, x: FloatArray) -> FloatArray:
    """Of the objective, `(C, k)`, by counting over the groups of each query."""
    precision = family.precision
    assert isinstance(precision, SumWeights)
    few = precision.few.tocoo()
    out = -family.linear
    for child, kind in enumerate(family.kinds):
        out[child] += precision.scale[kind] * x[child]
        for one in precision.wide:
            out[child] += one.weight * np.bincount(one.group, x[child], one.size)[one.group]
        sums = np.bincount(few.row, x[child][few.col], few.shape[0])
        out[child] += np.bincount(few.col, (precision.joint[kind] @ sums)[few.row], few.shape[1])
    return out


def test_every_cell_of_state_and_counties_satisfies_the_conditions_of_optimality(made: Made) -> None:
    """Within 1e-5 persons times the least eigenvalue, for multipliers by least squares; other numbers do not."""
    (state, _), (counties, _), *_ = made.families
    assert (state.linear.shape, counties.n_children) == ((1, 1_227_744), 2)
    for family, x in made.families[:2]:
        assert isinstance(family.precision, SumWeights)
        assert left(family, x) <= TOLERANCE * family.precision.scale.min()
        moved = x.copy()
        moved[0, np.argsort(-x[0])[:2]] += 1e-3, -1e-3
        assert left(family, moved) > TOLERANCE * family.precision.scale.min()


def left(family: Family, x: FloatArray) -> float:
    """What multipliers of the fixed sums leave of the gradient: of positive cells, and of the wrong sign of others."""
    sums = [sp.kron(sp.csr_array(np.ones((1, len(x)))), sp.eye_array(family.n_cells))] * (family.parent is not None)
    assert family.held is not None
    sums.append(sp.kron(sp.eye_array(len(x)), sp.csr_array(np.ones((1, family.n_cells)))))  # the total alone is held
    fixed, found = sp.csc_array(sp.vstack(sums)), gradient(family, x).ravel()
    free, possible = x.ravel() > 0, family.upper.ravel() > 0
    multipliers = lsmr(fixed[:, free].T, found[free], atol=1e-15, btol=1e-15, conlim=0, maxiter=1000)[0]
    found = found - fixed.T @ multipliers
    return float(max(np.abs(found[free]).max(), -found[~free & possible].min()))


def test_it_is_verified_with_two_workers_and_audited(made: Made) -> None:
    """All public files are computed again from the measurements, to the same bytes, by other processes."""
    assert len(made.families) > 10
    assert verify_release(RunDirectory(made.directory), 2, Silent()) == []
    assert spinewise("verify", "--constraints", made.directory).returncode == 0

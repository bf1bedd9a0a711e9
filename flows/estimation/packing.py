"""Results of batches as named arrays, and back: the form in which a resumed run finds them."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import scipy.sparse as sp

from flows.execution.batch_store import Arrays
from postprocess.downward.level import SolverReport
from postprocess.downward.simulated_margins import ErrorCounts
from postprocess.linear.information import Information
from postprocess.linear.upward import ChildrenSum, LevelEstimate

_INFORMATION = ("precision", "known", "unmeasured", "covariance")
_CHILDREN = ("mean", "precision", "term")


def packed_level(result: tuple[sp.csr_array, SolverReport]) -> Arrays:
    """The whole-number histograms of a batch of families, and what the solvers did."""
    counts, report = result
    return {**_packed_csr("counts", counts), "report": _text(asdict(report))}


def unpacked_level(arrays: Arrays) -> tuple[sp.csr_array, SolverReport]:
    """What `packed_level` packed."""
    return _unpacked_csr("counts", arrays), SolverReport(**json.loads(arrays["report"].tobytes()))


def packed_errors(result: list[ErrorCounts]) -> Arrays:
    """The errors of one simulated run, table by table."""
    arrays = {"tables": np.array(len(result))}
    for number, errors in enumerate(result):
        arrays |= _packed_csr(f"small{number}", errors.small)
        arrays |= {f"large{number}": errors.large, f"unit{number}": np.array(errors.unit)}
    return arrays


def unpacked_errors(arrays: Arrays) -> list[ErrorCounts]:
    """What `packed_errors` packed."""
    return [
        ErrorCounts(_unpacked_csr(f"small{number}", arrays), arrays[f"large{number}"], int(arrays[f"unit{number}"]))
        for number in range(int(arrays["tables"]))
    ]


def packed_top(estimate: LevelEstimate) -> Arrays:
    """The estimate of a part's geounits at the cut."""
    arrays: dict[str, np.ndarray] = {"classes": estimate.classes, "own": estimate.own}
    arrays |= {f"info_{name}": getattr(estimate.info, name) for name in _INFORMATION}
    if estimate.fixed is not None:
        arrays["fixed"] = estimate.fixed
    if estimate.children is not None:
        arrays |= {f"children_{name}": getattr(estimate.children, name) for name in _CHILDREN}
    return arrays


def unpacked_top(arrays: Arrays) -> LevelEstimate:
    """What `packed_top` packed."""
    children = None
    if "children_mean" in arrays:
        children = ChildrenSum(*(arrays[f"children_{name}"] for name in _CHILDREN))
    return LevelEstimate(
        classes=arrays["classes"],
        own=arrays["own"],
        info=Information(*(arrays[f"info_{name}"] for name in _INFORMATION)),
        fixed=arrays.get("fixed"),
        children=children,
    )


def _packed_csr(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    return {f"{name}.{part}": values for part, values in parts.items()}


def _unpacked_csr(name: str, arrays: Arrays) -> sp.csr_array:
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    rows, columns = arrays[f"{name}.shape"].tolist()
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _text(content: object) -> np.ndarray:
    return np.frombuffer(json.dumps(content, sort_keys=True).encode(), dtype=np.uint8)

"""Results of batches as named arrays, and back: as a resumed run finds them, or as they come from another machine.

The names, types and shapes of what another machine sends are checked before use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.execution.workers import foreign_arrays
from postprocess.algebra import Basis
from postprocess.arrays import Arrays
from postprocess.downward.batch import SolverReport
from postprocess.downward.subtrees import joined_blocks
from postprocess.linear.information import Information
from postprocess.linear.upward import ChildrenSum, LevelEstimate
from postprocess.problem import Problem

_INFORMATION = ("precision", "known", "unmeasured", "covariance")
_CHILDREN = ("mean", "precision", "term")
#: Of the longest report of a solver, in bytes.
_LONGEST_REPORT = 10_000


def packed_level(result: tuple[sp.csr_array, SolverReport]) -> Arrays:
    """The whole-number histograms of a batch of families, and what the solvers did."""
    counts, report = result
    return {**packed_csr("counts", counts), "report": _text(asdict(report))}


def unpacked_level(arrays: Arrays) -> tuple[sp.csr_array, SolverReport]:
    """What `packed_level` packed."""
    return unpacked_csr("counts", arrays), SolverReport(**json.loads(arrays["report"].tobytes()))


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
        info=Information(*(joined_blocks([arrays[f"info_{name}"]]) for name in _INFORMATION)),
        fixed=arrays.get("fixed"),
        children=children,
    )


def packed_csr(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    """A sparse matrix as arrays whose names begin with `name`."""
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    return {f"{name}.{part}": values for part, values in parts.items()}


def unpacked_csr(name: str, arrays: Arrays) -> sp.csr_array:
    """What `packed_csr` packed."""
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    rows, columns = arrays[f"{name}.shape"].tolist()
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _text(content: object) -> np.ndarray:
    return np.frombuffer(json.dumps(content, sort_keys=True).encode(), dtype=np.uint8)


def top_result(arrays: Arrays, part: Problem, basis: Basis) -> LevelEstimate:
    """What `packed_top` packed on another machine.

    Raises:
        WorkerError: an array is missing, too many, or has another type or shape than the part's estimate has.
    """
    n, n_cells = len(part.spine.levels[0]), int(np.prod(part.shape))
    blocks = (basis.n_blocks, basis.n_asymmetric, basis.n_asymmetric)
    classes = _take(arrays, "classes", np.int64, (n,)).astype(np.int64)
    n_classes = int(classes.max(initial=-1)) + 1
    _require(bool((classes >= 0).all()) and n_classes <= n, "classes")
    names = {"classes", "own"}
    _take(arrays, "own", np.float64, blocks)
    for name in ("precision", "known", "unmeasured", "covariance"):
        _take(arrays, f"info_{name}", np.float64, (n_classes, *blocks))
        names.add(f"info_{name}")
    if "fixed" in arrays:
        _take(arrays, "fixed", np.float64, (n, n_cells))
        names.add("fixed")
    if "children_mean" in arrays:
        _take(arrays, "children_mean", np.float64, (n, n_cells))
        _take(arrays, "children_term", np.float64, (n, n_cells))
        _take(arrays, "children_precision", np.float64, (n_classes, *blocks))
        names |= {"children_mean", "children_term", "children_precision"}
    _require(set(arrays) == names, next(iter(sorted(set(arrays) ^ names)), ""))
    return unpacked_top(arrays)


def below_arrays(levels: Sequence[tuple[sp.csr_array, SolverReport]]) -> Arrays:
    """Histograms and reports of the levels below the cut, as arrays."""
    return {f"{i}.{name}": array for i, level in enumerate(levels) for name, array in packed_level(level).items()}


def below_result(arrays: Arrays, part: Problem) -> list[tuple[sp.csr_array, SolverReport]]:
    """What `below_arrays` made.

    Raises:
        WorkerError: an array is missing, too many, or is not that of non-negative whole numbers of the part's cells.
    """
    n_cells = int(np.prod(part.shape))
    levels = part.spine.levels[1:]
    expected = {
        f"{i}.{name}"
        for i in range(len(levels))
        for name in ("counts.data", "counts.indices", "counts.indptr", "counts.shape", "report")
    }
    _require(set(arrays) == expected, next(iter(sorted(set(arrays) ^ expected)), ""))
    results = []
    for i, level in enumerate(levels):
        own = {name.split(".", 1)[1]: array for name, array in arrays.items() if name.split(".", 1)[0] == str(i)}
        _check_counts(own, len(level), n_cells)
        _check_report(own["report"])
        results.append(unpacked_level(own))
    return results


def _check_counts(arrays: Mapping[str, NDArray[np.generic]], n: int, n_cells: int) -> None:
    shape = arrays["counts.shape"]
    _require(shape.dtype.kind == "i" and shape.tolist() == [n, n_cells], "counts.shape")
    data, indices, starts = (arrays[f"counts.{name}"] for name in ("data", "indices", "indptr"))
    for name, array in (("data", data), ("indices", indices), ("indptr", starts)):
        _require(array.dtype.kind == "i" and array.ndim == 1, f"counts.{name}")
    _require(data.dtype == np.int64 and bool((np.asarray(data) >= 0).all()), "counts.data")
    rows = np.asarray(starts, dtype=np.int64)
    whole = len(rows) == n + 1 and rows[0] == 0 and rows[-1] == len(data) == len(indices)
    _require(bool(whole and (np.diff(rows) >= 0).all()), "counts.indptr")
    cells = np.asarray(indices, dtype=np.int64)
    _require(bool(((cells >= 0) & (cells < n_cells)).all()), "counts.indices")


def _check_report(array: NDArray[np.generic]) -> None:
    _require(array.dtype == np.uint8 and array.ndim == 1 and array.size <= _LONGEST_REPORT, "report")
    try:
        content = json.loads(array.tobytes())
    except ValueError:
        content = None
    numbers: dict[str, Callable[[object], bool]] = {
        "families": _is_whole,
        "iterations": _is_whole,
        "checked": _is_whole,
        "primal": _is_number,
        "dual": _is_number,
        "largest_difference": _is_number,
        "by_solver": _is_counted,
    }
    right = isinstance(content, dict) and content.keys() == {field.name for field in fields(SolverReport)}
    _require(right and all(numbers[name](value) for name, value in content.items()), "report")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _is_counted(value: object) -> bool:
    return isinstance(value, dict) and all(_is_whole(count) and name.isprintable() for name, count in value.items())


def _take(arrays: Arrays, name: str, kind: type[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    """The array, after its type and shape and that all of it is finite were checked."""
    array = arrays.get(name)
    right = array is not None and array.dtype == kind and array.shape == shape
    _require(bool(right and np.isfinite(array).all()), name)  # type: ignore[arg-type]
    assert array is not None
    return array


def _require(right: bool, name: str) -> None:
    if not right:
        raise foreign_arrays(name)

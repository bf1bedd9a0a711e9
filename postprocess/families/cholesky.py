"""Cholesky's factors of large matrices, and inverses by them, while other threads of the process go on.

SciPy's own calls of LAPACK keep Python's lock, so that while a matrix of some thousand rows is factored nothing else of
the process can happen: it does not end on Ctrl-C, and shows no progress. Here the same routines are called through the
addresses that `scipy.linalg.cython_lapack` offers to compiled code, by ctypes, which gives the lock back until they
return. Their numbers are the same.

Matrices are `(n, n)`, symmetric, in C order, in single or double precision, and overwritten. In the order of LAPACK,
Fortran's, what it calls the lower triangle is the upper one here.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postprocess.arrays import FloatArray

#: In double or single precision.
Matrices = NDArray[np.floating]

_INT: Any = ctypes.POINTER(ctypes.c_int)
_TRIANGLE = ctypes.c_char(b"L")


def factor(matrix: Matrices) -> bool:
    """Overwrite a matrix's upper triangle by that of its factor; False if it is not definite."""
    return _call("potrf", matrix) == 0


def inverse_of_factored(matrix: Matrices) -> bool:
    """Overwrite the upper triangle of a `factor` by that of the inverse; False if the factor is singular."""
    return _call("potri", matrix) == 0


def solve_factored(matrix: Matrices, right: FloatArray) -> FloatArray:
    """The solution `(n,)` for a right-hand side `(n,)` of the matrix whose `factor` it is, in its precision."""
    solution = right.astype(matrix.dtype)
    size, one, info = ctypes.c_int(len(matrix)), ctypes.c_int(1), ctypes.c_int(0)
    data, number = (ctypes.c_void_p(array.ctypes.data) for array in (matrix, solution))
    given = ctypes.byref(size), ctypes.byref(one), data, ctypes.byref(size), number, ctypes.byref(size)
    _routine("potrs", matrix.dtype.char)(ctypes.byref(_TRIANGLE), *given, ctypes.byref(info))
    return solution.astype(np.float64)


def _call(name: str, matrix: Matrices) -> int:
    if not matrix.flags.c_contiguous or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name}: found a matrix {matrix.shape} that is not square and in C order")
    size, info = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    given = ctypes.byref(size), ctypes.c_void_p(matrix.ctypes.data), ctypes.byref(size), ctypes.byref(info)
    _routine(name, matrix.dtype.char)(ctypes.byref(_TRIANGLE), *given)
    return info.value


@cache
def _routine(name: str, precision: str) -> Any:
    """LAPACK's routine for doubles ("d") or singles ("f")."""
    capsule = import_module("scipy.linalg.cython_lapack").__pyx_capi__[("d" if precision == "d" else "s") + name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    data: Any = ctypes.c_void_p
    arguments = [_INT, _INT, data, _INT, data, _INT, _INT] if name == "potrs" else [_INT, data, _INT, _INT]
    arguments.insert(0, ctypes.POINTER(ctypes.c_char))
    return ctypes.CFUNCTYPE(None, *arguments)(pointer_of(capsule, name_of(capsule)))

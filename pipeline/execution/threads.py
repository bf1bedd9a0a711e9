"""One thread for linear algebra: the last bits of a result depend on how many there are."""

from __future__ import annotations

import os

#: What the libraries below numpy read when they are loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def limit_threads() -> None:
    """Limit linear algebra to one thread, here and in processes started from here; call it before numpy is imported."""
    for name in VARIABLES:
        os.environ[name] = "1"

"""What a process sets for itself at its beginning: one thread for linear algebra, and few looks for garbage."""

from __future__ import annotations

import atexit
import gc
import os

#: What the libraries below numpy read when they are loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def limit_threads() -> None:
    """Limit linear algebra to one thread, here and in processes started from here; call it before numpy is imported.

    The last bits of a result depend on how many threads there are.
    """
    for name in VARIABLES:
        os.environ[name] = "1"


def spare_garbage_collection() -> None:
    """Look for garbage seldom, and at the end not at all: the system takes all memory back at once.

    Imports make objects that stay. To look for garbage among them every 700 took a tenth of a small run, and to look
    through all of them as a process ends a fifth of a core second.
    """
    gc.set_threshold(100_000, 20, 50)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)

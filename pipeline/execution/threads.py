"""What a process sees to for itself: one thread for linear algebra, few looks for garbage, freed memory given back.

And Arrow without pandas, where no table of pandas can come: at its first conversion pyarrow looks whether pandas is
installed, by importing it, two thirds of a core second in each process of a run, none of which has a use for it. Here
it looks once and finds none. Whoever imports pandas later gets it, and `to_pandas` looks again.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

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


#: Core seconds of this process between two times that it gives memory back, and when it last did.
_GIVEN_EVERY = 0.5
_given = 0.0


def give_memory_back() -> None:
    """Give memory that is free in this process back to the system, unless it has hardly worked since the last time.

    Arrays of up to 32 MB that are freed stay with the process for the next ones: after a stage with many that is some
    hundred megabytes to a gigabyte in each of the processes, none of which knows what the others need. It takes a few
    milliseconds; where there is no glibc, freed memory stays.
    """
    global _given
    now = time.process_time()
    if now - _given < _GIVEN_EVERY:
        return
    _given = now
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class _Hidden(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not looked for", name=fullname)
        return None


def spare_pandas() -> None:
    """Let pyarrow look for pandas now, and find none; nothing if pandas is in use here already."""
    if "pandas" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


#: Unit of the operating system's figure for memory, in bytes.
_UNIT = 1 if sys.platform == "darwin" else 1024


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def peak_of_children() -> int:
    """The most memory that any one process has had that this one started and that has ended, in bytes; 0 for none."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _UNIT

"""Worker processes that do not run the user's own program again.

A spawned process imports the program's main module first. Ours need none of it: their functions have modules of their
own. A script or a notebook that calls `spinewise.run` without `if __name__ == "__main__"` would otherwise start a
release in each worker.
"""

from __future__ import annotations

import sys
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType

from pipeline.execution.interrupts import without_interrupts


class _Process(SpawnProcess):
    def start(self) -> None:
        main = sys.modules["__main__"]
        # Starting the tracker takes the block of Ctrl-C away, so it has to be there before.
        resource_tracker.ensure_running()
        sys.modules["__main__"] = ModuleType("__main__")  # one that has no file to be imported from
        try:
            with without_interrupts():
                super().start()
        finally:
            sys.modules["__main__"] = main


class WorkerContext(SpawnContext):
    """The context "spawn" whose processes leave the main module alone."""

    Process = _Process

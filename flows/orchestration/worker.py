"""A worker that ends when it is told to: it takes no further run, stops those that it has, and is gone in a minute.

Prefect's own command turns SIGTERM into a Ctrl-C, which a process that a script has started in the background ignores:
such a worker lives on, and takes the next run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import Final

from flows.orchestration.server import set_up_prefect

os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO")  # what a worker does is seen; runs have theirs of the work pool
set_up_prefect()

from prefect.workers.process import ProcessWorker  # noqa: E402

#: Seconds from the first request to end to the end by force, such as where the server does not answer.
PATIENCE: Final = 60.0


def work(pool: str, limit: int | None) -> None:
    """Execute what is scheduled on a work pool, each run in a process of its own, until SIGTERM or Ctrl-C.

    A second one ends worker and runs by force, with status 1, and so does `PATIENCE`; the next run resumes them.

    Args:
        pool: the work pool.
        limit: the most runs at a time; None for as many as the queues let through.
    """
    signal.set_wakeup_fd(-1)  # the command line's, which ends a process that an interrupt does not end at once
    asyncio.run(_work(pool, limit))


async def _work(pool: str, limit: int | None) -> None:
    working = asyncio.create_task(ProcessWorker(work_pool_name=pool, limit=limit).start())
    loop, asked = asyncio.get_running_loop(), threading.Event()

    def stop(*_: object) -> None:
        if asked.is_set():
            _end_by_force()
        asked.set()
        timer = threading.Timer(PATIENCE, _end_by_force)
        timer.daemon = True
        timer.start()
        loop.call_soon_threadsafe(working.cancel)

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
    with suppress(asyncio.CancelledError):
        await working


def _end_by_force() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    os._exit(1)

"""A pool of worker processes for batches of geounits.

Results come back in the order of the tasks and do not depend on the number of workers: batches are cut before they are
handed out, and every worker computes with one thread. Nor do they depend on where a task is done: what it is given and
what it gives are immutable in either process, so that no task sees what another one did.

Worker processes that do not run the user's own program again.

A spawned process imports the program's main module first. Ours need none of it: their functions have modules of their
own. A script or a notebook that calls `spinewise.run` without `if __name__ == "__main__"` would otherwise start a
release in each worker. Nor do they import from the current folder, which may be somebody else's: Python would look
there first for everything that a process begins with.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from itertools import chain, islice
from multiprocessing import connection, parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Final, ParamSpec, Protocol, TypeVar

import numpy as np

from geography.errors import InputError, SpinewiseError
from pipeline.execution.faults import without_interrupts
from pipeline.execution.threads import give_memory_back, limit_threads, spare_garbage_collection, spare_pandas
from postprocess.families.progress import ArrayStore, Listener, kept_in, listen, listening

Value = TypeVar("Value")

#: Types without arrays in them, of which tasks have many.
_ATOMS = frozenset({str, bytes, int, float, bool, type(None)})


def immutable(value: Value) -> Value:
    """The same value, none of whose arrays can be written to from now on, wherever in it they are.

    What an array is a view of is closed, too. Containers and frozen dataclasses are looked into, and so is all that
    other objects have as attributes: sparse arrays, and what an object remembers of earlier calls.
    """
    waiting: list[object] = [value]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            array: object = one
            while isinstance(array, np.ndarray):
                array.flags.writeable = False
                array = array.base
        elif isinstance(one, tuple | list | AbstractSet):
            if not _ATOMS.issuperset(map(type, one)):
                waiting.extend(one)
        elif isinstance(one, Mapping):
            waiting.extend(one.values())
        elif not isinstance(one, type):
            waiting.extend(getattr(one, "__dict__", {}).values())
    return value


_VARIABLE: Final = "PYTHONSAFEPATH"
#: By which a process knows that the variable is ours, and not for the commands that it runs.
_OURS: Final = "spinewise"


@contextmanager
def _without_current_folder() -> Iterator[None]:
    """Python processes that are started in the block do not look for modules in the current folder."""
    if os.environ.get(_VARIABLE):
        yield
        return
    os.environ[_VARIABLE] = _OURS
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def forget_start() -> None:
    """Give the commands that this process runs, such as one that prints a key, the environment of the user."""
    if os.environ.get(_VARIABLE) == _OURS:
        del os.environ[_VARIABLE]


def ensure_tracker() -> None:
    """Start the process of `multiprocessing` that tracks its resources, if it does not run."""
    with _without_current_folder():
        resource_tracker.ensure_running()


class _Process(SpawnProcess):
    def start(self) -> None:
        main = sys.modules["__main__"]
        # Starting the tracker takes the block of Ctrl-C away, so it has to be there before.
        ensure_tracker()
        sys.modules["__main__"] = ModuleType("__main__")  # one that has no file to be imported from
        try:
            with without_interrupts(), _without_current_folder():
                super().start()
        finally:
            sys.modules["__main__"] = main


class WorkerContext(SpawnContext):
    """The context "spawn" whose processes leave the main module alone."""

    Process = _Process


Task = TypeVar("Task")
Result = TypeVar("Result")
Given = ParamSpec("Given")

#: Characters of a family's name, and bytes of all that a worker says at once: fewer than a pipe takes as a whole.
_LONGEST_NAME, _LONGEST = 60, 400
#: Tasks handed out for each worker: one that it works on, one that waits.
AHEAD = 2
#: Seconds of work, all steps together, that this process does itself before it starts others: what they take to start.
START_AFTER = 2.0


class WorkerError(SpinewiseError):
    """A worker process ended without a result."""


def foreign_arrays(name: str) -> WorkerError:
    """The error where arrays that came back from a cluster, or that of the name, are not those of their part."""
    return WorkerError(
        f"a worker of the cluster sent arrays that are not those of its part ({name}); nothing of them was used: "
        "see who can reach the cluster, and run the same again"
    )


class Workers:
    """Runs tasks in `count` processes, or in this one where `count` is 1 or there is little to do.

    Use it as a context manager: the processes end with the block.

    Args:
        count: number of processes.
        start_after: seconds of work that are done in this process before the others are started.
        told: called with where the solution of a large family is, in whichever of the processes; also by a thread.

    Raises:
        InputError: `count` is below 1.
    """

    #: Whether the parts of a spine are handed to other machines.
    shares_parts = False
    #: Where solutions of large families are kept on their way; None keeps none. Another process gets a copy.
    kept: ArrayStore | None = None

    def __init__(self, count: int, start_after: float = START_AFTER, told: Listener | None = None) -> None:
        if count < 1:
            raise InputError(f"workers: found {count}; at least 1 is needed")
        self.count = count
        self._pool: ProcessPoolExecutor | None = None
        self._left = start_after
        self._told = told
        self._telling: connection.Connection | None = None

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
        done: Callable[[Task], None] | None = None,
    ) -> Iterator[Result]:
        """Yield `function(task)` for each task, in order.

        Args:
            function: of a module, so that it can be named to another process.
            tasks: picklable; immutable from when they are handed out, as are the results. They are asked for as they
                are handed out, and no task is held when it is done.
            done: called with each task, in order, when its result is there.

        Raises:
            WorkerError: a worker was killed or could not start.
            Exception: what `function` raises.
        """
        following = iter(tasks)
        rest = deque(islice(following, 2))
        while rest and (self.count == 1 or len(rest) < 2 or (self._pool is None and self._left > 0)):
            task, began = rest.popleft(), time.process_time()  # where others are at work too, a start takes longer
            with listening(self._told), kept_in(self.kept):
                result = apart(function, task)
            self._left -= time.process_time() - began
            if done is not None:
                done(task)
            yield result
            rest.extend(islice(following, 1))
        if not rest:
            return
        waiting = chain(rest, following)
        yield from in_order(
            waiting, lambda task: self._hand_out(function, task), self._awaited, AHEAD * self.count, done
        )

    @property
    def started(self) -> bool:
        """Whether other processes run already."""
        return self._pool is not None

    def begin(
        self, function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
    ) -> Callable[[], Result]:
        """Begin a task in another process that runs already, while this one goes on.

        Args:
            function: as of `run`.
            given, named: for it; picklable, and immutable from now on, as is the result.

        Returns:
            What waits for the result, and raises as `run` does. Where no other process runs, or those that did have
            been lost before, it does the task.
        """
        here = cache(partial(_kept_apart, self.kept, function, *given, **named))
        if not self.started:
            return here
        future, pool = self._hand_out(function, *given, **named), self._pool

        def wait() -> Result:
            lost = self._pool is not pool and (
                not future.done() or future.cancelled() or isinstance(future.exception(), BrokenProcessPool)
            )
            return here() if lost else self._awaited(future)

        return wait

    def _awaited(self, future: Future[Result]) -> Result:
        with self._a_lost_one_told():
            return immutable(future.result())

    @contextmanager
    def _a_lost_one_told(self) -> Iterator[None]:
        """The pool is broken when a result is asked for, or already when a task is handed out."""
        try:
            yield
        except BrokenProcessPool:
            self.close()
            raise WorkerError(
                "a worker process ended without a result: it was killed, or there is not enough memory; "
                "run the same again, with fewer --workers if memory is short"
            ) from None

    def prepare(self, *modules: str) -> None:
        """Start the processes now, without waiting for them: they import `modules` while this one continues."""
        if self.count > 1:
            for _ in range(self.count):
                self._hand_out(_import, modules)

    def _hand_out(self, function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Future[Result]:
        """Hand a task to the pool, which starts a process for it if it needs one."""
        if self._pool is None:
            ensure_tracker()  # it lets interrupts through when it starts, so not in the block below
            if self._told is not None:
                heard, self._telling = connection.Pipe(duplex=False)
                threading.Thread(target=_hear, args=(heard, self._told), daemon=True).start()
            self._pool = ProcessPoolExecutor(
                self.count, mp_context=WorkerContext(), initializer=_begin_telling, initargs=(self._telling,)
            )
        with self._a_lost_one_told(), without_interrupts():
            return self._pool.submit(partial(_kept_apart, self.kept, function, *immutable(given), **immutable(named)))

    def close(self, *, at_once: bool = False) -> None:
        """End the processes, after the tasks that they work on or `at_once`; tasks that have not begun are dropped."""
        if self._pool is None:
            return
        if at_once:
            # The pool offers no way to stop a task from Python 3.11 to 3.13.
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            # A result that was half sent is waited for until nobody can send the rest, and this process could.
            if self._pool._result_queue is not None:
                self._pool._result_queue._writer.close()  # type: ignore[attr-defined]
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        if self._telling is not None:
            self._telling.close()
            self._telling = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=error is not None)


def apart(function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
    """Do a task that nobody else sees anything of: neither what it is given nor what it gives can be written to."""
    return immutable(function(*immutable(given), **immutable(named)))


def _kept_apart(
    kept: ArrayStore | None, function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
) -> Result:
    with kept_in(kept):
        result = apart(function, *given, **named)
    give_memory_back()
    return result


class Handed(Protocol):
    """A task that was handed out."""

    def cancel(self) -> object:
        """Drop the task if it has not begun."""


HandedOut = TypeVar("HandedOut", bound=Handed)


def in_order(
    tasks: Iterable[Task],
    submit: Callable[[Task], HandedOut],
    result_of: Callable[[HandedOut], Result],
    ahead: int,
    done: Callable[[Task], None] | None = None,
) -> Iterator[Result]:
    """Hand tasks out, at most `ahead` of them at a time, and yield their results in order.

    Args:
        submit: hands a task out.
        result_of: waits for the result of one that was.
        ahead: at least 1.
        done: called with each task, in order, when its result is there.
    """
    waiting: deque[tuple[Task, HandedOut]] = deque()

    def finish() -> Result:
        task, handed = waiting.popleft()
        result = result_of(handed)
        if done is not None:
            done(task)
        return result

    try:
        for task in tasks:
            waiting.append((task, submit(task)))
            if len(waiting) >= ahead:
                yield finish()
        while waiting:
            yield finish()
    finally:
        for _, handed in waiting:
            handed.cancel()


def begun(tasks: Iterable[Task], n: int) -> tuple[list[Task], Iterator[Task]]:
    """The first n tasks, or as many as there are, and all of them, of which the others are not made yet."""
    following = iter(tasks)
    first = [*islice(following, n)]
    return first, chain(first, following)


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        import_module(module)


def begin_worker() -> None:
    """Prepare a worker process: one thread, the imports, and an end when the process that started it is gone."""
    forget_start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_threads()
    spare_garbage_collection()
    starter = parent_process()
    if starter is not None:
        threading.Thread(target=_end_with, args=(starter.sentinel,), daemon=True).start()
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    spare_pandas()


def _begin_telling(there: connection.Connection | None) -> None:
    """Prepare a worker process that says where its solutions are, if there is someone to say it to."""
    begin_worker()
    if there is None:
        return

    def tell(what: str, where: str) -> None:
        with suppress(OSError):  # nobody listens any more
            there.send_bytes(f"{what[:_LONGEST_NAME]}\n{where}".encode()[:_LONGEST])

    listen(tell)


def _hear(there: connection.Connection, told: Listener) -> None:
    """Pass on what workers say, until the last of them has ended; what they say is short, so that it comes whole."""
    with there, suppress(EOFError, OSError):
        while True:
            what, _, where = there.recv_bytes().decode(errors="replace").partition("\n")
            told(what, where)


def _end_with(sentinel: int) -> None:
    # A pool whose owner was killed would wait for tasks for ever.
    connection.wait([sentinel])
    os._exit(1)

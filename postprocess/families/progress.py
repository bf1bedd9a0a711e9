"""How far the solution of a large family is: kept, so that a run which was stopped goes on there, and told who waits.

The methods for large families go step by step, and a step depends on nothing but the problem and the arrays that it
begins with. These are kept as they are, from a while on and then every while, under a name that is made of the whole
problem. Whoever solves the same problem again begins with them, and takes the steps that would have come: neither the
solution nor the number of steps, which is published, tells that there was a stop.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from postprocess.arrays import Arrays

T = TypeVar("T")
#: Name of the family, and where its solution is.
Listener = Callable[[str, str], None]

#: Seconds of a solution of which nothing is said, and between two words of a longer one.
QUIET: Final = 3.0
PAUSE: Final = 1.0

_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Pass on what this process solves from now on."""
    _listeners.append(listener)


@contextmanager
def _in_use(used: list[T], one: T | None) -> Iterator[None]:
    """One more is used in the block; None changes nothing."""
    if one is None:
        yield
        return
    used.append(one)
    try:
        yield
    finally:
        used.remove(one)


def listening(listener: Listener | None) -> AbstractContextManager[None]:
    """Pass on what this process solves in the block; None changes nothing."""
    return _in_use(_listeners, listener)


class Watch:
    """The solution of a family by one method, which has just begun.

    Args:
        name: of the family, as messages have it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._next = time.monotonic() + QUIET

    def at(self, where: Callable[[], str]) -> None:
        """Say where the method is, if it is time to; `where` is asked only then."""
        if _listeners and (now := time.monotonic()) >= self._next:
            self._next = now + PAUSE
            _listeners[-1](self.name, where())


#: What the kept arrays are filed under.
STEP: Final = "families"
#: Seconds of a solution before it is first kept, and between two times.
WHILE = 20.0


class ArrayStore(Protocol):
    """Where arrays are kept, by step and name."""

    def get(self, step: str, batch: str) -> Arrays | None:
        """The arrays that were put last, read-only; None if there are none."""

    def put(self, step: str, batch: str, arrays: Arrays) -> None:
        """Keep arrays, whole or not at all."""


_stores: list[ArrayStore] = []


def kept_in(store: ArrayStore | None) -> AbstractContextManager[None]:
    """Keep in `store` what this process solves in the block; None keeps nothing."""
    return _in_use(_stores, store)


class Standing:
    """One solution by one method, which begins now.

    Args:
        method: its name.
        problem: gives all that its steps depend on, where something is kept; None stands for what there is not.
    """

    def __init__(self, method: str, problem: Callable[[], Sequence[NDArray[Any] | None]]) -> None:
        self._store = _stores[-1] if _stores else None
        self._name = "" if self._store is None else _name_of(method, problem())
        self._next = time.monotonic() + WHILE

    def found(self) -> dict[str, NDArray[Any]] | None:
        """The arrays that an earlier solution of the same problem was at, to be written to; None if there are none."""
        kept = None if self._store is None else self._store.get(STEP, self._name)
        return None if kept is None else {name: array.copy() for name, array in kept.items()}

    def at(self, arrays: Callable[[], Arrays]) -> None:
        """Keep where the method is before its next step, if it is time to; `arrays` is asked only then."""
        if self._store is not None and time.monotonic() >= self._next:
            self._store.put(STEP, self._name, arrays())
            self._next = time.monotonic() + WHILE


def _name_of(method: str, problem: Sequence[NDArray[Any] | None]) -> str:
    digest = hashlib.sha256(method.encode())
    for array in problem:
        digest.update(b"none" if array is None else f"{array.dtype.str}{array.shape}".encode())
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]

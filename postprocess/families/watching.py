"""How far the solution of a large family is, for whoever waits for it; nothing that is solved depends on it.

The solvers say where they are (`Watch.at`); what they say is passed on from a few seconds on, once a second, to the
listener of the process, if it has one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

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
def listening(listener: Listener | None) -> Iterator[None]:
    """Pass on what this process solves in the block; None changes nothing."""
    if listener is None:
        yield
        return
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


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

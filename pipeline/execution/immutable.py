"""Values that nobody changes: what a task is given, and what it gives, wherever it is done.

A task that is done in another process has arrays of its own, and one that is done here shares them with whoever handed
it out. Writing to them would change a release by where and when its tasks are done, so it raises an error instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

import numpy as np

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

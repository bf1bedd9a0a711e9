"""A task that leaves no arrays to be looked for as garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np


def without_garbage(function: Callable[[], Any]) -> Any:
    """What a function gives; it has to leave no arrays in objects that only refer to each other.

    Processes look for garbage seldom, and would hold these until they do. Arrays are freed at once otherwise.
    """
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        found = function()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [one for one in gc.garbage if any(isinstance(part, np.ndarray) for part in gc.get_referents(one))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        if was_enabled:
            gc.enable()
    assert not left, f"{function} leaves arrays in {sorted({type(one).__qualname__ for one in left})}"
    return found

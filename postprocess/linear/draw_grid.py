"""Drawn answers in steps of 1/256 person, such that children add up to their parent exactly and what is known stays so.

Rounding each number by itself would break the sums. Within a family the answers are rounded cumulatively instead: child
k gets round(x_1 + ... + x_k) - round(x_1 + ... + x_k-1), so that the children's sum is that of the parent, which was
rounded before, and no child is off by more than a step and a little. What the parent was rounded by is spread over the
children that are not known. All of it is done in whole numbers, so that a known answer stays a whole number of persons.

The step is a power of two: sums of such numbers are exact in floating point. It is coarse enough for the last digits
of a computation, which differ between processors, not to show, and adds about 0.001 person to a standard error.
"""

from __future__ import annotations

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray

#: Steps in a person, and in a step when families are rounded; both powers of two.
STEPS = 256
_FINE = 1 << 12
#: Stands for an answer that is not determined where answers in steps are kept.
UNKNOWN = int(np.iinfo(np.int64).min)


def at_top(answers: FloatArray, known: BoolArray) -> IntArray:
    """Answers `(n, size)` of the top level in steps; `known` ones are whole persons."""
    return _to_steps(_fine(answers, known))


def within_families(
    answers: FloatArray,
    known: BoolArray,
    unknown: BoolArray,
    above: IntArray,
    above_unknown: BoolArray,
    offsets: IntArray,
) -> IntArray:
    """Answers of a level in steps, adding up to those of the level above.

    Args:
        answers: `(n, size)`, persons.
        known: `(n, size)`: fixed by zeros and invariants; they become whole persons.
        unknown: `(n, size)`: not determined by the measurements. A family with such an answer is rounded one by one.
        above: `(n_parents, size)` of the parents, in steps.
        above_unknown: the same as `unknown`, of the parents.
        offsets: `(n_parents + 1,)` the children of each parent.
    """
    fine = _fine(answers, known)
    starts, sizes = offsets[:-1], np.diff(offsets)
    own = np.repeat(np.arange(len(sizes)), sizes)
    free = ~known
    n_free = np.add.reduceat(free.astype(np.int64), starts, axis=0)
    apart = above_unknown | np.logical_or.reduceat(unknown, starts, axis=0) | (n_free == 0)
    left = np.where(apart, 0, above * _FINE - np.add.reduceat(fine, starts, axis=0))
    share, rest = np.divmod(left, np.maximum(n_free, 1))
    place = np.cumsum(free, axis=0)
    before = np.where(starts[:, None] > 0, place[np.maximum(starts - 1, 0)], 0)
    # The first children that are not known take one more each, until the rest is used up.
    takes = (place - before[own]) <= rest[own]
    fine += np.where(free, share[own] + takes, 0)
    running = np.cumsum(fine, axis=0)
    begun = np.where(starts[:, None] > 0, running[np.maximum(starts - 1, 0)], 0)
    rounded = _to_steps(running - begun[own])
    out = np.diff(rounded, axis=0, prepend=0)
    out[starts] = rounded[starts]
    return np.where(apart[own], _to_steps(fine), out)


def persons(steps: IntArray) -> FloatArray:
    """Steps as persons, exactly; NaN for `UNKNOWN`."""
    return np.where(steps == UNKNOWN, np.nan, steps / STEPS)


def _fine(answers: FloatArray, known: BoolArray) -> IntArray:
    whole = np.rint(np.where(known, answers, 0.0)).astype(np.int64) * (STEPS * _FINE)
    return np.where(known, whole, np.rint(np.where(known, 0.0, answers) * (STEPS * _FINE)).astype(np.int64))


def _to_steps(fine: IntArray) -> IntArray:
    return (fine + _FINE // 2) // _FINE

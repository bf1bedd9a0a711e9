"""Which counts intervals hold: of large ones, and were they to have every truth that a released count allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: Of a level: means of squared errors, and shares of what is covered.
Measures = dict[str, float]
#: Persons from which on a count is large: intervals of smaller ones hold more, since numbers are whole.
LARGE: Final = 10
#: Counts that the 5 % and 95 % quantiles of a true size need.
_ENOUGH = 200


def held_if_large(truth: NDArray[np.int64], released: NDArray[np.int64], inside: NDArray[np.bool_]) -> Measures:
    """Of counts that are large, by what is true and by what is released: how many there are, and are held."""
    found: Measures = {}
    for of, counts in (("true", truth), ("released", released)):
        found |= {
            f"{of} large": float((counts >= LARGE).sum()),
            f"{of} large held": float(inside[counts >= LARGE].sum()),
        }
    return found


def shown_if_large(row: Mapping[str, float | str]) -> str:
    """The shares that are held of large counts."""
    pairs = [(float(row[f"{of} large held"]), float(row[f"{of} large"])) for of in ("true", "released")]
    return " / ".join(f"{held / n:6.1%}" if n else "     -" for held, n in pairs)


def with_inverted_test(
    truth: Ints, released: Ints, low: NDArray[np.float64], high: NDArray[np.float64], persons: Ints
) -> Measures:
    """Coverage and width of the union of intervals with the truths t for which the released r is within 5 % to 95 %.

    The quantiles of r given t are those of the true answers themselves, which only a benchmark has, in areas of the
    same octave of persons; where few counts are of a size t, those of the largest size that enough are of, moved.

    Args:
        truth, released, low, high: `(n, cells)`.
        persons: `(n,)`.
    """
    octave = np.frexp(np.maximum(persons, 1).astype(np.float64))[1]
    least, most = low.astype(np.float64).copy(), high.astype(np.float64).copy()
    for each in np.unique(octave):
        rows = octave == each
        t, r = truth[rows], released[rows]
        known, below, above = 0, [], []
        for size in range(int(max(t.max(), r.max())) + 1):
            of_size = r[t == size]
            if len(of_size) >= _ENOUGH and known == size:
                known = size + 1
                quantiles = np.quantile(of_size, (0.05, 0.95), method="inverted_cdf")
            elif not known:
                break
            moved = size - (known - 1)
            below.append(float(quantiles[0]) + moved)
            above.append(float(quantiles[1]) + moved)
        if not known:
            continue
        down, up = np.minimum.accumulate(below[::-1])[::-1], np.maximum.accumulate(above)
        # The least t whose 95 % quantile reaches r, and the largest whose 5 % quantile is not above it.
        first = np.searchsorted(up, r, side="left")
        last = np.searchsorted(down, r, side="right") - 1
        least[rows] = np.minimum(least[rows], first)
        most[rows] = np.maximum(most[rows], np.minimum(last, persons[rows][:, None]))
    inside, large = (least <= truth) & (truth <= most), truth >= LARGE
    return {
        "union covered": float(inside.mean()),
        "union width": float((most - least).mean()),
        "union large held": float(inside[large].sum()),
    }


def shown_inverted(row: Measures) -> str:
    """The same in words."""
    of_large = row["union large held"] / row["true large"] if row["true large"] else float("nan")
    return (
        f"with the inverted test: {row['union covered']:.1%} held, of true counts of {LARGE} and more {of_large:.1%}, "
        f"width {row['union width']:.2f} for {row['width']:.2f}"
    )

"""How much the two intervals of a small count hold, so that their union covers what it is to cover, and little more.

Where noise is large beside the counts, what a truth is released as is quite unlike what a release comes from: each of
the two intervals holds `SIMULATED_COVERAGE` of the errors, and their union up to 98 %. The simulated pairs (t, r) tell
how much it covers, by the size of t and by the size of r. Where that is too much by both, the shares are taken down:
that of the usual releases of a truth by what truths of its size show, and that of the usual truths of a release by what
releases of that size do.

Cells that are about as frequent have shares of their own in each octave of sizes, where enough pairs were seen: so a
frequent group never makes the intervals of a rare one shorter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.downward.ranges import Ranges, Windows, alike_cells, narrowest, united
from postprocess.downward.simulated_margins import SIMULATED_COVERAGE, ErrorCounts
from postprocess.downward.sized_errors import ENOUGH, MIDDLES, SIZE_CLASSES, SizedErrors, size_class

#: From which size on shares are taken down. Runs start from a release, whose smallest counts are unlike the truth's.
FIRST = 8
#: What the union is to hold of the simulated pairs where it is narrowed, and by how much more it holds before it is.
GOAL, SPARE = 0.91, 0.025
#: The least share that a range holds.
LEAST = 0.4
#: How often shares are changed; by how much of what is held too much, of a truth's releases and of a release's truths;
#: and by how much less each time.
_ROUNDS, _STEPS, _DAMPED = 6, (2.5, 1.5), 0.5
#: Lower ends of the octaves, and the size classes in which a share is that of its octave; in between it changes evenly.
_OCTAVES: IntArray = FIRST * 2 ** np.arange(int(SIZE_CLASSES[-1] // FIRST).bit_length() - 1)
_AT = size_class(np.append(FIRST // 2, 3 * _OCTAVES // 2))


def narrowed(errors: ErrorCounts, n_cells: int) -> tuple[Ranges, Ranges]:
    """The ranges of r - t by the size of t, and of t - r by the size of r, whose union is the interval of r.

    Args:
        errors: of the table.
        n_cells: answers of its query.
    """
    both = errors.by_truth, errors.by_release
    ranges = [Ranges.of(each, n_cells, narrowest, SIMULATED_COVERAGE) for each in both]
    alike = alike_cells(errors.by_release, n_cells)
    pairs = _Pairs.of(errors.by_release, errors.unit, alike)
    covered = pairs.covered(*ranges)
    wide = covered.min(axis=0) > GOAL + SPARE
    if not wide.any():
        return ranges[0], ranges[1]
    # Only cells of which something changes are looked at again.
    chosen = wide.any(axis=1)[alike]
    parts = [_of_cells(each, chosen) for each in both]
    pairs = _Pairs.of(parts[1], errors.unit, alike)
    shares = np.full((2, *wide.shape), SIMULATED_COVERAGE)
    rows, sizes = np.flatnonzero(chosen)[:, None], np.flatnonzero(SIZE_CLASSES > FIRST // 2)
    windows = [Windows.of(part, n_cells, alike=alike, sizes=SIZE_CLASSES > FIRST // 2, held=True) for part in parts]
    for round_number in range(_ROUNDS):
        if round_number:
            covered = pairs.covered(*ranges)
        for number, (window, share, step) in enumerate(zip(windows, shares, _STEPS, strict=True)):
            too_much = (covered[number][wide] - GOAL) / (1.0 + _DAMPED * round_number)
            share[wide] = np.clip(share[wide] - step * too_much, LEAST, SIMULATED_COVERAGE)
            own = window.ranges(narrowest, _by_size(share)[alike])
            low, high = ranges[number].low.copy(), ranges[number].high.copy()
            low[rows, sizes], high[rows, sizes] = own.low[rows, sizes], own.high[rows, sizes]
            ranges[number] = Ranges(low, high)
    return ranges[0], ranges[1]


def _by_size(shares: FloatArray) -> FloatArray:
    """Shares of each size class `(n, size classes)`, of those of octaves `(n, octaves)`."""
    sizes = np.arange(len(SIZE_CLASSES))
    return np.array([np.interp(sizes, _AT, [SIMULATED_COVERAGE, *of_cells]) for of_cells in shares])


def _of_cells(errors: SizedErrors, chosen: BoolArray) -> SizedErrors:
    """Those of some cells; `chosen` is `(cells,)`."""
    mine = chosen[errors.parts()[0]]
    return SizedErrors(errors.places[mine], errors.times[mine])


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Simulated pairs of a truth and a release, as far as sizes are told apart.

    Attributes:
        unit: persons in a class of errors.
        n_alike: how many numbers of alike cells there are.
        cells, released: the releases that there are, `(n_releases,)` each.
        which: the release of each pair, `(n,)`.
        truth: of each pair.
        times: how often it was seen.
        places: `(2, n)`, alike cells and octave by the truth, and by the release; -1 where that is below all octaves.
    """

    unit: int
    n_alike: int
    cells: IntArray
    released: IntArray
    which: IntArray
    truth: IntArray
    times: IntArray
    places: IntArray

    @classmethod
    def of(cls, by_release: SizedErrors, unit: int, alike: IntArray) -> _Pairs:
        """Those of errors t - r, where one of both counts is not among the smallest; `alike` is `(cells,)`."""
        cells, sizes, error = by_release.parts()
        released = MIDDLES[sizes].astype(np.int64)
        truth = np.maximum(released + error * unit + (unit - 1) // 2, 0)
        some = np.maximum(released, truth) >= FIRST
        cells, released, truth, times = (each[some] for each in (cells, released, truth, by_release.times))
        octaves = np.searchsorted(_OCTAVES, np.stack([truth, released]), side="right") - 1
        places = np.where(octaves < 0, -1, alike[cells] * len(_OCTAVES) + octaves)
        most = 1 + int(released.max(initial=0))
        distinct, which = np.unique(cells * most + released, return_inverse=True)
        return cls(unit, int(alike.max(initial=-1)) + 1, *np.divmod(distinct, most), which, truth, times, places)

    def covered(self, by_truth: Ranges, by_release: Ranges) -> FloatArray:
        """What the union of both intervals holds, by the octave of the truth and of the release: `(2, alike, octaves)`.

        `GOAL` where too few pairs were seen.
        """
        low, high = united(by_truth, by_release, self.unit, self.cells, self.released)
        with np.errstate(invalid="ignore"):
            low, high = np.minimum(low, self.released - 1)[self.which], np.maximum(high, self.released + 1)[self.which]
            inside, known = (low <= self.truth) & (self.truth <= high), ~np.isnan(low) & ~np.isnan(high)
        shape = self.n_alike, len(_OCTAVES)
        out = []
        for places in self.places:
            counted = known & (places >= 0)
            seen, held = (
                np.bincount(places[counted], weights[counted], shape[0] * shape[1])
                for weights in (self.times, self.times * inside)
            )
            out.append(np.where(seen >= 2 * ENOUGH, held / np.maximum(seen, 1.0), GOAL).reshape(shape))
        return np.stack(out)

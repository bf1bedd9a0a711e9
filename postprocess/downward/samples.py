"""Which geounits are simulated, and in how many runs: enough for the precision of the margins, and no more.

In a simulated run the children of a geounit are solved or left out. At every level each geounit is *visited* by as many
runs as its level's rate says, give or take one, so that all have the same chance and errors need no weights:

- a geounit can be visited only where its parent is, so rates do not rise from the top down;
- siblings take turns in an order that the public seed draws.

A level's rate is such that every notable size of its published numbers (`NOTABLE`) is seen in `ERRORS` errors, and more
where that is cheap. Below a level of few geounits all is visited a few times (`SPREAD`): the sample is then not all in
one run, with one draw of the errors above it and as long as the others together. Everything here follows from the spine
and the release, never from a machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from postprocess.algebra import chunks
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.downward.simulated_margins import CHUNK_NUMBERS, LARGE
from postprocess.downward.sized_errors import SIZE_CLASSES, size_class
from postprocess.downward.subtrees import cut_level
from postprocess.linear.downward import AnswerVariances
from postprocess.marginal import Marginal

#: Relative standard error of a margin.
PRECISION = 0.05
#: Errors behind it: the 90 % quantile of the absolute value of n normal numbers has the relative standard error
#: sqrt(0.9 0.1 / n) / (2 phi(z) z) = 0.885 / sqrt(n), with z = 1.645 and the density phi of a standard normal.
ERRORS = math.ceil((0.885 / PRECISION) ** 2)
#: Numbers of a size that a level publishes, from which on the size is notable; below the cut also one number for so
#: many leaves of the spine. Rarer sizes are seen as often as the others, and pooled by the rule of margins.
NOTABLE, NOTABLE_LEAVES = 500, 1000
#: Simulated runs at least, where the spec allows them.
LEAST_RUNS = 4
#: Runs at least that visit the children of a level of fewer geounits than that, where this is at most so many times the
#: work on the sample below them.
SPREAD, FEW, WORTH = 2.0, 100, 2.0
#: Seconds of work on a level that are always worth it.
CHEAP = 0.25
#: Seconds of a core for a geounit, for a cell of one, per square and per cube of the cells of a family, for each child,
#: and per cube of all cells at the top.
PER_GEOUNIT, PER_CELL, PER_SQUARE, PER_CUBE, PER_TOP = 1.1e-4, 1.5e-7, 2.5e-7, 0.8e-9, 2.0e-10
#: Leaf cells of the subtrees that a simulated run works on at a time; no machine sets it, since ties depend on it.
GROUP_CELLS = 1 << 25
#: Rates are compared in this many parts.
_PARTS = 1 << 20


@dataclass(frozen=True)
class Rates:
    """How often the geounits of each level are simulated.

    Attributes:
        runs: simulated runs.
        visits: per level, the runs that simulate a geounit, on average; `runs` at the top.
        cut: the level whose subtrees are simulated whole or not at all; None where every run simulates everything.
    """

    runs: int
    visits: tuple[float, ...]
    cut: int | None

    @property
    def shares(self) -> tuple[float, ...]:
        """Per level, the share of the visited geounits whose children are visited, too; 1 at the leaves."""
        return (*(low / high for high, low in zip(self.visits, self.visits[1:], strict=False)), 1.0)


def work_of(spine: Spine, n_cells: int, filled: Sequence[FloatArray | IntArray]) -> FloatArray:
    """About the seconds of a core that it takes to simulate each level once, `(n_levels,)`.

    Args:
        spine: the geounits.
        n_cells: of the schema.
        filled: per level but the last, how many cells of each geounit are not empty, `(n,)`.
    """
    work = np.array([len(level) * (PER_GEOUNIT + PER_CELL * n_cells) for level in spine.levels])
    work[0] += PER_TOP * float(n_cells) ** 3
    for level in range(spine.n_levels - 1):
        k = np.asarray(filled[level], dtype=np.float64)
        children = np.diff(spine.child_offsets(level))
        of_child = PER_SQUARE * k * k * np.minimum(k, 100.0) / 100.0 + PER_CUBE * k**3
        work[level + 1] += float((children * of_child).sum())
    return work


def sizes_of(marginal: Marginal, variances: AnswerVariances, released: sp.csr_array) -> IntArray:
    """How many of a table's released numbers are of each size class, and, last, how many are large: `(n_classes + 1,)`.

    Args:
        marginal: the table's query.
        variances: of the level's answers.
        released: the level's histograms, `(n, n_cells)`.
    """
    limits = LARGE * np.sqrt(variances.by_query[marginal.key])
    out = np.zeros(len(SIZE_CLASSES) + 1, dtype=np.int64)
    for rows in chunks(len(variances.classes), marginal.size, CHUNK_NUMBERS):
        answers = marginal.answer_csr(released[rows])
        with np.errstate(invalid="ignore"):
            large = answers > limits[variances.classes[rows]]
        kind = np.where(large, len(SIZE_CLASSES), size_class(answers))
        out += np.bincount(kind.ravel(), minlength=len(out))
    return out


def needed_of(sizes: Sequence[IntArray], leaves: int) -> float:
    """Simulations of a level that its tables need.

    Args:
        sizes: of each table, from `sizes_of`.
        leaves: of the spine, where the level is below the cut; else 0.
    """
    notable = max(NOTABLE, leaves // NOTABLE_LEAVES)
    least = min((int(n) for table in sizes for n in table if n >= notable), default=0)
    return ERRORS / least if least else 0.0


def rates_of(spine: Spine, needed: Sequence[float], work: FloatArray, most: int) -> Rates:
    """How often each level is simulated.

    Args:
        spine: the geounits.
        needed: simulations of each level that its tables need.
        work: of each level, from `work_of`.
        most: runs at most.
    """
    cut = cut_level(spine)
    if cut is None:
        runs = math.ceil(min(most, max(LEAST_RUNS, *needed, CHEAP / float(work.sum()))))
        return Rates(runs, (float(runs),) * spine.n_levels, None)
    seconds = [float(of_level) for of_level in work[: cut + 1]]
    seconds += [float(work[cut + 1 :].sum())] * (spine.n_levels - cut - 1)
    least = [float(need) for need in needed]
    least[cut + 1 :] = [max(least[cut + 1 :])] * (spine.n_levels - cut - 1)
    for level in range(spine.n_levels - 2, -1, -1):
        least[level] = max(least[level], least[level + 1])
    runs = math.ceil(min(most, max(LEAST_RUNS, least[0], CHEAP / seconds[0])))
    visits = [float(runs)]
    for need, of_level in zip(least[1:], seconds[1:], strict=True):
        visits.append(min(visits[-1], max(need, CHEAP / of_level)))
    return Rates(runs, _spread(spine, cut, visits, work), cut)


def most_visits(leaves: int, n_cells: int) -> float:
    """Simulations of a leaf below the cut, at most, whatever its tables need and however few cells are filled.

    Args:
        leaves: of the spine.
        n_cells: of the schema.
    """
    needed = ERRORS / max(NOTABLE, leaves // NOTABLE_LEAVES)
    return max(needed, CHEAP / (leaves * (PER_GEOUNIT + PER_CELL * n_cells)))


def _spread(spine: Spine, cut: int, visits: Sequence[float], work: FloatArray) -> tuple[float, ...]:
    """Visits of each level, raised where few geounits are above and this is cheap beside the sample below it."""
    out = list(visits)
    for level in range(1, cut + 1):
        more = min(SPREAD, out[0]) - out[level]
        below = float(np.dot(visits[level + 1 :], work[level + 1 :]))
        if len(spine.levels[level - 1]) >= FEW or more * float(work[level]) > WORTH * below:
            break
        out[level] += max(0.0, more)
    return tuple(out)


def visited(spine: Spine, rates: Rates, key: int) -> list[BoolArray]:
    """Per level but the last, `(runs, n)`: whether a run solves the children of a geounit.

    Args:
        spine: the geounits.
        rates: how often.
        key: 128 bits that follow from the public seed.
    """
    generator = np.random.Generator(np.random.Philox(key=key))
    present = np.ones((rates.runs, len(spine.levels[0])), dtype=bool)
    out: list[BoolArray] = []
    for number in range(spine.n_levels - 1):
        level = spine.levels[number]
        if number:
            present = out[-1][:, level.parents]
        chosen = present
        share = min(_PARTS, math.ceil(rates.shares[number] * _PARTS))
        if share < _PARTS:
            place, siblings = _turns(level.parents, generator)
            start = (2 * place + 1) * _PARTS // (2 * siblings)
            visits = np.cumsum(present, axis=0, dtype=np.int64)
            # A geounit is taken where its count of turns goes up; those of siblings do so evenly apart.
            due = (visits * share + start) // _PARTS > ((visits - 1) * share + start) // _PARTS
            chosen = present & due
        out.append(chosen)
    return out


def _turns(parents: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Of each geounit its place in a random order of its siblings, from 0, and how many they are, both `(n,)`."""
    order = np.lexsort((generator.random(len(parents)), parents))
    _, starts, counts = np.unique(parents, return_index=True, return_counts=True)
    place = np.empty(len(parents), dtype=np.int64)
    place[order] = np.arange(len(parents)) - np.repeat(starts, counts)
    return place, np.repeat(counts, counts)

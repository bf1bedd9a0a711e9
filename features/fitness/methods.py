"""Other ways to protect the same counts, for comparison; all of them work on true counts.

Noise on every table apart is what a library of mechanisms such as OpenDP gives, without any estimation. Each table of
each level gets the same part of the release's budget, discrete Gaussian or Laplace noise of the scale that this part
buys (as `make_gaussian` and `make_laplace` of OpenDP on whole numbers, whose distribution is the same), and what is
below 0 is published as 0. Nothing adds up, and no invariant is kept. Where OpenDP is installed, the same noise is drawn
by itself, too: it draws without a seed, so that the figures differ a little from run to run.

Cell keys: as `pipeline/disclosure/cell_keys.py` says, with D = 5, V = 3 and js = 2 unless others are given.

Record swapping: some records change places with others nearby, and are counted as if nothing had happened. So the US
Census Bureau protected the censuses of 1990 to 2010; its rates and rules are secret (McKenna 2018, "Disclosure
Avoidance Techniques Used for the 1970 through 2010 Decennial Censuses"). Here the records of a universe are swapped one
by one, at random: every area keeps its number of records, and what is exchanged are their attributes. A histogram does
not say who lives with whom, so that households of several persons are not kept together.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from importlib.util import find_spec
from typing import Final, Protocol

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from geography.sums import roll_up
from pipeline.disclosure.cell_keys import CellKeyParameters, CellKeys
from pipeline.disclosure.method import KEYS, keys_of
from pipeline.model.texts.message import Message, message
from pipeline.model.universe import Table, Universe
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.privacy.noise.sampler import sampler_for
from postprocess.arrays import IntArray

#: What the ways are called.
_APART, _OPENDP, _CELL_KEYS = message("noise apart"), Message("OpenDP"), message("cell keys")


class Way(Protocol):
    """One way to protect the counts of a universe."""

    @property
    def name(self) -> Message:
        """Short, for a column."""

    @property
    def about(self) -> Message:
        """What it is, with its parameters, and what it promises."""

    def answers(self, table: Table, level: int, rows: slice) -> IntArray:
        """Published numbers `(n, size)` of a table for some geounits of a level."""


@dataclass(frozen=True, eq=False)
class Histograms:
    """A way that gives protected records, from which all tables are counted.

    Attributes:
        levels: `(n_geounits, n_cells)` of each level.
    """

    name: Message
    about: Message
    levels: Sequence[sp.csr_array]

    def answers(self, table: Table, level: int, rows: slice) -> IntArray:
        """Published numbers `(n, size)`, counted from the histograms."""
        return table.query.answer_csr(self.levels[level][rows])


# -- noise on every table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Apart:
    """The true counts of a universe with noise on every table.

    Attributes:
        universe: whose budget is divided.
        truth: histograms of each level `(n_geounits, n_cells)`.
        seed: of the noise, which protects nothing: its sums are for the agency alone.
    """

    universe: Universe
    truth: Sequence[sp.csr_array]
    seed: int
    name: Message = _APART

    @property
    def noise(self) -> NoiseSpec:
        """The noise of every number."""
        tables = sum(len(table.levels) for table in self.universe.tables)
        one = self.universe
        return noise_for(one.framework, one.record_budget, Fraction(1, tables), Fraction(1), one.neighbours)

    @property
    def about(self) -> Message:
        """What it is, with its parameters, and what it promises."""
        return message(
            "Noise on every table of every level apart, as OpenDP draws it, with the release's own budget divided "
            "evenly ({noise}); negative numbers are published as 0. The same promise as the release, without "
            "invariants. Numbers do not add up.",
            noise=str(self.noise),
        )

    def answers(self, table: Table, level: int, rows: slice) -> IntArray:
        """Published numbers `(n, size)`: true ones with noise, at least 0."""
        counts = table.query.answer_csr(self.truth[level][rows])
        label = f"fitness {self.seed} {self.universe.name} {level} {table.name}"
        key = hashlib.sha256(label.encode()).digest()
        drawn = sampler_for(self.noise).draw(key, rows.start * table.query.size, counts.size)
        return np.maximum(counts + drawn.reshape(counts.shape), 0)


# -- the same noise by OpenDP ------------------------------------------------------------------------------------------


#: How OpenDP calls the noises that it has, the distance of neighbours and its type; what it takes the scale for.
_OPENDP_HAS: Final[Mapping[str, tuple[str, str, str, Callable[[Fraction], float]]]] = {
    "discrete_gaussian": ("make_gaussian", "l2_distance", "f64", math.sqrt),
    "discrete_laplace": ("make_laplace", "l1_distance", "i64", float),
}
#: Numbers that OpenDP is given at a time: its vectors are lists of Python.
_AT_ONCE = 1 << 20


def opendp_noise(universe: Universe, truth: Sequence[sp.csr_array]) -> OpenDP | None:
    """The way, if OpenDP is installed and has such noise."""
    apart = Apart(universe, truth, 0)
    return OpenDP(apart) if find_spec("opendp") and apart.noise.mechanism in _OPENDP_HAS else None


@dataclass(eq=False)
class OpenDP:
    """The true counts of a universe with OpenDP's noise on every table.

    Attributes:
        apart: the budget of each table.
        drawn: the numbers of the table and level that were asked for last: asked again, they are the same.
    """

    apart: Apart
    drawn: dict[tuple[str, int], IntArray] = field(default_factory=dict)
    name: Message = _OPENDP

    @property
    def about(self) -> Message:
        """What it is, with its parameters, and what it promises."""
        return message(
            "OpenDP's own {noise} on every table of every level apart, with the release's budget divided "
            "evenly; negative numbers are published as 0. The same promise as the release, without invariants. Numbers "
            "do not add up. Drawn without a seed: figures differ a little when they are computed again.",
            noise=str(self.apart.noise),
        )

    def answers(self, table: Table, level: int, rows: slice) -> IntArray:
        """Published numbers `(n, size)`: true ones with noise, at least 0."""
        key = table.name, level
        if key not in self.drawn:
            counts = table.query.answer_csr(self.apart.truth[level])
            self.drawn = {key: np.maximum(self._with_noise(counts.ravel()), 0).reshape(counts.shape)}
        return self.drawn[key][rows]

    def _with_noise(self, counts: IntArray) -> IntArray:
        parts = [counts[at : at + _AT_ONCE] for at in range(0, len(counts), _AT_ONCE)]
        return np.concatenate([np.array(mechanism(self.apart, len(part))(part.tolist())) for part in parts])


def mechanism(apart: Apart, size: int):  # type: ignore[no-untyped-def]  # OpenDP's measurement has no public type
    """OpenDP's measurement of a vector of so many whole numbers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=size)
    maker, distance, of, scale = _OPENDP_HAS[apart.noise.mechanism]
    return getattr(dp.m, maker)(domain, getattr(dp, distance)(T=of), scale=scale(apart.noise.scale))


# -- cell keys ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Perturbed:
    """The true counts of a universe, perturbed by cell keys.

    Attributes:
        parameters: D, V and js.
        counts, keys: of each level, histograms of true counts and of cell keys `(n_geounits, n_cells)`.
    """

    parameters: CellKeyParameters
    counts: Sequence[sp.csr_array]
    keys: Sequence[sp.csr_array]
    name: Message = _CELL_KEYS

    @classmethod
    def of(
        cls, truth: Sequence[sp.csr_array], spine: Spine, seed: int, parameters: CellKeyParameters | None = None
    ) -> Perturbed:
        """Perturb the true histograms of all levels, with keys that `seed` gives."""
        keys = roll_up(spine, keys_of(truth[-1], np.random.default_rng(seed)))
        return cls(parameters or CellKeyParameters(), truth, keys)

    @property
    def about(self) -> Message:
        """What it is, with its parameters, and what it promises."""
        one = self.parameters
        return message(
            "Cell-key perturbation with D = {most}, V = {variance}, js = {unpublished}: the error of each number is "
            "determined by the records that it counts. Numbers do not add up. There is no bound on what many "
            "tables together reveal about a person.",
            most=one.most,
            variance=f"{one.variance:g}",
            unpublished=one.unpublished,
        )

    @cached_property
    def _method(self) -> CellKeys:
        return CellKeys.of(self.parameters)

    def answers(self, table: Table, level: int, rows: slice) -> IntArray:
        """Published numbers `(n, size)`: true ones with their errors."""
        counts, keys = (table.query.answer_csr(levels[level][rows]) for levels in (self.counts, self.keys))
        return self._method.publish(counts, keys % KEYS)


# -- swapping ----------------------------------------------------------------------------------------------------------


#: Records that are swapped, and the most records that it is done with.
RATE, MOST_RECORDS = 0.1, 50_000_000


def swapped(leaves: sp.csr_array, spine: Spine, within: int, rate: float, seed: int) -> sp.csr_array:
    """The histograms of leaves `(n_leaves, n_cells)` after a part of their records changed places.

    Args:
        leaves: true counts.
        spine: of the leaves.
        within: number of the level whose geounits no record leaves.
        rate: share of records that move, above 0 and at most 1.
        seed: decides which.
    """
    rng = np.random.default_rng(seed)
    leaf = np.repeat(np.repeat(np.arange(leaves.shape[0]), np.diff(leaves.indptr)), leaves.data)
    cell = np.repeat(leaves.indices, leaves.data)
    chosen = np.flatnonzero(rng.random(len(leaf)) < rate)
    region = spine.leaf_ancestors(within)[leaf[chosen]]
    # By region, then leaf: half a region further is another leaf, unless one leaf has most of the region's records.
    order = chosen[np.lexsort((rng.random(len(chosen)), leaf[chosen], region))]
    taken = order.copy()
    for part in _runs(np.sort(region)):
        taken[part] = np.roll(order[part], (part.stop - part.start) // 2)
    moved = cell.copy()
    moved[order] = cell[taken]
    ones = np.ones(len(leaf), dtype=np.int64)
    return sp.csr_array(sp.coo_array((ones, (leaf, moved)), shape=leaves.shape).tocsr())


def _runs(values: IntArray) -> list[slice]:
    """The slices of equal values, of sorted ones."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return [slice(int(a), int(b)) for a, b in zip(starts, [*starts[1:], len(values)], strict=True)]


def swapping(leaves: sp.csr_array, spine: Spine, seed: int) -> Histograms | None:
    """All levels after swapping within the geounits of the level below the top; None where there are too many records.

    With two levels or fewer, records may go anywhere.
    """
    if int(leaves.sum()) > MOST_RECORDS:
        return None
    within = 1 if spine.n_levels > 2 else 0
    about = message(
        "Record swapping: {percent} % of the records, chosen at random, change places with others of the same "
        "{level}. Every area keeps its number of records. What it promises cannot be stated: it "
        "rests on the rate and the rules being secret.",
        percent=f"{100 * RATE:g}",
        level=spine.level_names[within],
    )
    return Histograms(message("swapping"), about, roll_up(spine, swapped(leaves, spine, within, RATE, seed)))

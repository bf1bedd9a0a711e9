"""What the page needs of covariances to compare areas and to add them up: small factors for each class of areas.

Covariances follow from the spec and the areas, not from any count. Those of all pairs of areas are far too many for a
page, but each is a sum of few products of factors of its two areas (`postprocess.linear.covariances`), and alike areas
share theirs. `moments.js` multiplies them. They are worked out table by table and level by level, where margins are
published (see `features/report/workers.py`); that is the memory that the report takes.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geography.spine import Spine
from pipeline.cost.size import alike_matrices, basis_of_spec
from pipeline.model.universe import Universe
from pipeline.pages.data import Chunks, packed_numbers
from pipeline.release.long_tables import is_long
from postprocess.arrays import FloatArray, IntArray
from postprocess.linear.covariances import rows_of

#: Bytes of a matrix for each geounit, beyond which covariances are left out of the page: several are held at once.
MOST_HELD = 4_000_000_000
#: Those up to which they are worked out beside other steps.
MOST_AHEAD = 400_000_000
#: Bytes per number of all matrices, and per factor of the table and level that has most: of 1/128 of England, as
#: benchmarks/bench_scale.py makes it, and of 1,689 areas with ages.
HELD_BYTES, FACTOR_BYTES = 48.0, 72.0


def held_bytes(universe: Universe, geounits: int) -> int:
    """Bytes of a matrix for each geounit: what covariances would take if no two areas were alike."""
    basis = basis_of_spec(universe)
    return 8 * geounits * basis.n_blocks * basis.n_asymmetric**2


@dataclass(frozen=True)
class Reported:
    """The covariances of a universe's tables; all 0 where the report has none.

    Attributes:
        matrices: numbers of the matrices of all classes of areas, upward and after both passes.
        widest: numbers of the factors of the table and level that has most: of each class, level above, and row of the
            table.
        ahead: whether they are worked out beside other steps.
    """

    matrices: int = 0
    widest: int = 0
    ahead: bool = True

    @classmethod
    def of(cls, universe: Universe, spine: Spine, *, margins: bool) -> Reported:
        """Those of a universe's tables, if margins are published."""
        held = held_bytes(universe, sum(len(level) for level in spine.levels))
        if not margins or held > MOST_HELD:
            return cls()
        basis = basis_of_spec(universe)
        block, a = basis.n_blocks * basis.n_asymmetric**2, basis.n_asymmetric
        upward, final = alike_matrices(spine, whole=not universe.bounds)
        matrices = (sum(upward) + sum(final)) * block
        # For each level above a factor of every combination; and one covariance, with its own level, too.
        factors = [
            final[level] * basis.n_blocks * len(rows_of(basis, table.query)) * (level * a + level + 1)
            for level, name in enumerate(spine.level_names)
            for table in universe.tables
            if name in table.levels and not universe.measure.signed and not is_long(table.query.size)
        ]
        return cls(matrices, max(factors, default=0), held <= MOST_AHEAD)

    @property
    def bytes(self) -> float:
        """What the process holds that works them out."""
        return HELD_BYTES * self.matrices + FACTOR_BYTES * self.widest


#: What is known of an answer of a class: it has an error; it is certain; the measurements do not determine it.
USUAL, CERTAIN, UNKNOWN = 0, 1, 2
#: Characters of all factors in the page; those of later levels are beside it.
LARGEST = 1_000_000
#: Characters of factors that are too many even for a file of their own: they are left out.
_LARGEST_BESIDE = 3_000_000
#: Digits of the largest factor of a class and level; the others have as many decimals as that one.
_DIGITS = 7
#: What counts as 0 beside the largest variance, and beside its square root: rounding errors are smaller.
_NOTHING, _NOTHING_SHARED = 1e-9, 1e-8


@dataclass(frozen=True, eq=False)
class TableMoments:
    """The factors of one table at one level, as `postprocess.linear.covariances.PairFactors` has them.

    Attributes:
        classes: `(n,)` class of each geounit.
        known: `(n_classes, size + 1)` USUAL, CERTAIN or UNKNOWN, of each answer and of their sum.
        nested, crossed, shared: see there.
        factors: `(n_blocks, F)` part of each block in an answer's variance, by its place on the symmetric attributes.
        sizes: `(F,)` symmetric cells of each; all of them together are `whole`.
        places: `(size,)` of each answer: row x F + place.
        at_once: standard errors to each side that hold the numbers of all geounits of the level at once.
        halves: `(n_classes, size)` variances of half of how many more are up to an answer than above it, for the median
            (`postprocess.statistics.median_interval`); None where none is shown.
    """

    classes: IntArray
    known: IntArray
    nested: FloatArray
    crossed: FloatArray
    shared: FloatArray
    factors: FloatArray
    sizes: FloatArray
    whole: float
    places: IntArray
    at_once: float
    halves: FloatArray | None


@dataclass(frozen=True, eq=False)
class _Packed:
    """Numbers as text: the runs of their different values, the steps in these, and the place of each number."""

    scales: list[tuple[int | None, int, int]]
    steps: str
    places: str


@dataclass(frozen=True, eq=False)
class PackedMoments:
    """The factors of one table at one level as text; None for what says nothing, or is too long for a file.

    `numbers` are `nested`, `crossed`, `shared` and `halves`, and `small` is all that is left as it is.
    """

    classes: str
    known: str
    numbers: tuple[_Packed | None, ...]
    small: dict[str, object]


@dataclass
class MomentPacking:
    """Rounds and compresses factors; tables with the same rows have the same, which are packed once.

    Attributes:
        by_numbers: digest of an array -> the array as text.
    """

    by_numbers: dict[bytes, _Packed | None] = field(default_factory=dict)
    _whole: dict[bytes, str] = field(default_factory=dict)

    def packed(self, moments: TableMoments) -> PackedMoments:
        """The factors of a table at a level."""
        scale = _power(max(1.0, float(np.fmax.reduce(np.abs(moments.nested), axis=None, initial=0.0))))
        nothing, nothing_shared = _NOTHING * scale, _NOTHING_SHARED * math.sqrt(scale)
        numbers = (
            self._floats(moments.nested, nothing),
            self._floats(moments.crossed, nothing) if moments.nested.shape[-1] > 1 else None,
            self._floats(moments.shared, nothing_shared) if moments.shared.size else None,
            None if moments.halves is None else self._floats(moments.halves[:, None], nothing),
        )
        small: dict[str, object] = {
            "shape": list(moments.shared.shape[1:]),
            "factors": moments.factors.tolist(),
            "sizes": moments.sizes.tolist(),
            "whole": moments.whole,
            "places": moments.places.tolist(),
            "atOnce": moments.at_once,
        }
        return PackedMoments(self._wholes(moments.classes), self._wholes(moments.known), numbers, small)

    def _floats(self, numbers: FloatArray, nothing: float) -> _Packed | None:
        key = _digest(numbers, nothing)
        if key not in self.by_numbers:
            values, places = _rounded(numbers, nothing)
            scales, steps = _decimal(values)
            packed = _Packed(scales, packed_numbers(steps), packed_numbers(places))
            fits = max(len(packed.steps), len(packed.places)) <= _LARGEST_BESIDE
            self.by_numbers[key] = packed if fits else None
        return self.by_numbers[key]

    def _wholes(self, numbers: IntArray) -> str:
        key = _digest(numbers)
        if key not in self._whole:
            self._whole[key] = packed_numbers(numbers)
        return self._whole[key]


@dataclass
class MomentChunks:
    """Factors that are in the page already: tables and levels that have the same share one chunk.

    Attributes:
        chunks: of the page.
        size: characters in the page so far.
        by_text: packed text -> number of its chunk.
    """

    chunks: Chunks
    size: int = 0
    by_text: dict[str, int] = field(default_factory=dict)

    def entry(self, moments: PackedMoments) -> dict[str, object]:
        """What `moments.js` reads of a table: small lists, and the numbers of chunks; None for what does not fit."""
        nested, crossed, shared, halves = (packed and self._floats(packed) for packed in moments.numbers)
        return {
            "classes": self._kept(moments.classes),
            "known": self._kept(moments.known),
            "nested": nested,
            "crossed": crossed,
            "shared": shared,
            "halves": halves,
        } | moments.small

    def _floats(self, packed: _Packed) -> dict[str, object]:
        return {"scales": packed.scales, "steps": self._kept(packed.steps), "places": self._kept(packed.places)}

    def _kept(self, text: str) -> int | None:
        if text not in self.by_text:
            if self.size + len(text) <= LARGEST:
                self.size += len(text)
                self.by_text[text] = self.chunks.add_in_page(text)
            elif len(text) <= _LARGEST_BESIDE:
                self.by_text[text] = self.chunks.add_beside([text])
            else:
                return None
        return self.by_text[text]


def _digest(numbers: FloatArray | IntArray, *further: float) -> bytes:
    digest = hashlib.blake2b(np.ascontiguousarray(numbers).data)
    digest.update(repr((numbers.shape, *further)).encode())
    return digest.digest()


def _rounded(numbers: FloatArray, nothing: float) -> tuple[FloatArray, IntArray]:
    """Different values among numbers of classes and levels above, `(n, levels, ...)`, and the place of each.

    They are rounded beside the largest of their class and level, and what is smaller than `nothing` is 0, so that no
    processor shows in the digits.
    """
    axes = tuple(range(2, numbers.ndim))
    largest = np.fmax.reduce(np.abs(numbers), axis=axes, keepdims=True, initial=0.0)
    step = np.maximum(_power(np.maximum(largest, nothing)) * 10.0 ** (1 - _DIGITS), _power(nothing))
    rounded = (np.rint(numbers / step) * step).ravel() + 0.0
    # Most are 0, and need not be sorted.
    some = np.flatnonzero(rounded)
    values, places = np.unique(rounded[some], return_inverse=True)
    if len(some) == len(rounded):
        return values, places
    zero = int(np.searchsorted(values, 0.0))
    out = np.full(len(rounded), zero)
    out[some] = places + (places >= zero)
    return np.insert(values, zero, 0.0), out


def _decimal(values: FloatArray) -> tuple[list[tuple[int | None, int, int]], IntArray]:
    """Rounded values in ascending order as whole numbers of small steps.

    Returns:
        Of each run of values of one sign and order: its power of ten, the first value in it, how many there are; and
        of each value how much larger it is than the one before it in its run. No value has the power None.
    """
    known = values[~np.isnan(values)]
    exponents = np.zeros(len(known), dtype=np.int64)
    exponents[known != 0] = np.floor(np.log10(np.abs(known[known != 0]))).astype(np.int64) + 1 - _DIGITS
    digits = np.rint(known / 10.0**exponents).astype(np.int64)
    starts = np.flatnonzero(np.diff(exponents, prepend=exponents[:1] + 1) | np.diff(np.sign(digits), prepend=2))
    steps = np.diff(digits, prepend=0)
    steps[starts] = 0
    counts = np.diff(starts, append=len(known))
    columns = (exponents[starts].tolist(), digits[starts].tolist(), counts.tolist())
    scales: list[tuple[int | None, int, int]] = list(zip(*columns, strict=True))
    unknown = len(values) - len(known)
    return scales + [(None, 0, unknown)] * (unknown > 0), np.pad(steps, (0, unknown))


def _power(numbers: Any) -> Any:
    """The powers of ten from which on positive numbers are."""
    return 10.0 ** np.floor(np.log10(numbers))

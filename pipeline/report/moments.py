"""What the page needs of covariances to compare areas and to add them up: small factors for each class of areas.

Covariances follow from the spec and the areas, not from any count. Those of all pairs of areas are far too many for a
page, but each is a sum of few products of factors of its two areas (`postprocess.linear.pairs`), and alike areas share
theirs. `moments.js` multiplies them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.report.chunks import Chunks
from pipeline.report.encoding import packed_lines, packed_numbers

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
#: Characters that a factor of its own takes at least, compressed: 7 digits are 23 bits.
_LEAST_CHARACTERS = 3

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TableMoments:
    """The factors of one table at one level, as `postprocess.linear.pairs.PairFactors` has them.

    Attributes:
        classes: `(n,)` class of each geounit.
        known: `(n_classes, size + 1)` USUAL, CERTAIN or UNKNOWN, of each answer and of their sum.
        nested, crossed, shared: see there.
        factors: `(n_blocks, F)` part of each block in an answer's variance, by its place on the symmetric attributes.
        sizes: `(F,)` symmetric cells of each; all of them together are `whole`.
        places: `(size,)` of each answer: row x F + place.
        at_once: standard errors to each side that hold the numbers of all geounits of the level at once.
    """

    classes: NDArray[np.int64]
    known: NDArray[np.int64]
    nested: Floats
    crossed: Floats
    shared: Floats
    factors: Floats
    sizes: Floats
    whole: float
    places: NDArray[np.int64]
    at_once: float


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

    def entry(self, moments: TableMoments) -> dict[str, object]:
        """What `moments.js` reads: small lists, and the numbers of chunks; None for those that do not fit."""
        several = moments.nested.shape[-1] > 1
        scale = _power(max(1.0, float(np.fmax.reduce(np.abs(moments.nested), axis=None, initial=0.0))))
        nothing, nothing_shared = _NOTHING * scale, _NOTHING_SHARED * math.sqrt(scale)
        return {
            "classes": self._kept(packed_numbers(moments.classes)),
            "known": self._kept(packed_numbers(moments.known)),
            "nested": self._kept(self._packed(moments.nested, nothing)),
            "crossed": self._kept(self._packed(moments.crossed, nothing)) if several else None,
            "shared": self._kept(self._packed(moments.shared, nothing_shared)) if moments.shared.size else None,
            "shape": list(moments.shared.shape[1:]),
            "factors": moments.factors.tolist(),
            "sizes": moments.sizes.tolist(),
            "whole": moments.whole,
            "places": moments.places.tolist(),
            "atOnce": moments.at_once,
        }

    def _kept(self, text: str | None) -> int | None:
        if text is None:
            return None
        if text not in self.by_text:
            if self.size + len(text) <= LARGEST:
                self.size += len(text)
                self.by_text[text] = self.chunks.add_in_page(text)
            elif len(text) <= _LARGEST_BESIDE:
                self.by_text[text] = self.chunks.add_beside([text])
            else:
                return None
        return self.by_text[text]

    def _packed(self, numbers: Floats, nothing: float) -> str | None:
        """Numbers of classes and levels above, `(n, levels, ...)`, as text; None where too many differ to fit.

        They are rounded beside the largest of their class and level, and what is smaller than `nothing` is 0, so that
        no processor shows in the digits.
        """
        axes = tuple(range(2, numbers.ndim))
        largest = np.fmax.reduce(np.abs(numbers), axis=axes, keepdims=True, initial=0.0)
        step = np.maximum(_power(np.maximum(largest, nothing)) * 10.0 ** (1 - _DIGITS), _power(nothing))
        values, places = np.unique((np.rint(numbers / step) * step).ravel() + 0.0, return_inverse=True)
        if _LEAST_CHARACTERS * len(values) > _LARGEST_BESIDE:
            return None
        texts = np.array([f"{value:.{_DIGITS}g}" for value in values.tolist()], dtype=object)
        return packed_lines(texts[places].tolist())


def _power(numbers: Any) -> Any:
    """The powers of ten from which on positive numbers are."""
    return 10.0 ** np.floor(np.log10(numbers))

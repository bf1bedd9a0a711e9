"""What is asked of a method by which a statistical office protects the numbers of its tables, each by itself.

A method is a value that says three things: what is published of true counts, what a published number allows the true
count to be, and what the method does to numbers that stand in for the truth. Whoever estimates from such tables,
judges a release beside them, or attacks them asks the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, Final, TypeAlias

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import BoolArray, FloatArray, IntArray

#: A key is a whole number from 0 to this, exclusive, and stands for that part of 1. It is a prime: a key that is
#: multiplied by a fixed number, and what is left of divided by it, is a key again, and sums of keys stay sums.
KEYS: Final = (1 << 31) - 1
#: The least and the most that each of some counts can be.
Range: TypeAlias = tuple[IntArray, IntArray]
#: Above all counts: the end of a range that has none.
UNBOUNDED: Final = 1 << 40


class DisclosureMethod(ABC):
    """How each number of a table is protected by itself.

    Attributes:
        by_records: whether the same records have the same error wherever they are counted: the key of a number is then
            the sum of the keys of the records that it counts, else each number has a key of its own.
        shakes: whether an estimate is `shaken` before it stands in for the truth.
    """

    by_records: ClassVar[bool] = False
    shakes: ClassVar[bool] = False

    @property
    @abstractmethod
    def variance(self) -> Fraction:
        """Of the error of a number, persons squared, exact. It does not depend on the number that was published.

        A number that was published as 0 is as uncertain as any other: who trusts it more has larger errors elsewhere.
        """

    @property
    @abstractmethod
    def large(self) -> int:
        """The published number from which on errors have mean 0 and the stated variance, whatever the count."""

    @abstractmethod
    def publish(self, counts: IntArray, keys: IntArray) -> IntArray:
        """The published numbers of true counts.

        Args:
            counts: at least 0, of any shape.
            keys: of the same shape, from 0 to `KEYS` exclusive.
        """

    @abstractmethod
    def allowed(self, published: IntArray) -> Range:
        """The least and the most that the true counts can be, whole numbers of the same shape, at least 0."""

    @abstractmethod
    def impossible(self, published: IntArray) -> BoolArray:
        """Which numbers are published of no count."""

    def shaken(self, counts: IntArray, generator: np.random.Generator) -> IntArray:
        """Cells of estimated leaves as they stand in for the truth in simulated publications.

        An estimate from rounded numbers lies in the middle of what they allow, so that rounding it again errs too
        little; where a method adds noise of its own, the estimate is taken as it is.
        """
        del generator
        return counts


def shares_of(keys: IntArray) -> FloatArray:
    """The parts of 1 that keys stand for, above 0 and below 1."""
    return np.asarray((keys + 0.5) / KEYS)


def keys_of(leaves: sp.csr_array, generator: np.random.Generator) -> sp.csr_array:
    """A key for the records of each cell of each leaf together `(n_leaves, n_cells)`; none where there are no records.

    The sum of the keys of one record or more is as evenly distributed as one key. Sums of these over cells and areas
    are the keys of larger numbers, once they are divided by `KEYS` and the rest is taken.
    """
    drawn = generator.integers(0, KEYS, len(leaves.data), dtype=np.int64)
    return sp.csr_array((drawn, leaves.indices, leaves.indptr), shape=leaves.shape)

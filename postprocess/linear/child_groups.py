"""Which parents have the same matrices: those that are measured alike, with the same zeros and alike children.

Their precisions and covariances are worked out once. With single years of age such a matrix has 91 x 91 numbers, and
seven thousand parents have some ten different ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.arrays import FloatArray, IntArray, members, owners


@dataclass(frozen=True, eq=False)
class ChildGroups:
    """The parents of a level in classes, with the children of one parent of each class.

    Attributes:
        classes: `(n,)` of each parent; numbered as they first occur.
        first: `(n_classes,)` the first parent of each class.
        children: `(n_classes, n_classes of the children)` how many children of which class it has.
    """

    classes: IntArray
    first: IntArray
    children: sp.csr_array

    @classmethod
    def of(cls, offsets: IntArray, below: IntArray, features: NDArray[np.generic], *, counted: bool) -> ChildGroups:
        """Groups of parents.

        Args:
            offsets: `(n + 1,)` the children of each parent.
            below: class of each child.
            features: `(n, m)` small whole numbers in which parents of one class do not differ.
            counted: alike children are counted; else sums are over the children one by one, in their order, so that
                they come out the same to the last bit however the classes are numbered.
        """
        keys = np.ascontiguousarray(features, dtype=np.int8)
        if counted:
            below = below[np.lexsort((below, owners(offsets)))]
        known: dict[tuple[bytes, bytes], int] = {}
        classes = np.empty(len(keys), dtype=np.int64)
        first: list[int] = []
        for i, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            key = keys[i].tobytes(), below[start:end].tobytes()
            number = known.setdefault(key, len(known))
            if number == len(first):
                first.append(i)
            classes[i] = number
        firsts = np.array(first, dtype=np.int64)
        of_first, starts = members(offsets, firsts)
        shape = (len(firsts), int(below.max(initial=-1)) + 1)
        children = sp.csr_array((np.ones(len(of_first)), below[of_first], starts), shape=shape)
        if counted:
            children.sum_duplicates()
        return cls(classes, firsts, children)


def summed_over(children: sp.csr_array, blocks: FloatArray) -> FloatArray:
    """Blocks `(n, ...)` of the children's classes, summed over the children of a parent of each class."""
    n_classes, n_below = children.shape
    return (children @ blocks[:n_below].reshape(n_below, -1)).reshape(n_classes, *blocks.shape[1:])

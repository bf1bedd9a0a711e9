"""Classes of areas by their number of people, and what pages call them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.message import marked
from postprocess.arrays import IntArray

#: Smallest number of people of each class. From 500 on these are the classes in which the US Census Bureau has
#: published errors of 2020 ("Data Metrics for 2020 Disclosure Avoidance", 25 March 2020: counties and places by
#: population); smaller areas are divided further.
SIZES = (0, 1, 50, 500, 1_000, 5_000, 10_000, 50_000, 100_000)
#: The same of coarser classes, for pages that show a release at a glance.
TENFOLD = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
#: All classes together.
ALL = marked("all")


def size_labels(texts: Texts, sizes: Sequence[int] = TENFOLD) -> tuple[str, ...]:
    """What classes of areas are called, whose smallest numbers of people are `sizes`, from 0 on."""
    between = (texts("{low} to {high}", low=low, high=high - 1) for low, high in itertools.pairwise(sizes[1:]))
    return (texts("empty"), *between, texts("{n} and more", n=sizes[-1]))


#: What data call those of `SIZES`; pages have the words of their language.
SIZE_LABELS = size_labels(Texts(), SIZES)


def size_classes(people: IntArray) -> IntArray:
    """`(n,)` number of the class in `SIZES` of areas with so many people `(n,)`, none below 0: sums are no people."""
    if (people < 0).any():
        raise ValueError("areas are classed by numbers of people, and some are below 0")
    return np.searchsorted(SIZES, people, side="right").astype(np.int64) - 1

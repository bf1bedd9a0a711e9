"""Classes of areas by their number of people.

From 500 on these are the classes in which the US Census Bureau has published errors of 2020 ("Data Metrics for 2020
Disclosure Avoidance", 25 March 2020: counties and places by population); smaller areas are divided further.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.message import marked
from pipeline.report.summaries import size_labels

#: Smallest number of people of each class.
SIZES = (0, 1, 50, 500, 1_000, 5_000, 10_000, 50_000, 100_000)
#: What data call them; pages have the words of their language.
SIZE_LABELS = size_labels(Texts(), SIZES)
#: All classes together.
ALL = marked("all")


def size_classes(people: NDArray[np.int64]) -> NDArray[np.int64]:
    """`(n,)` number of the class in `SIZES` of areas with so many people `(n,)`, none below 0: sums are no people."""
    if (people < 0).any():
        raise ValueError("areas are classed by numbers of people, and some are below 0")
    return np.searchsorted(SIZES, people, side="right").astype(np.int64) - 1

"""A village in memory: frames made by hand, and the spec that reads them."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
from releases.frames import SECTIONS

import spinewise as sw


@pytest.fixture
def spec() -> sw.Spec:
    return sw.Spec(**SECTIONS)


@pytest.fixture
def changed() -> Callable[..., sw.Spec]:
    """The spec with some sections in the place of its own."""
    return lambda **sections: sw.Spec(**{**SECTIONS, **sections})


@pytest.fixture
def blocks() -> pd.DataFrame:
    """The public list of areas; B03 is empty."""
    return pd.DataFrame({"block": ["A01", "A02", "B01", "B02", "B03"]})


@pytest.fixture
def persons() -> pd.DataFrame:
    """70 persons: block number i has 10 * (i + 1) of them, alternately of each sex, every third old."""
    rows = [
        (block, ("female", "male")[i % 2], "old" if i % 3 == 0 else "young")
        for number, block in enumerate(["A01", "A02", "B01"])
        for i in range(10 * (number + 1))
    ]
    rows += [("B02", "male", "old")] * 10
    return pd.DataFrame(rows, columns=["block", "sex", "age"])

"""Factors of covariances in the page: read back from its chunks they are the numbers, to seven digits."""

from __future__ import annotations

import base64
import gzip
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from features.report.moments import MomentChunks, MomentPacking, TableMoments
from pipeline.pages.chunks import Chunks

Floats = NDArray[np.float64]


def table(nested: Floats, shared: Floats | None = None) -> TableMoments:
    """Moments with these factors, `(n, levels, blocks, rows)` and `(n, levels, blocks, rows, a)`."""
    n, _, blocks, rows = nested.shape
    return TableMoments(
        classes=np.arange(n),
        known=np.zeros((n, 2), dtype=np.int64),
        nested=nested,
        crossed=nested[:, :, 0],
        shared=np.zeros((n, 0, blocks, rows, 1)) if shared is None else shared,
        factors=np.ones((blocks, 1)),
        sizes=np.ones(1),
        whole=1.0,
        places=np.zeros(1, dtype=np.int64),
        at_once=2.0,
    )


def entries(*tables: TableMoments) -> tuple[list[dict[str, Any]], Chunks]:
    """What the page has of some tables."""
    packing, kept = MomentPacking(), MomentChunks(Chunks())
    return [kept.entry(packing.packed(moments)) for moments in tables], kept.chunks


def whole(chunks: Chunks, number: int) -> list[int]:
    """Whole numbers of a chunk, as `decode.js` reads them."""
    data = gzip.decompress(base64.b64decode(chunks.in_page[number]))
    width, planes = data[0], data[1:]
    n = len(planes) // width
    return [sum(planes[plane * n + i] << (8 * plane) for plane in range(width)) for i in range(n)]


def floats(chunks: Chunks, stated: dict[str, Any]) -> Floats:
    """Numbers of chunks, as `moments.js` reads them."""
    steps = iter(whole(chunks, stated["steps"]))
    values: list[float] = []
    for power, first, n in stated["scales"]:
        digits = first
        for _ in range(n):
            digits += next(steps)
            values.append(float("nan") if power is None else float(Decimal(digits).scaleb(power)))
    return np.array([values[place] for place in whole(chunks, stated["places"])])


@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_read_back(seed: int) -> None:
    """Signs, zeros, unknown ones and all sizes; the error is half a unit of the seventh digit of the largest."""
    generator = np.random.default_rng(seed)
    numbers = generator.normal(size=(6, 3, 2, 4)) * 10.0 ** generator.integers(-3, 8, (6, 3, 1, 1))
    numbers[generator.random(numbers.shape) < 0.2] = 0.0
    numbers[0, 0] = np.nan
    numbers[1, 1, 0, 0] = np.nan
    numbers[2, 2] = np.array([1.0, 10.0, 99.99999, 99.999996, 100.0, -1.0, -9.9999996, 0.0]).reshape(2, 4)  # carried
    (entry,), chunks = entries(table(numbers, numbers[..., None]))
    scale = 10.0 ** np.floor(np.log10(np.nanmax(np.abs(numbers))))
    largest = np.fmax.reduce(np.abs(numbers), axis=(2, 3), keepdims=True, initial=0.0)
    digit = 10.0 ** (np.floor(np.log10(np.maximum(largest, 1e-300))) - 6)
    known = ~np.isnan(numbers)
    for key, nothing in (("nested", 1e-9 * scale), ("shared", 1e-8 * np.sqrt(scale))):
        found = floats(chunks, entry[key]).reshape(numbers.shape)
        assert np.array_equal(np.isnan(found), ~known)
        allowed = np.broadcast_to(0.5000001 * np.maximum(digit, nothing), numbers.shape)
        assert (np.abs(found - numbers)[known] <= allowed[known]).all()


def test_equal_tables_share_their_chunks() -> None:
    """A second table with the same rows adds nothing; one with other numbers does."""
    numbers = np.random.default_rng(3).normal(size=(4, 2, 1, 3))
    one, same, other = table(numbers), table(numbers.copy()), replace(table(numbers), nested=numbers + 1.0)
    found, chunks = entries(one, same)
    assert found[0] == found[1]
    before = len(chunks.in_page)
    found, chunks = entries(one, same, other)
    assert len(chunks.in_page) > before
    assert not np.array_equal(floats(chunks, found[2]["nested"]), floats(chunks, found[0]["nested"]))

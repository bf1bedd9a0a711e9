"""Keys of 16 bits, which the second program tries against each release, are few here, or made once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

import auditor.keys
from auditor.keys import SMALL_BITS, small_keys

_kept: list[bytes] = []


@pytest.fixture(scope="module", autouse=True)
def _small_keys_are_kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """Making and trying all takes most of the time of an audit of a small release; planted faults are found by all."""
    planting = request.module.__name__.endswith("test_mutations")

    def kept(bits: int = SMALL_BITS) -> Iterator[bytes]:
        if bits != SMALL_BITS:
            return small_keys(bits)
        if not planting:
            return islice(small_keys(bits), 64)
        if not _kept:
            _kept.extend(small_keys(bits))
        return iter(_kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditor.keys, "small_keys", kept)
        yield

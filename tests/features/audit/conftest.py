"""Keys of 16 bits, which the second program tries against each release, are made once for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import auditor.keys
from auditor.keys import SMALL_BITS, small_keys

_kept: list[bytes] = []


@pytest.fixture(scope="module", autouse=True)
def _small_keys_are_kept() -> Iterator[None]:
    """The same keys are tried; making them takes most of the time of an audit of a small release."""

    def kept(bits: int = SMALL_BITS) -> Iterator[bytes]:
        if bits != SMALL_BITS:
            return small_keys(bits)
        if not _kept:
            _kept.extend(small_keys(bits))
        return iter(_kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditor.keys, "small_keys", kept)
        yield

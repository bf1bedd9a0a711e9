"""Filters of words: as many bits as hashes, at the positions of the stated hash."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np

from features.local.collect.rappor import Rappor, positions

MECHANISM = Rappor(32, 3, 5, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))


def test_filters_have_as_many_bits_as_hashes_and_are_stated() -> None:
    found = MECHANISM.filters(("asthma", "", "ñ"))
    assert found.shape == (5, 3, 3)
    assert all(len(set(row)) == 3 for row in found.reshape(-1, 3).tolist())
    assert positions("asthma", 3, 32, 3) == tuple(found[3, 0].tolist())
    assert positions("asthma", 3, 128, 2) != positions("asthma", 4, 128, 2)
    assert set(positions("x", 0, 8, 8)) == set(range(8))


def test_positions_are_those_of_the_stated_hash() -> None:
    """As another language would compute it: no code of the project."""
    digest = hashlib.sha256(b"spinewise bloom 1\x003\x000\x00asthma").digest()
    numbers = [int.from_bytes(digest[8 * place : 8 * place + 8], "big") % 128 for place in range(4)]
    assert len(set(numbers)) == 4
    assert positions("asthma", 3, 128, 4) == tuple(sorted(numbers))
    small = replace(MECHANISM, bits=16, hashes=2, cohorts=2)
    used = np.bincount(small.filters(tuple(map(str, range(2_000)))).reshape(-1), minlength=16)
    assert np.abs(used / used.mean() - 1).max() < 0.15

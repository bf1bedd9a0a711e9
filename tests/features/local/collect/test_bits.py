"""Random whole numbers are exactly uniform if their bytes are."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from oracles.randomisers import Scripted

from features.local.collect.bits import KeyedBytes, SystemBytes, events, uniform_below

KEY = bytes(range(32))


@pytest.mark.parametrize("bound", [2, 3, 5, 7, 100, 255, 256])
def test_every_number_comes_from_as_many_bytes(bound: int) -> None:
    """All 256 bytes, once each: what is not rejected is spread evenly. A remainder would not be."""
    every = bytes(range(256))
    width = (bound - 1).bit_length()
    kept = sum(byte >> (8 - width) < bound for byte in every)
    drawn = uniform_below(bound, kept, Scripted(every, allow_short=True))
    assert set(Counter(drawn.tolist()).values()) == {256 // 2**width}
    assert sorted(set(drawn.tolist())) == list(range(bound))
    remainder = Counter(byte % bound for byte in every)
    assert (len(set(remainder.values())) == 1) == (256 % bound == 0)


def test_wide_numbers_use_all_their_bits() -> None:
    assert uniform_below(2**32, 1, Scripted(b"\x01\x02\x03\x04")).tolist() == [0x01020304]
    assert uniform_below(2**62, 1, Scripted(b"\xff" * 8)).tolist() == [2**62 - 1]
    assert uniform_below(3 * 2**40, 1, Scripted(b"\xff" * 8 + b"\x80" + b"\0" * 7)).tolist() == [2**41]
    assert uniform_below(1, 3, Scripted(b"")).tolist() == [0, 0, 0]


@pytest.mark.parametrize("bound", [0, -1, 2**62 + 1])
def test_bounds_out_of_range_are_refused(bound: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 2"):
        uniform_below(bound, 1, SystemBytes())


def test_a_keyed_stream_does_not_depend_on_how_it_is_taken() -> None:
    whole = KeyedBytes(KEY, ("a",)).take(200_000)
    pieces = KeyedBytes(KEY, ("a",))
    assert b"".join(pieces.take(size) for size in (1, 65_535, 65_537, 68_927)) == whole
    assert len({whole[start : start + 32] for start in range(0, len(whole), 32)}) == len(whole) // 32


def test_streams_of_other_keys_and_contexts_are_others() -> None:
    contexts: list[tuple[str, ...]] = [(), ("",), ("ab", "c"), ("a", "bc"), ("abc",), ("a", "b", "c")]
    taken = [KeyedBytes(KEY, context).take(32) for context in contexts]
    taken += [KeyedBytes(KEY + b"\0").take(32), KeyedBytes(KEY[:-1]).take(32)]
    assert len(set(taken)) == len(taken)
    with pytest.raises(ValueError, match="16 bytes"):
        KeyedBytes(b"short")


def test_bytes_of_the_system_differ() -> None:
    assert SystemBytes().take(32) != SystemBytes().take(32)
    assert np.unique(uniform_below(2**62, 100, SystemBytes())).size == 100


@pytest.mark.parametrize(
    "chance", [Fraction(n, d) for n, d in ((0, 1), (1, 1), (1, 2), (1, 3), (7, 10**12), (255, 257))]
)
def test_events_have_exactly_their_probability(chance: Fraction) -> None:
    """Of all first digits, of all second ones where the first decides nothing, and so on: their shares add up.

    What is left undecided after ten digits is less than 256^-9, and the sum differs from the probability by no more.
    """
    happened, weight, before = Fraction(0), Fraction(1), b""
    for _ in range(10):
        undecided = None
        for digit in range(256):
            try:
                happens = events(np.ones(1, dtype=bool), chance, Fraction(0), Scripted(before + bytes([digit])))
            except AssertionError:
                assert undecided is None, "one digit at most decides nothing"
                undecided = digit
            else:
                happened += weight / 256 * int(happens[0])
        weight /= 256
        if undecided is None:
            assert happened == chance
            return
        before += bytes([undecided])
    assert happened <= chance < happened + weight


def test_events_of_two_probabilities_are_kept_apart() -> None:
    likely = np.random.default_rng(1).random((400, 500)) < 0.3
    happens = events(likely, Fraction(9, 10), Fraction(1, 7), KeyedBytes(KEY))
    for chance, where in ((0.9, likely), (1 / 7, ~likely)):
        error = np.sqrt(chance * (1 - chance) / where.sum())
        assert abs(happens[where].mean() - chance) < 4 * error < 0.05 * chance

"""A stream is the published AES-256-CTR keystream, entered anywhere, never twice the same."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.privacy.noise.streams import STREAM_WORDS, Stream

# NIST SP 800-38A, F.5.5 CTR-AES256.Encrypt
KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
COUNTER = 0xF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
CIPHER = bytes.fromhex(
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
)
KEYSTREAM = bytes(a ^ b for a, b in zip(PLAIN, CIPHER, strict=True))


def test_words_are_the_published_keystream() -> None:
    words = Stream(KEY).words(2 * COUNTER, 8)
    assert words.dtype == np.uint64
    assert words.astype("<u8").tobytes() == KEYSTREAM


@pytest.mark.parametrize("start", range(8))
def test_seeking_enters_the_published_keystream_at_any_word(start: int) -> None:
    for count in range(9 - start):
        found = Stream(KEY).words(2 * COUNTER + start, count)
        assert found.astype("<u8").tobytes() == KEYSTREAM[8 * start : 8 * (start + count)]


@settings(max_examples=30)
@given(start=st.integers(0, 70_000), count=st.integers(0, 70_000))
def test_any_stretch_is_a_slice_of_the_whole(start: int, count: int) -> None:
    stream = Stream(KEY)
    assert np.array_equal(stream.words(start, count), stream.words(0, start + count)[start:])


def test_positions_reach_the_end_of_the_counter_and_no_further() -> None:
    stream = Stream(KEY)
    assert stream.words(STREAM_WORDS - 3, 3).size == 3
    assert stream.words(STREAM_WORDS, 0).size == 0
    for start, count in [(STREAM_WORDS - 2, 3), (STREAM_WORDS, 1), (-1, 2), (0, -1)]:
        with pytest.raises(ValueError, match="stream: found"):
            stream.words(start, count)
    with pytest.raises(ValueError, match="32 bytes"):
        Stream(KEY[:16])


def test_a_stream_hides_its_key() -> None:
    stream = Stream(KEY)
    assert repr(stream) == "Stream(hidden)"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(stream)

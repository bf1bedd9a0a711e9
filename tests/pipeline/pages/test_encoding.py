"""Numbers and text in a page come back as they were, by a decoder that shares nothing with the encoder."""

from __future__ import annotations

import base64
import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.pages.data import LARGEST_NUMBER, packed_lines, packed_numbers
from pipeline.pages.templates import script_json


def unpacked(text: str) -> list[int]:
    width, *planes = gzip.decompress(base64.b64decode(text))
    n = len(planes) // width
    return [sum(planes[plane * n + i] << 8 * plane for plane in range(width)) for i in range(n)]


@given(st.lists(st.integers(0, LARGEST_NUMBER), max_size=40), st.text())
def test_numbers_and_text_come_back(numbers: list[int], text: str) -> None:
    """A matrix row by row."""
    assert unpacked(packed_numbers(np.array(numbers, dtype=np.int64))) == numbers
    assert gzip.decompress(base64.b64decode(packed_lines([text]))).decode() == text
    assert gzip.decompress(base64.b64decode(packed_lines(["a", "b"]))) == b"a\nb"
    matrix = np.arange(60).reshape(20, 3)
    assert unpacked(packed_numbers(matrix.T)) == matrix.T.ravel().tolist()


def test_json_cannot_end_its_script() -> None:
    assert "<" not in script_json({"a": "</script><!--"})


@pytest.mark.parametrize("numbers", [[-1], [LARGEST_NUMBER + 1]])
def test_what_a_browser_cannot_hold_is_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="from 0 to 2"):
        packed_numbers(np.array(numbers))


def test_compressed_bytes_hold_no_time() -> None:
    """A gzip header may hold a time and an operating system; these would make every page another one."""
    header = base64.b64decode(packed_lines(["x"]))[:10]
    assert header[4:8] == b"\0\0\0\0"

"""Arrays as text in a page: whole numbers byte plane by byte plane, compressed, in base64.

The low bytes of all numbers come first, then the next bytes, and so on: most planes of a table of counts are nearly all
zero. The compression is that of pyarrow, whose version the manifest states, so that the same numbers give the same
text. `explorer.js` reads it back with the browser's own decompression.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from postprocess.arrays import IntArray

#: Whole numbers beyond this are not exact in a browser.
LARGEST = 2**53
_LEVEL = 4


def packed_numbers(numbers: IntArray) -> str:
    """Whole numbers from 0, of any shape, in C order; compressed, in base64.

    The first byte says how many bytes a number has.

    Raises:
        ValueError: a number is negative or larger than 2^53.
    """
    flat = np.ascontiguousarray(numbers, dtype="<i8").ravel()
    largest = int(flat.max()) if flat.size else 0
    if largest > LARGEST or (flat.size and int(flat.min()) < 0):
        raise ValueError(f"whole numbers from 0 to 2^53 can be packed, got {int(flat.min())} to {largest}")
    width = max(1, (largest.bit_length() + 7) // 8)
    planes = flat.view(np.uint8).reshape(-1, 8)[:, :width].T
    return _packed(bytes([width]) + np.ascontiguousarray(planes).tobytes())


def packed_lines(lines: Sequence[str]) -> str:
    """Lines of text, compressed, in base64."""
    return _packed("\n".join(lines).encode())


def _packed(data: bytes) -> str:
    codec = pa.Codec("gzip", compression_level=_LEVEL)  # one of its own: threads must not share one
    return base64.b64encode(codec.compress(data, asbytes=True)).decode("ascii")

"""Turns a chunk's geocodes into the leaves of the spine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.errors import RecordsError
from pipeline.model.memory_table import Source
from pipeline.records.columns import LEFT_OUT, MISSING, OUTSIDE, Distinct
from pipeline.records.problems import MistakeLog, quote
from postprocess.arrays import IntArray


class LeafReader:
    """Reads the column of geocodes: geocode -> the leaf's number in the spine.

    Geocodes are text. A column of whole numbers is taken only if every leaf of the spine is known by its number: all
    geocodes are digits, and no two are the same number, so that leading zeros can be put back in one way.
    """

    def __init__(self, spine: Spine, column: str, path: Source) -> None:
        self.spine = spine
        self.column = column
        self.path = path

    def read(self, column: pa.Array, first_row: int, log: MistakeLog) -> tuple[IntArray, Distinct]:
        """Number of each row's leaf, `(n_rows,)`, and the geocodes.

        It is `LEFT_OUT` where the spine leaves the leaf out, and else negative where it is noted in `log` as wrong.

        Raises:
            RecordsError: the column is neither text nor numbers that stand for geocodes.
        """
        distinct = Distinct.of(column)
        kind = distinct.values.type
        if pa.types.is_integer(kind):
            leaf_of_value = self._leaves_of_numbers(distinct.values)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            leaf_of_value = self._leaves_of_texts(distinct.values)
        elif pa.types.is_null(kind):
            leaf_of_value = np.full(len(distinct.values), MISSING, dtype=np.int64)
        else:
            raise RecordsError(
                f"{self.path}, column {self.column!r}: the geocodes are of type {kind}; write them as text, with "
                "their leading zeros"
            )
        leaves = distinct.spread(leaf_of_value)
        if leaves.size and leaves.min() < 0:
            outside, missing = np.flatnonzero(leaves == OUTSIDE), np.flatnonzero(leaves == MISSING)
            codes = distinct.first_found(outside)
            where = f"column {self.column!r}"
            log.add(
                where,
                "a geocode that is not a leaf of the spine",
                first_row + outside + 1,
                codes,
                lambda: self._allowed() + self._hint(codes),
            )
            log.add(where, "a missing geocode", first_row + missing + 1, (), self._allowed)
        return leaves, distinct

    def _leaves_of_texts(self, values: pa.Array) -> IntArray:
        codes = text_array(values)
        leaves = np.asarray(self.spine.find_leaves(codes), dtype=np.int64)
        found = np.where(leaves >= 0, leaves, np.where(codes == "", MISSING, OUTSIDE))
        texts = values.cast(pa.string()) if pa.types.is_string_view(values.type) else values
        with_nul = pc.fill_null(pc.match_substring(texts, "\0"), False).to_numpy(zero_copy_only=False)
        if with_nul.any():  # no geocode has one, and numpy has dropped those at the end
            found, codes = np.where(with_nul, OUTSIDE, found), np.where(with_nul, "", codes)
        if self.spine.left_out is not None and (unknown := np.flatnonzero(found == OUTSIDE)).size:
            there = self.spine.left_out.has(self.spine.n_levels - 1, codes[unknown])
            found[unknown[there]] = LEFT_OUT
        return found

    def _leaves_of_numbers(self, values: pa.Array) -> IntArray:
        numbers, leaf_of_number = self._numbered_leaves
        sought = pc.fill_null(values.cast(pa.int64(), safe=False), -1).to_numpy(zero_copy_only=False)
        place = np.minimum(np.searchsorted(numbers, sought), numbers.size - 1)
        missing = values.is_null().to_numpy(zero_copy_only=False)
        unknown = np.where(missing, MISSING, OUTSIDE)
        found = np.where(numbers[place] == sought, leaf_of_number[place], unknown)
        if self.spine.left_out is not None and self.spine.left_out.codes is None:
            found[found == OUTSIDE] = LEFT_OUT
        return found

    @cached_property
    def _numbered_leaves(self) -> tuple[IntArray, IntArray]:
        """The leaves' geocodes as whole numbers in order, and the leaf of each; those that are left out with them."""
        codes, left_out = self.spine.leaf_level.geocodes, self.spine.left_out
        if left_out is not None and left_out.codes is not None:
            codes = np.concatenate([codes, left_out.codes[-1]])
        start = f"{self.path}, column {self.column!r}: the geocodes are numbers, without their leading zeros, and the"
        digits = np.char.isdecimal(codes) & (np.char.str_len(codes) <= 18)
        if not digits.all():
            raise RecordsError(
                f"{start} geocode {quote(str(codes[~digits][0]))} of the spine cannot be distinguished from "
                "a number; write the column as text"
            )
        numbers = codes.astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        if (twin := np.flatnonzero(numbers[1:] == numbers[:-1])).size:
            code, other = (str(codes[order[twin[0] + i]]) for i in (0, 1))
            raise RecordsError(
                f"{start} geocodes {code!r} and {other!r} of the spine are the same number; write the column as text"
            )
        return numbers, np.where(order < self.spine.n_leaves, order, LEFT_OUT)

    def _allowed(self) -> str:
        codes = self.spine.leaf_level.geocodes
        some = ", ".join(quote(str(code)) for code in codes[:2])
        return f"allowed are the {codes.size:,} geocodes of level {self.spine.leaf_level.name!r}, such as {some}"

    def _hint(self, codes: Sequence[str]) -> str:
        """A hint where leading zeros seem to be missing, as spreadsheets drop them."""
        length = int(np.char.str_len(self.spine.leaf_level.geocodes).max())
        padded = np.array([code.zfill(length) for code in codes if "\0" not in code], dtype=np.str_)
        matches = np.flatnonzero(self.spine.find_leaves(padded) >= 0)
        if not matches.size:
            return ""
        return f" ({str(padded[matches[0]])!r} is one: were leading zeros lost?)"


def text_array(values: pa.Array) -> NDArray[np.str_]:
    """A text column as numpy text; null as the empty text."""
    if len(values) == 0:
        return np.zeros(0, dtype="<U1")
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if values.null_count == 0:
        wide = pa.types.is_large_string(values.type)
        _, offsets_buffer, text_buffer = values.buffers()
        offsets = np.frombuffer(offsets_buffer, dtype=np.int64 if wide else np.int32)
        offsets = offsets[values.offset : values.offset + len(values) + 1]
        length = int(offsets[1] - offsets[0])
        if length and np.all(np.diff(offsets) == length):
            text = np.frombuffer(text_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
            if text.max() < 128 and text.min() > 0:  # ASCII of one length, the common case: no detour over objects
                return text.view(f"S{length}").astype(f"U{length}")
    return np.array([value or "" for value in values.to_pylist()], dtype=np.str_)

"""Codes as arrays of text: conversion, and the checks that every list of codes has to pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from geography.errors import SpineError

#: How many offending codes an error message shows.
SHOWN = 3


def first_few(items: Sequence[object] | NDArray[Any], *, quoted: bool = True) -> str:
    """The first few of `items`, in quotes unless they are numbers, and how many more there are."""
    first = ", ".join(repr(str(item)) if quoted else str(item) for item in items[:SHOWN])
    return f"{first} and {len(items) - SHOWN:,} more" if len(items) > SHOWN else first


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """The number with its noun: "1 code", "2,000 codes"."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def strictly_increasing(codes: NDArray[np.str_]) -> bool:
    """True where each code is greater than the one before, by code point."""
    return bool((codes[1:] > codes[:-1]).all())


def check_level_names(names: Sequence[str]) -> None:
    """Raises SpineError unless each level has a name, and no two have the same."""
    if not names:
        raise SpineError("no levels are named; at least one is needed")
    for number, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise SpineError(f"level {number + 1} is named {name!r}; a name of at least one letter is needed")
        if name in names[:number]:
            raise SpineError(f"levels: the name {name!r} occurs twice in {', '.join(names)}; names must differ")


def check_lengths(codes: NDArray[np.str_], name: str, width: int) -> None:
    """Raises SpineError where a code does not have `width` characters."""
    lengths = np.strings.str_len(codes)
    if not (wrong := np.flatnonzero(lengths != width)).size:
        return
    examples = ", ".join(f"{str(codes[i])!r} ({lengths[i]})" for i in wrong[:SHOWN])
    hint = "; was a leading zero lost?" if (lengths[wrong] == width - 1).all() else ""
    raise SpineError(
        f"level {name!r}: {counted(len(wrong), 'code')} of the wrong length: {examples}"
        f"{', ...' if len(wrong) > SHOWN else ''}; each must have {width} characters{hint}"
    )


def check_nul(texts: Sequence[str], what: str) -> None:
    """Raises SpineError where a text has a NUL character: numpy drops those at the end, and codes would meet."""
    if rows := [row for row, text in enumerate(texts, 1) if "\0" in text]:
        raise SpineError(
            f"{what}: {counted(len(rows), 'text')} with a NUL character, in row {first_few(rows, quoted=False)}: "
            f"{first_few([texts[row - 1] for row in rows])}; no code or name may have one"
        )


def text_array(
    values: Sequence[str | None] | NDArray[np.str_], what: str, *, missing_allowed: bool = False
) -> NDArray[np.str_]:
    """`values` as a text array, missing ones as ""; SpineError where one is not text, or is empty and may not be."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        texts = values
    else:
        items = ["" if value is None or value != value else value for value in values]
        if not_text := [item for item in items if not isinstance(item, str)]:
            raise SpineError(
                f"{what}: {len(not_text):,} not text: {first_few(not_text, quoted=False)}; give codes as text, "
                "since numbers lose leading zeros"
            )
        check_nul(items, what)
        texts = np.array(items, dtype=np.str_)
    if not len(texts):
        raise SpineError(f"{what}: the list is empty; at least one is needed")
    if not missing_allowed and (empty := np.flatnonzero(texts == "")).size:
        rows = first_few(empty + 1, quoted=False)
        raise SpineError(f"{what}: {len(empty):,} empty, in row {rows}; each row needs a code")
    return texts


def text_column(column: pa.ChunkedArray, name: str) -> pa.Array:
    """The column as text without nulls; SpineError where it holds neither text nor whole numbers, or a NUL."""
    held = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(held) or pa.types.is_large_string(held) or pa.types.is_null(held)
    if not is_text and not pa.types.is_integer(held):
        raise SpineError(f"level {name!r}: the column holds {held}; codes must be text or whole numbers")
    text = pc.fill_null(pc.cast(column, pa.string()), "")
    if pc.any(pc.match_substring(text, "\0")).as_py():
        check_nul(text.to_pylist(), f"level {name!r}")
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text

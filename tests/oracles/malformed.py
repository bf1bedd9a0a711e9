"""Hypothesis strategies that spoil good inputs: specs by key or by character, tables by cell or byte, summary files."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

#: Texts that have a meaning somewhere, in places where they have none.
_TEXTS = (
    "", " ", "total", "detailed", "total * total", "age * sex", "age*age", "1/0", "-1/2", "0", "1e400", "1e-400", "nan",
    "inf", "٣", "1/3", "99999999999999999999/7", "../..", "/", "/dev/null", "persons.csv", "blocks.csv",
    "insecure-test:x", "insecure-test:" + "9" * 30, "a\x00b", "\x7f", "é", "state", "block", "county", "zcdp", "pure",
    "pl94-2020-us", "pl94-2020-us-units", "{age}", "{", "a - b + c", "wide", "long", "x" * 300, "geocode", "count",
    "CON", "null",
)  # fmt: skip
_scalars = st.one_of(
    st.sampled_from(_TEXTS),
    st.text(max_size=12),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 120),
    st.floats(),
    st.booleans(),
)
junk = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_TEXTS), inner, max_size=3),
    max_leaves=6,
)
Place = tuple[str | int, ...]


def places(content: Any, at: Place = ()) -> list[Place]:
    """Every key and list position of a TOML document."""
    found = [at] if at else []
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for name, value in items:
        found += places(value, (*at, name))
    return found


def toml(content: dict[str, Any]) -> str:
    """A document as TOML, its tables in line."""
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in content.items())


def _key(name: object) -> str:
    text = str(name)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _text(text)


def _text(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    return re.sub(r"\x7f", r"\\u007f", json.dumps(text, ensure_ascii=False))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return (
            repr(value)
            if math.isfinite(value)
            else {True: "inf", False: "-inf"}.get(value > 0, "nan")
            if value == value
            else "nan"
        )
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return "{ " + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in value.items()) + " }"


@st.composite
def spec_texts(draw: Callable[..., Any], good: str) -> str:
    """A spec with one to three keys replaced, removed, renamed or added; or with characters changed."""
    if draw(st.integers(0, 4)) == 0:
        return draw(changed_texts(good))
    content = tomllib.loads(good)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(content)))
        inside = content
        for part in place[:-1]:
            inside = inside[part]
        what = draw(st.sampled_from(["replace", "replace", "remove", "rename", "add"]))
        _change(draw, inside, place[-1], what)
    return toml(content)


def _change(draw: Callable[..., Any], inside: Any, name: Any, what: str) -> None:
    if what == "replace":
        inside[name] = draw(junk)
    elif what == "remove":
        del inside[name]
    elif isinstance(inside, list):
        inside.insert(name, draw(junk) if what == "add" else inside[name])
    elif what == "rename":
        inside[draw(st.sampled_from(_TEXTS) | st.text(max_size=6))] = inside.pop(name)
    else:
        inside[draw(st.sampled_from(_TEXTS) | st.sampled_from(["file", "levels", "share", "columns", "values"]))] = (
            draw(junk)
        )


@st.composite
def changed_texts(draw: Callable[..., Any], good: str) -> str:
    """A text with some characters replaced, removed or put in."""
    text = good
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(0, len(text) - 1)))
        length = draw(st.sampled_from([0, 1, 1, 2, 10, 200]))
        put = draw(
            st.sampled_from(['"', "[", "]", "=", "\n", ",", "{", "'", "#", "", ".", "0", "-", "\x00", "\ud7ff"])
            | st.text(max_size=4)
        )
        text = text[:start] + put + text[start + length :]
    return text


@st.composite
def changed_bytes(draw: Callable[..., Any], good: bytes) -> bytes:
    """A file with bytes replaced, removed, put in, said twice or cut off."""
    content = good
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(0, len(content) - 1)))
        length = draw(st.sampled_from([0, 1, 1, 3, 30, 1000]))
        put = draw(
            st.sampled_from([b"", b",", b"|", b"\n", b"\r", b'"', b"\xff", b"\x00", b"-", b".", b"9" * 20, b" ", b"x"])
            | st.binary(max_size=6)
            | st.just(content[start : start + 60])
        )
        content = content[:start] + put + content[start + length :]
    return content


@st.composite
def changed_cells(draw: Callable[..., Any], good: bytes, separator: str) -> bytes:
    """A text table with fields, or whole lines, replaced, removed or repeated."""
    lines = [line.split(separator) for line in good.decode("latin-1").splitlines()]
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        row = draw(st.integers(0, len(lines) - 1))
        what = draw(st.sampled_from(["field", "field", "field", "remove", "twice", "cut", "swap"]))
        if what == "field" and lines[row]:
            field = draw(st.integers(0, len(lines[row]) - 1))
            value = draw(
                st.sampled_from([*_TEXTS, "-1", "1.5", "1e9", "99999999999999999999", "NaN", "007"])
                | st.text(max_size=5)
            )
            lines[row][field] = value
        elif what == "remove":
            del lines[row]
        elif what == "twice":
            lines.insert(row, list(lines[row]))
        elif what == "cut":
            lines[row] = lines[row][: draw(st.integers(0, len(lines[row])))]
        else:
            lines[row] = lines[row][::-1]
    return "\n".join(separator.join(line) for line in [*lines, [""]]).encode("utf-8", "replace")

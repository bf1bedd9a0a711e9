"""TOML that users give by an option, and pieces of its text for specs that they will edit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.storage.paths import TomlError, parse_toml, read_toml_text

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WIDTH = 118


def read_toml_of(option: str, path: Path) -> dict[str, Any]:
    """The content of a file that an option names; InputError, with both, where it cannot be read."""
    try:
        return parse_toml(read_toml_text(path))
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be read ({error.strerror or error})") from None
    except (TomlError, UnicodeDecodeError) as error:
        raise InputError(f"{option} {path}: is not a TOML file: {error}") from None


def quoted(text: str) -> str:
    """A TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """A TOML key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else quoted(name)


def exact(number: Fraction) -> str:
    """A number of the budget, in quotes."""
    return quoted(str(number))


def assigned(name: str, value: str, comment: str = "") -> str:
    """`name = value`, with a comment in a column of its own."""
    line = f"{key(name)} = {value}"
    return f"{line:<43} # {comment}" if comment else line


def listed(name: str, values: Sequence[str]) -> str:
    """`name = ["a", "b"]`, wrapped."""
    lines, line = [], f"{key(name)} = ["
    for value in values:
        piece = f"{quoted(value)}, "
        if len(line) + len(piece) > _WIDTH and line.strip():
            lines.append(line.rstrip())
            line = "    "
        line += piece
    return "\n".join([*lines, line.rstrip().removesuffix(",") + "]"])


def table_inline(name: str, entries: Mapping[str, str]) -> str:
    """`name = { a = "x" }` on one line: TOML allows no line breaks there."""
    return f"{key(name)} = {{ {', '.join(f'{key(k)} = {quoted(v)}' for k, v in entries.items())} }}"


def commented(text: str) -> str:
    """Lines of comment; control characters, which TOML does not allow there, are replaced."""
    return "\n".join(f"# {_CONTROL.sub('?', line)}".rstrip() for line in text.strip().splitlines())


def filled(template: str, **parts: Sequence[str]) -> str:
    """The template with the lines of each part in the place of its `$name`; without lines, nothing stands there."""
    lines: list[str] = []
    for line in template.strip("\n").splitlines():
        lines += parts[line[1:]] if line.startswith("$") else [line]
    return "\n".join(lines).rstrip() + "\n"


def shares(values: Mapping[str, Fraction]) -> list[str]:
    """A line for each share."""
    return [assigned(name, exact(value)) for name, value in values.items()]

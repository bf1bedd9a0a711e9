"""Names of areas, for people: public words that no count, seed or noise depends on."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.model.labels import in_language


@dataclass(frozen=True, eq=False)
class LevelNames:
    """The names of a level's geounits, in the spine's order.

    Attributes:
        by_language: language -> `(n,)` text; "" is the language that is not stated.
    """

    by_language: Mapping[str, pa.Array]

    def in_language(self, language: str = "") -> list[str]:
        """The names `(n,)` in the language that is nearest to the one asked for."""
        return list(in_language(self.by_language, language).to_pylist())


#: Areas of a reader's own: geocodes or names of one of them, or of each by what it is called.
Areas = Sequence[str] | Mapping[str, Sequence[str]]
#: Level -> its names.
AreaNames = Mapping[str, LevelNames]


def folded(name: str) -> str:
    """The name as it is compared: without case, marks of direction, and differences of blanks and composition."""
    plain = "".join(one for one in unicodedata.normalize("NFKC", name) if unicodedata.category(one) != "Cf")
    return " ".join(plain.casefold().split())


def as_cell(text: str) -> str:
    """The text for a CSV file: what a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text

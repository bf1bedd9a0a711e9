"""The areas as a release publishes them: the spine, one row a leaf and one column a level; and the areas' names.

Names have a file for each level that has some: geocode and a column for each language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geography.build import spine_from_table
from geography.spine import Spine
from pipeline.errors import ReleaseError, SpineError
from pipeline.model.area_names import LevelNames
from pipeline.release.form import TEXT, Form, open_form
from pipeline.storage.files import open_parquet, read_header, reading, strings, write_parquet
from pipeline.storage.paths import Readable

#: Column of the names whose language is not stated.
NAME = "name"


def write_spine(target: Path, staging: Path, spine: Spine) -> None:
    """Write the spine as one row a leaf, one column a level."""
    write_parquet(target, spine.to_table(), staging, {"kind": "spine"})


def read_public_spine(path: Readable, level_names: Sequence[str]) -> Spine:
    """The spine written by `write_spine`; ReleaseError where the file is damaged."""
    with open_parquet(path) as file, reading(path):
        if read_header(file, path) != {"kind": "spine"}:
            raise ReleaseError(f"{path} is not the spine of a release")
        table = file.read()
    try:
        return spine_from_table(table, level_names)
    except SpineError as error:
        raise ReleaseError(f"{path} is damaged: {error}") from None


def name_column(language: str) -> str:
    """The column of the names in a language: "name", or "name:es"."""
    return f"{NAME}:{language}" if language else NAME


def _names_form(level: str, languages: Iterable[str]) -> Form:
    columns = dict.fromkeys(("geocode", *map(name_column, languages)), TEXT)
    return Form("a file of names", {"kind": "names", "level": level}, columns, nullable=list(columns))


def write_names(target: Path, staging: Path, level: str, geocodes: NDArray[np.str_], names: LevelNames) -> None:
    """Write the names of a level's areas `(n,)`, in the order of the spine."""
    form = _names_form(level, names.by_language)
    table = pa.table([strings(geocodes), *names.by_language.values()], schema=form.schema)
    write_parquet(target, table, staging, form.header)


def read_public_names(path: Readable, level: str, geocodes: NDArray[np.str_], languages: Sequence[str]) -> LevelNames:
    """The names written by `write_names`; ReleaseError where they are not those of the level's areas."""
    with open_form(path, _names_form(level, languages), len(geocodes)) as file:
        table = file.whole()
        if any(column.null_count for column in table.columns) or table["geocode"].to_pylist() != geocodes.tolist():
            raise file.damaged(f"it does not name the areas of level {level!r} in the spine's order")
    return LevelNames({one: table[name_column(one)].combine_chunks() for one in languages})


def names_fingerprint(names: LevelNames) -> str:
    """SHA-256 of languages and names, in hexadecimal."""
    digest = hashlib.sha256()
    for language, column in names.by_language.items():
        for text in (language, *column.to_pylist()):
            digest.update(text.encode() + b"\0")
    return digest.hexdigest()

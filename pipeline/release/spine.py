"""The spine as a release publishes it: one row a leaf, one column a level."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from geography.build import spine_from_table
from geography.spine import Spine
from pipeline.errors import ReleaseError, SpineError
from pipeline.storage.files import open_parquet, read_header, reading, write_parquet


def write_spine(target: Path, staging: Path, spine: Spine) -> None:
    """Write the spine as one row a leaf, one column a level."""
    write_parquet(target, spine.to_table(), staging, {"kind": "spine"})


def read_public_spine(path: Path, level_names: Sequence[str]) -> Spine:
    """The spine written by `write_spine`; ReleaseError where the file is damaged."""
    with open_parquet(path) as file, reading(path):
        if read_header(file, path) != {"kind": "spine"}:
            raise ReleaseError(f"{path} is not the spine of a release")
        table = file.read()
    try:
        return spine_from_table(table, level_names)
    except SpineError as error:
        raise ReleaseError(f"{path} is damaged: {error}") from None

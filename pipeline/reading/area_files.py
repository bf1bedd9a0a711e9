"""Areas of one's own, as a file lists their geocodes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pipeline.errors import InputError


def areas_of_file(file: Path) -> dict[str, list[str]]:
    """Area -> geocodes of a CSV file with the columns area and geocode, in the order of first appearance.

    Raises:
        InputError: it cannot be read, or lacks a column.
    """
    try:
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    except OSError as error:
        raise InputError(f"--areas {file}: cannot be read ({error.strerror or error})") from None
    except (ValueError, UnicodeDecodeError):
        raise InputError(f"--areas {file}: is no CSV file; one with the columns area and geocode is needed") from None
    if missing := [name for name in ("area", "geocode") if name not in frame.columns]:
        raise InputError(f"--areas {file}: no column {missing[0]!r}; its columns are {', '.join(frame.columns)}")
    return {str(name): part["geocode"].tolist() for name, part in frame.groupby("area", sort=False)}

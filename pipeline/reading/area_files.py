"""Areas of one's own, or off the spine, as a file lists their geocodes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.errors import InputError
from pipeline.model.area_names import folded
from pipeline.storage.paths import local_name

#: The two forms of a list: by areas of one's own, and as `[geography.regroup]` has places and reservations.
_OWN, _OFF_SPINE = ("area", "geocode"), ("kind", "code", "geocode")


def areas_of_file(file: Path) -> dict[str, list[str]]:
    """Area -> geocodes of a CSV or Parquet file, in the order of first appearance.

    The file has the columns area and geocode; or, of areas off the spine, kind, code, geocode, and a name if there is
    one. These are called "Providence (place 4459000)".

    Raises:
        InputError: it cannot be read, lacks a column, or has two names for an area off the spine.
    """
    try:
        if file.suffix == ".parquet":
            frame = pd.read_parquet(local_name(file)).astype("string").fillna("")
        else:
            frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    except OSError as error:
        raise InputError(f"--areas {file}: cannot be read ({error.strerror or error})") from None
    except (ValueError, UnicodeDecodeError):
        raise InputError(
            f"--areas {file}: is no CSV or Parquet file; one with the columns area and geocode is needed"
        ) from None
    form = _OFF_SPINE if "area" not in frame.columns and "kind" in frame.columns else _OWN
    if missing := [name for name in form if name not in frame.columns]:
        raise InputError(f"--areas {file}: no column {missing[0]!r}; its columns are {', '.join(frame.columns)}")
    keys = frame["area"] if form is _OWN else _off_spine(file, frame)
    parts = frame["geocode"].groupby(keys.to_numpy(), sort=False)
    return {str(name): [str(code) for code in part] for name, part in parts}


def picked(areas: Mapping[str, list[str]], wanted: Sequence[str], file: Path) -> dict[str, list[str]]:
    """Those of a file's areas that are called so: by all that they are called, by name, or by kind and code.

    Case and blanks do not count.

    Raises:
        InputError: none is called so, or several are.
    """
    found = {}
    for text in wanted:
        same = [name for name in areas if folded(text) in {folded(part) for part in (name, *_parts(name))}]
        if len(same) != 1:
            close = difflib.get_close_matches(text, [part for name in areas for part in (name, *_parts(name))], n=1)
            hint = f": {', '.join(same[:5])}" if same else f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"--area: {len(same) or 'none'} of the areas of {file} are called {text!r}{hint}")
        found[same[0]] = areas[same[0]]
    return found


def _parts(name: str) -> tuple[str, ...]:
    """ "Providence (place 4459000)" -> "Providence", "place 4459000"."""
    own, bracket, code = name.removesuffix(")").partition(" (")
    return (own, code) if bracket and name.endswith(")") else ()


def _off_spine(file: Path, frame: pd.DataFrame) -> pd.Series[str]:
    """What the area of each row is called."""
    code = frame["kind"] + " " + frame["code"]
    if "name" not in frame.columns:
        return code
    names = frame["name"].str.strip()
    several = names.groupby(code.to_numpy(), sort=False).unique()
    if (twice := several[several.map(len) > 1]).size:
        first: Sequence[str] = twice.iloc[0]
        raise InputError(
            f"--areas {file}: area {twice.index[0]!r} has two names: {first[0]!r} and {first[1]!r}; one is allowed"
        )
    return (names + " (" + code + ")").where(names != "", code)

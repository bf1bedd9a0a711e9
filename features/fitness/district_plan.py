"""A plan of districts, as a CSV file assigns the geounits of the lowest level to them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from geography.codes import counted, first_few
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.storage.small_files import read_small

#: Bytes of a plan: a line of 60 for each of ten million blocks, and more.
_LONGEST: Final = 1 << 30


@dataclass(frozen=True, eq=False)
class DistrictPlan:
    """Districts made of leaves.

    Attributes:
        source: the file.
        names: of the districts, sorted.
        district: `(n_leaves,)` number of the district of each leaf.
    """

    source: str
    names: tuple[str, ...]
    district: NDArray[np.int64]

    def sums(self, numbers: NDArray[np.generic]) -> NDArray[np.generic]:
        """Numbers of leaves `(n_leaves, ...)` added up by district."""
        out = np.zeros((len(self.names), *numbers.shape[1:]), dtype=numbers.dtype)
        np.add.at(out, self.district, numbers)
        return out


def read_plan(path: Path, spine: Spine) -> DistrictPlan:
    """Read a plan: a header, then a row for each leaf with its geocode and its district.

    The first column has the geocodes and the second the districts, whatever they are called.

    Raises:
        InputError: it cannot be read, a row is wrong, or a leaf is missing; the message names file, line and code.
    """
    try:
        text = read_small(path, _LONGEST).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except OSError as error:
        raise InputError(f"--plan {path}: cannot be read ({error.strerror or error})") from None
    except (UnicodeDecodeError, csv.Error):
        raise InputError(
            f"--plan {path}: is no CSV file in UTF-8; one with a geocode and a district is needed"
        ) from None
    found: dict[str, tuple[str, int]] = {}
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) != 2 or not row[0].strip() or not row[1].strip():
            raise InputError(
                f"--plan {path}: line {line}: found {','.join(row)!r}; a geocode and a district are needed"
            )
        code, name = row[0].strip(), row[1].strip()
        if code in found:
            raise InputError(f"--plan {path}: line {line}: {code!r} has a district already, in line {found[code][1]}")
        found[code] = (name, line)
    return _resolved(path, found, spine)


def _resolved(path: Path, found: dict[str, tuple[str, int]], spine: Spine) -> DistrictPlan:
    codes = np.array(list(found), dtype=np.str_)
    level = spine.leaf_level.name
    if not found:
        raise InputError(f"--plan {path}: has no rows; one for each {level} is needed, below a header")
    leaves = spine.find_leaves(codes)
    if (leaves < 0).any():
        strange = str(codes[leaves < 0][0])
        raise InputError(
            f"--plan {path}: line {found[strange][1]}: {strange!r} is no {level} of the release, whose codes are like "
            f"{spine.leaf_level.geocodes[0]}"
        )
    missing = np.ones(spine.n_leaves, dtype=np.bool_)
    missing[leaves] = False
    if missing.any():
        left = spine.leaf_level.geocodes[missing]
        raise InputError(
            f"--plan {path}: {counted(len(left), level, f'geounits of level {level}')} without a district: "
            f"{first_few(left)}; every one of the release needs a row"
        )
    names = tuple(sorted({name for name, _ in found.values()}))
    number = {name: place for place, name in enumerate(names)}
    district = np.zeros(spine.n_leaves, dtype=np.int64)
    district[leaves] = [number[name] for name, _ in found.values()]
    return DistrictPlan(str(path), names, district)

"""Counts of facilities as a release publishes them: one row a geounit, one column for each answer that is bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.model.universe import Bound
from pipeline.release.form import TEXT, WHOLE, Form, open_form
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray


def _form(bound: Bound) -> Form:
    labels = bound.query.answer_labels()
    header = {
        "kind": "constraint",
        "name": bound.name,
        "level": bound.level,
        "query": bound.query.name,
        "persons_each": [bound.lower, bound.upper],
    }
    columns = {"geocode": TEXT, **{labels[answer]: WHOLE for answer in sorted(bound.columns)}}
    return Form(f"a file of the bound {bound.name!r}", header, columns)


def write_facilities(
    target: Path, staging: Path, bound: Bound, geocodes: NDArray[np.str_], facilities: IntArray
) -> None:
    """Write the number of facilities in each geounit, one column an answer."""
    with _form(bound).writer(target, staging) as out:
        out.add(geocodes, *facilities.T)


def read_public_facilities(path: Readable, bound: Bound, geocodes: NDArray[np.str_]) -> IntArray:
    """The facilities written by `write_facilities`; ReleaseError where they are of others."""
    facilities = read_numbers_of_level(path, _form(bound), geocodes).astype(np.int64, copy=False)
    if (facilities < 0).any():
        raise ReleaseError(f"{path} is damaged: it has a negative number of facilities")
    return facilities


def read_numbers_of_level(path: Readable, form: Form, geocodes: NDArray[np.str_]) -> NDArray[Any]:
    """The numbers `(n, k)` of a file with a row for each geounit of a level, whose first column is the geocode.

    Raises:
        ReleaseError: it is of another form, or has rows of other geounits.
    """
    with open_form(path, form, rows=len(geocodes)) as file:
        return np.concatenate([np.stack(columns, axis=1) for _, *columns in file.groups(geocodes)])

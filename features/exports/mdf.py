"""The microdata detail file as CSV with the column names and codes of the 2020 Census redistricting data.

One row a person with SCHEMA_TYPE_CODE, SCHEMA_BUILD_ID, the parts of the block's geocode, EPNUM, RTYPE, GQTYPE_PL,
VOTING_AGE, CENHISP, CENRACE, and one a housing unit with RTYPE and HH_STATUS. What a release does not have is "9", not
produced. Source: the Bureau's published production code (DAS_2020_Redistricting_Production_Code, writers of the MDF).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from features.exports.pl94171 import VALUES, value_order
from pipeline.errors import InputError
from pipeline.model.schema import Schema

#: Attribute -> column -> code of each value, in the order of 2020.
_PERSON: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "hhgq": {"RTYPE": "35555555", "GQTYPE_PL": "01234567"},
    "votingage": {"VOTING_AGE": "12"},
    "hispanic": {"CENHISP": "12"},
    "cenrace": {"CENRACE": [f"{number:02d}" for number in range(1, 64)]},
}
_UNIT: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {"status": {"RTYPE": "22", "HH_STATUS": "12"}}
_PARTS: Final = {
    "TABBLKST": (0, 2),
    "TABBLKCOU": (2, 5),
    "TABTRACTCE": (5, 11),
    "TABBLKGRPCE": (11, 12),
    "TABBLK": (11, 15),
}
_NOT_PRODUCED: Final = "9"
_NO_NUMBER: Final = "999999999"


class DetailFile:
    """Turns released leaves into the rows of one kind of detail file.

    Args:
        schema: of the universe.
        attributes: name of each attribute in the schema -> the attribute of 2020 that it is.
        kind: "person" or "unit".
    """

    def __init__(self, schema: Schema, attributes: Mapping[str, str], kind: str) -> None:
        self.is_person = kind == "person"
        layout = _PERSON if self.is_person else _UNIT
        self._constant = {"SCHEMA_TYPE_CODE": "MPD" if self.is_person else "MUD", "SCHEMA_BUILD_ID": "1.1.0"}
        self._codes: dict[str, NDArray[np.str_]] = {}
        cells = schema.cell_codes()
        for number, attribute in enumerate(schema.attributes):
            if attribute.name not in attributes:
                continue
            of_2020 = attributes[attribute.name]
            order = value_order(attribute, VALUES[of_2020])
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            for column, codes in layout[of_2020].items():
                self._codes[column] = np.array(list(codes))[place][cells[:, number]]
        self._columns = [column for coded in layout.values() for column in coded]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        number = ("EPNUM",) if self.is_person else ()
        return (*self._constant, *_PARTS, *number, *self._columns)

    def rows(self, geocodes: NDArray[np.str_], counts: sp.csr_array) -> pa.Table:
        """One row for each person or unit of these leaves, in the order of leaves and cells."""
        leaves = np.repeat(np.repeat(np.arange(len(geocodes)), np.diff(counts.indptr)), counts.data)
        cells = np.repeat(counts.indices, counts.data)
        text = geocodes[leaves].tolist()
        n = len(cells)
        columns = {name: pa.array([value] * n, pa.string()) for name, value in self._constant.items()}
        for name, (start, stop) in _PARTS.items():
            columns[name] = pa.array([code[start:stop] for code in text], pa.string())
        columns["EPNUM"] = pa.array([_NO_NUMBER] * n, pa.string())
        for name in self._columns:
            codes = self._codes.get(name)
            values = [_NOT_PRODUCED] * n if codes is None else codes[cells].tolist()
            columns[name] = pa.array(values, pa.string())
        return pa.table({name: columns[name] for name in self.columns})


def person_attributes(schema: Schema) -> dict[str, str]:
    """Which attributes of the release's own universe are those of 2020, by name.

    Raises:
        InputError: none is, or one has other values; or there are further ones, which the layout has no column for.
    """
    others = [name for name in schema.names if name not in _PERSON]
    if others or not schema.names:
        raise InputError(
            f"--format mdf: the attribute {', '.join(others)} has no column in the layout of 2020, whose attributes "
            f"are {', '.join(_PERSON)}; --format csv writes any release's microdata"
        )
    for attribute in schema.attributes:
        value_order(attribute, VALUES[attribute.name])
    return {name: name for name in schema.names}


def unit_attributes(schema: Schema) -> dict[str, str]:
    """The attribute that distinguishes occupied from vacant units; empty where the universe is not of housing units."""
    if len(schema.attributes) == 1 and set(schema.attributes[0].values) == set(VALUES["status"]):
        return {schema.attributes[0].name: "status"}
    return {}

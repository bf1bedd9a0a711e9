"""Values such as "Total" in a table with a row a cell: their rows count everybody once more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from features.imports.tables.level_names import folded, words
from features.imports.tables.readings import read_counts
from features.imports.tables.table_file import TableFile
from pipeline.errors import InputError

_TOTAL_WORDS = words(
    "total totals all _t t insgesamt gesamt zusammen ensemble both both_sexes all_ages all_persons ambos "
    "totale totaal totalt sum yhteensa ogolem celkem osszesen both_genders"
)
_LEAST_VALUES = 3


def check_total_values(file: TableFile, leaf: str, count: str, attributes: Sequence[str]) -> None:
    """InputError where in every leaf the rows of one value of an attribute add up to those of all others."""
    counts = read_counts(file, [count])[:, 0]
    parts = [pd.DataFrame(chunk, dtype="category") for chunk in _texts(file, [leaf, *attributes])]
    rows = pd.concat([part.astype(object) for part in parts], ignore_index=True).assign(_count=counts)
    for name in attributes:
        cells = rows.groupby([leaf, name])["_count"].sum().unstack(fill_value=0)
        whole = cells.sum(axis=1)
        for value in cells.columns:
            is_sum = bool(np.array_equal(2 * cells[value], whole)) and bool(cells[value].any())
            if is_sum and (folded(str(value)) in _TOTAL_WORDS or len(cells.columns) > _LEAST_VALUES):
                raise InputError(
                    f"{file}: column {name!r}: the rows with {value!r} are the sum of the others in every area, so "
                    f'that everybody would be counted twice; leave them out, as with duckdb: and --query "select * '
                    f"from '{file.path.name}' where {name} <> '{value}'\", or give the number of people that is right "
                    "as --people"
                )


def _texts(file: TableFile, names: Sequence[str]) -> list[dict[str, list[str]]]:
    return list(file.texts(names))

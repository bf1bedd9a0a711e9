"""Towns whose persons are spread over many measured answers: only the detail is measured, on three levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.release.layout import RunDirectory

SPEC = """name = "spread-town"

[privacy]
rho = "{rho}"
key = "insecure-test:{key}"

[geography]
file = "leaves.csv"
column = "leaf"
levels = {{ country = 1, area = 2, leaf = 5 }}

[schema.attributes]
{attributes}

{recodes}

[strategy.queries]
detailed = "1"

[strategy.levels]
country = "1/3"
area = "1/3"
leaf = "1/3"

[input]
file = "persons.csv"
form = "long"
geocode = "leaf"
count = "count"

[tables]
{tables}

[publish]
replicates = 4
unbiased = true
microdata = false
"""


def codes_of_leaves(leaves: int) -> list[str]:
    """So many leaves in three areas."""
    return [f"{area:02d}{leaf:03d}" for area in range(3) for leaf in range(leaves // 3)]


def write_spread(
    folder: Path,
    persons: pd.DataFrame,
    attributes: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
) -> Path:
    """Write a town to `folder`; its spec.

    Args:
        folder: made where it is not there.
        persons: leaf, attributes and count.
        attributes: values of each.
        texts: rho, key, tables and recodes of the spec.
    """
    folder.mkdir(parents=True, exist_ok=True)
    persons[["leaf"]].drop_duplicates().to_csv(folder / "leaves.csv", index=False)
    persons.to_csv(folder / "persons.csv", index=False)
    schema = "\n".join(f"{name} = [{quoted(values)}]" for name, values in attributes.items())
    path = folder / "release.toml"
    path.write_text(SPEC.format(attributes=schema, **texts), "utf-8")
    return path


def quoted(values: Sequence[object]) -> str:
    """Values as a list in a spec has them."""
    return ", ".join(f'"{value}"' for value in values)


def numbers(root: Path, level: str, table: str, attributes: Sequence[str]) -> pd.DataFrame:
    """Of each number of a table, a product of attributes: released, low, high, true, estimate and standard error.

    Geounit by geounit, in the order of the table.
    """
    files = RunDirectory(root).main
    found = pd.read_parquet(files.table(table, level)).set_index("geocode").sort_index()
    unbiased = pd.read_parquet(files.estimates(level)).set_index("geocode").sort_index()
    true = pd.read_parquet(files.true_histogram(level))
    label = true[list(attributes)].astype(str).agg(" * ".join, axis=1)
    true = true.groupby(["geocode", label], observed=False)["count"].sum().unstack(fill_value=0)
    labels = [name for name in found.columns if f"{name}:low90" in found.columns and ":" not in name]
    columns: dict[str, pd.DataFrame] = {
        "released": found[labels],
        "low": found[[f"{name}:low90" for name in labels]],
        "high": found[[f"{name}:high90" for name in labels]],
        "true": true.reindex(index=found.index, columns=labels, fill_value=0),
        "estimate": pd.DataFrame(unbiased[table].tolist()),
        "standard": pd.DataFrame(np.sqrt(unbiased[f"{table}:variance"].tolist())),
    }
    return pd.DataFrame({name: frame.to_numpy().ravel().astype(float) for name, frame in columns.items()})


def covered(found: pd.DataFrame, sizes: Sequence[int]) -> pd.Series:
    """The share of numbers in their intervals, by the size of the true and of the released one; as "true 10"."""
    inside = (found["low"] <= found["true"]) & (found["true"] <= found["high"])
    classes = [
        pd.cut(found[by], [*(n - 1 for n in sizes), np.inf], labels=[f"{by} {n}" for n in sizes])
        for by in ("true", "released")
    ]
    return pd.concat([inside.groupby(own, observed=True).mean() for own in classes])

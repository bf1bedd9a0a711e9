"""Small releases of persons and their households."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matrix.case import Case, Refusal, released
from releases.homes import broken, write_homes
from releases.one_town import write_one_town
from releases.patients import write_patients

from pipeline.reading.release import open_release

#: Persons by what their households are, and joint draws of what the truth may be.
_BY_HOUSEHOLDS = (
    (
        "\n[companions.homes]",
        """
[household_tables]
age_by_size = { persons = "age", households = "size" }
head = { households = "head * children", levels = ["county", "block"] }

[companions.homes]""",
    ),
    ("replicates = 2", "replicates = 2\ndraws = 5"),
)

LEVELS: Final = ("county", "tract", "block")


def _expect_tables(folder: Path) -> None:
    """Tables by households are the microdata counted, and averages are persons by households."""
    root = folder / "out" / "homes"
    release = open_release(root)
    persons = pd.read_parquet(root / "public" / "microdata.parquet").astype({"household": "Int64", "geocode": str})
    homes = pd.read_parquet(root / "public" / "companions" / "homes" / "microdata.parquet").drop(columns="geocode")
    together = persons.merge(homes, on="household", validate="m:1")
    digits = {"county": 1, "tract": 3, "block": 5}
    for name, columns in {"age_by_size": ("age", "size"), "head": ("head", "children")}.items():
        for level in LEVELS if name == "age_by_size" else ("county", "block"):
            label = together[columns[0]].astype(str) + " * " + together[columns[1]].astype(str)
            counted = pd.crosstab(together["geocode"].str[: digits[level]], label)
            table = release.household_table(name, level)
            expected = counted.reindex(index=table.index, columns=table.columns, fill_value=0)
            assert np.array_equal(table.to_numpy(), expected.to_numpy()), (name, level)
            assert table.to_numpy().sum() == len(together)
    assert list(release.household_table("head", "county")) == ["adult * yes", "adult * no", "old * yes", "old * no"]
    blocks = release.household_table("age_by_size", "block")
    of_ages = release.query("age").where(residence="household").at("block")
    for age in ("child", "adult", "old"):
        assert (blocks[[name for name in blocks.columns if name.startswith(age)]].sum(axis=1) == of_ages[age]).all()
    ones = [name for name in blocks.columns if name.endswith("* 1")]
    assert (blocks[ones].sum(axis=1) == release.companion("homes").query("size").at("block")["1"]).all()
    for level in LEVELS:
        sizes = release.household_sizes(level)
        assert (sizes["persons"] == release.query("total").where(residence="household").at(level)["total"]).all()
        assert (sizes["households"] == release.companion("homes").query("total").at(level)["total"]).all()
        empty = sizes["households"] == 0
        assert sizes["average"].isna().tolist() == sizes["average:low90"].isna().tolist() == empty.tolist()
        some = sizes[~empty].astype(float)
        average, low, high = (some[f"average{end}"] for end in ("", ":low90", ":high90"))
        assert np.allclose(average, some["persons"] / some["households"], rtol=1e-9)
        assert ((low >= 1) & (low <= average) & (average <= high) & (low < high) & (high <= 8)).all()


def _expect_joined(folder: Path) -> None:
    assert broken(folder / "out" / "homes") == []


CASES: Final[Sequence[Case]] = (
    released("homes", write_homes, "release.toml", "homes", expect=_expect_joined, full=True),
    released(
        "drawn", lambda folder: write_homes(folder, *_BY_HOUSEHOLDS), "release.toml", "homes", expect=_expect_tables
    ),
    released("patients", write_patients, "release.toml", "homes"),
    released("one_town", write_one_town, "release.toml", "one-town"),
)
REFUSALS: Final[Sequence[Refusal]] = (
    Refusal("homes", ('size = "size"\nmost = 8', 'size = "size"'), ("join[0].most", "missing", "4+")),
    Refusal(
        "homes",
        ('householder = { age = "head" }', 'householder = { age = "size" }'),
        ("join[1].householder.age", "'1'", "child, adult, old"),
    ),
)

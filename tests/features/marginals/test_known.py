"""Releases of marginals with combinations that cannot occur and exact numbers: in tables, records and judges."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.wide import manifest_of

from auditor.check.release import check_release
from features.marginals.cliques import AttributeSizes, junction_tree
from features.marginals.zeros import are_carried, carried
from geography.errors import InputError
from pipeline.errors import SpecError
from pipeline.spec.release_spec import ReleaseSpec

Record = dict[str, str]


@pytest.fixture
def known(made: Callable[[str], Path]) -> Path:
    return made("cliques_known")


@pytest.mark.parametrize(
    "cliques", [[(0, 1), (1, 2), (2, 3)], [(0, 1), (2, 3)], [(0, 1), (1, 2), (3,)], [(0,), (1,), (2,), (3,)]], ids=str
)
def test_entries_that_are_carried_mean_what_whole_records_can_have(cliques: list[tuple[int, ...]]) -> None:
    """Of each table, against all records gone through; also of tables that share no attribute."""
    attributes = {"a": ("0", "1", "2"), "b": ("0", "1"), "c": ("0", "1", "2"), "d": ("0", "1")}
    domain = AttributeSizes(tuple(attributes), tuple(map(len, attributes.values())))
    tree = junction_tree(domain, cliques)
    names = [[domain.names[a] for a in bag] for bag in tree.bags]
    rng = np.random.default_rng(1)
    moved = 0
    for _ in range(40):
        entries = [
            {"abcd"[a]: tuple(one for one in attributes["abcd"[a]] if rng.random() < 0.6) or ("0",) for a in clique}
            for clique in (*cliques, cliques[1])
        ]
        possible = _without(_all(attributes), entries)
        if not possible:
            with pytest.raises(InputError, match="no record is possible"):
                carried(tree, attributes, entries)
            continue
        found = carried(tree, attributes, entries)
        assert are_carried(tree, attributes, found)
        for bag, own in zip(names, found, strict=True):
            expected = {tuple(record[name] for name in bag) for record in possible}
            left = _without(_all({name: attributes[name] for name in bag}), own)
            assert {tuple(record.values()) for record in left} == expected
        moved += not are_carried(tree, attributes, [[one for one in entries if {*one} <= {*bag}] for bag in names])
    assert (moved > 5) == any(tree.separators)


def _all(attributes: Mapping[str, Sequence[str]]) -> list[Record]:
    return [dict(zip(attributes, values, strict=True)) for values in product(*attributes.values())]


def _without(records: Iterable[Record], entries: Iterable[Mapping[str, Sequence[str]]]) -> list[Record]:
    """The records that no entry has as impossible."""

    def has(record: Record, entry: Mapping[str, Sequence[str]]) -> bool:
        return all(record[name] in chosen for name, chosen in entry.items())

    return [record for record in records if not any(has(record, entry) for entry in entries)]


# -- judges -----------------------------------------------------------------------------------------------------------


def _third_school(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(school=["third", *table["school"].astype(str)[1:]])


def _outside(table: pd.DataFrame) -> pd.DataFrame:
    row = int(np.flatnonzero(table["wages"] == "1..9999")[0])
    return table.assign(wages_drawn=[*table["wages_drawn"][:row], 10_000, *table["wages_drawn"][row + 1 :]])


def _lower_ends(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(wages_drawn=table["wages"].astype(str).str.partition("..")[0].astype(int))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            _third_school,
            ["1 records, and the structural zeros of school-work", "the structural zeros of age-sex-school"],
        ),
        (_outside, ["has 10000 as 'wages_drawn', and '1..9999' as 'wages'"]),
        (_lower_ends, ["as 'wages', in which the public seed draws "]),
        (None, ["it lacks 'hours_drawn'"]),
    ],
)
def test_records_that_cannot_be_are_named_by_the_second_program(
    known: Path, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame] | None, told: Sequence[str]
) -> None:
    root = Path(shutil.copytree(known, tmp_path / "changed"))
    file = root / "public" / "microdata.parquet"
    table = pq.read_table(file)
    if change is None:
        pq.write_table(table.drop_columns(["hours_drawn"]), file)
    else:
        changed = pa.Table.from_pandas(change(table.to_pandas()), preserve_index=False).cast(table.schema)
        pq.write_table(changed.replace_schema_metadata(table.schema.metadata), file)
    problems = check_release(root)
    assert all(any(text in problem for problem in problems) for text in told), problems


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda spec: spec["companions"][1][1].update(structural_zeros=[]), "school = third is impossible in age-sex-"),
        (lambda spec: spec["companions"][2][1].update(invariants=[]), "block in the release, and total is not in age-"),
        (lambda spec: spec["companions"][0][1]["invariants"].pop(), "is exact at block in the release, and total is "),
        (lambda spec: spec["invariants"].pop(0), "tenure is exact at county in work-tenure-car, and tenure is not in "),
    ],
)  # fmt: skip
def test_universes_that_say_other_things_of_the_records_are_found_by_both(
    known: Path, tmp_path: Path, change: Callable[[Any], object], told: str
) -> None:
    root = Path(shutil.copytree(known, tmp_path / "changed"))
    file, manifest = root / "public" / "manifest.json", manifest_of(root)
    assert ReleaseSpec.from_public_dict(manifest["spec"]).public_dict() == manifest["spec"]
    change(manifest["spec"])
    with pytest.raises(SpecError, match=r"structural_zeros: these leave|invariants: these are not|the companions are"):
        ReleaseSpec.from_public_dict(manifest["spec"])
    file.write_text(json.dumps(manifest), "utf-8")
    assert any(told in one for one in check_release(root)), check_release(root)

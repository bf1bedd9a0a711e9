"""What restricted/ of an answer keeps is enough to draw it again as documented, with none of the code that drew it.

Everything below is computed from the key, the files in restricted/, and docs/mathematics.md ("The streams of a
question"); keys, streams and draws are those of the second program.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import stat
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from releases.asked import ask, ledger_of, write_workers

from auditor.keys import KeyedStream, commitment, derived, keyed_hash, published_fingerprint, read_key
from auditor.reading.spine import read_spine, spine_fingerprint
from auditor.sampler import chosen, drawn, flipped

UNITS = ('dataset = "workers"', 'dataset = "workers"\nunit = "worker"\nat_most = 2')
TOTAL = ('missing = "0"', 'missing = "0"\nends = "total"')
PURE = ('rho = "1"', 'epsilon = "1"\nframework = "pure"')
QUESTIONS = [
    "count by tract, sex where age >= 18",
    "count having count >= 3",
    "count by county where wages > 60000",
    "sum wages by county",
    "mean wages by sex",
    "median wages by county",
    "quantile 1/4 wages where wages < 40000",
    "max wages by sex",
    "min wages",
    "clip wages among 20000, 40000, 60000 above 1/10",
    "clip wages among 20000, 40000, 60000",
    "most common 2 age by county",
]
#: Of these, those that are drawn otherwise under a budget of epsilon.
UNDER_EPSILON = [
    "sum wages by county",
    "quantile 1/4 wages where wages < 40000",
    "min wages",
    "most common 2 age by county",
]


def redrawn(root: Path) -> dict[str, list[int]]:
    """The columns of measurements.csv that are numbers, drawn again; asserts what binds key, records and question."""
    secret, _ = read_key(root / "restricted" / "key")
    stated = json.loads((root / "public" / "answer.json").read_bytes())
    kept = json.loads((root / "restricted" / "question.json").read_bytes())
    axes = kept["axes"]
    of_axes = [[a["name"], *a["values"], *a["further"], a["keep"], a["group"], a["term"], *a["labels"]] for a in axes]
    content = ["question", 2, kept["text"], kept["statistic"], kept["place"], of_axes, kept["order"], kept["parts"]]
    public = hashlib.sha256(json.dumps([*content, *kept["context"]]).encode()).hexdigest()
    private = hashlib.sha256(json.dumps([*content, json.dumps(kept["reading"]), *kept["context"]]).encode()).hexdigest()
    assert stated["fingerprint"] == public
    salt = derived(secret, "salt", f"answer/{stated['answer']}/{private}").hex()
    assert (stated["key_salt"], stated["key_commitment"]) == (salt, commitment(secret, salt))
    path = root / "restricted" / "areas.parquet"
    levels = read_spine(path, tuple(pq.read_schema(path).names))
    spine = spine_fingerprint(levels)
    assert stated["geography"] == spine
    shape = [len(axis["values"]) for axis in axes]
    leaf, cell, count = counts_of(root, len(levels[-1].codes), math.prod(shape))
    records = keyed_hash(
        secret, "input of a question", digest_of(leaf, cell, count, len(levels[-1].codes), math.prod(shape))
    )
    assert stated["input_fingerprint"] == published_fingerprint(secret, salt, "question", records)
    run = json.loads((root / "restricted" / "run.json").read_bytes())
    assert run["input_fingerprints"] == {"question": records}
    codes = np.unravel_index(cell, shape)
    counted = np.ones(len(leaf), dtype=bool)
    for axis, code in zip(axes, codes, strict=True):
        if not (kept["parts"] and len(kept["parts"][0]) == 5 and kept["parts"][0][4] == "total"):
            counted &= np.array(axis["keep"])[code]
    at, n_groups = place_of(levels, kept["place"])[leaf], 1
    for number in kept["order"]:
        axis, n_groups = axes[number], n_groups * len(axes[number]["labels"])
        at = at * len(axis["labels"]) + np.array(axis["group"])[codes[number]]
    names = [level.name for level in levels]
    n = n_groups * (1 if kept["place"] == "everywhere" else len(levels[names.index(kept["place"])].codes))
    at, count = at[counted], count[counted]
    value = None if kept["amount"] is None else codes[kept["amount"]][counted]

    def stream(part: str) -> KeyedStream:
        return KeyedStream(secret, ("spinewise question 2", records, spine, private), kept["place"], part)

    columns: dict[str, list[int]] = {}
    for part in stated["parts"]:
        scale = Fraction(part["scale"])
        if part["mechanism"] in ("exponential", "permute_and_flip"):
            keep = np.flatnonzero(axes[kept["amount"]]["keep"])
            histogram = np.zeros((n, len(keep)), dtype=np.int64)
            np.add.at(histogram, (at, np.searchsorted(keep, np.asarray(value))), count)
            steps = [choose(part, scale, row, stream(part["name"]), i) for i, row in enumerate(histogram.tolist())]
            columns[part["name"]] = [step + part["first"] for step in steps]
        elif part["name"] == "windows":
            true = [
                windows(row, step, stated["framework"]) for row, step in zip(histogram.tolist(), steps, strict=True)
            ]
            flat = [number for row in true for number in row]
            noisy = [one + drawn(part["mechanism"], scale, stream("windows").words(i)) for i, one in enumerate(flat)]
            size = len(true[0])
            columns |= {f"window{j + 1}": noisy[j::size] for j in range(size)}
        else:
            numbers = np.zeros(n, dtype=np.int64)
            each = 1 if part["name"] == "count" or value is None else value + kept["first"] - part["centre"]
            np.add.at(numbers, at, count * each)
            columns[part["name"]] = [
                one + drawn(part["mechanism"], scale, stream(part["name"]).words(i))
                for i, one in enumerate(numbers.tolist())
            ]
    return columns


def counts_of(
    root: Path, n_leaves: int, n_cells: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    table = pq.read_table(root / "restricted" / "counts.parquet")
    assert json.loads(table.schema.metadata[b"spinewise"]) == {
        "kind": "counts of a question", "leaves": n_leaves, "cells": n_cells,
    }  # fmt: skip
    leaf, cell, count = (table.column(name).to_numpy() for name in ("leaf", "cell", "count"))
    return leaf, cell, count


def digest_of(leaf: Any, cell: Any, count: Any, n_leaves: int, n_cells: int) -> bytes:
    starts = np.searchsorted(leaf, np.arange(n_leaves + 1))
    numbers = np.concatenate([[n_leaves, n_cells, len(leaf)], starts, cell, count])
    return hashlib.sha256(b"spinewise counts 1\0" + numbers.astype("<i8").tobytes()).digest()


def place_of(levels: Any, place: str) -> NDArray[np.int64]:
    """The place of each leaf."""
    found = np.arange(len(levels[-1].codes))
    if place == "everywhere":
        return np.zeros_like(found)
    for level in reversed(levels):
        if level.name == place:
            return found
        found = level.parents[found]
    raise AssertionError(place)


def choose(part: dict[str, Any], epsilon: Fraction, row: list[int], stream: KeyedStream, group: int) -> int:
    q, k, n = Fraction(part["quantile"]), len(row), sum(row)
    a, b, losses, below = q.numerator, q.denominator, [], 0
    target = a * n + b * (-part["beyond"] if q == 1 else part["beyond"]) if "beyond" in part else a * n
    for j, count in enumerate(row):
        c, upto = min(count, part["ties"]), below + count
        terms = [
            0,
            *([b * below - target + a * c] if j else []),
            *([target - b * upto + (b - a) * c] if j < k - 1 else []),
        ]
        losses.append(part["times"] * max(terms))
        below = upto
    if part["mechanism"] == "exponential":
        return chosen(epsilon, losses, stream.words(group))
    return flipped(epsilon, losses, stream.words, 2 * k * group)


def windows(row: list[int], v: int, framework: str) -> list[int]:
    k, away, ends = len(row), 2, [v]
    while away < k:
        ends = [v - away, *ends, v + away]
        away *= 2
    ends = [-1, *(min(max(end, -1), k - 1) for end in ends), k - 1]
    counts = [sum(row[low + 1 : high + 1]) for low, high in pairwise(ends)]
    weights = (8, 4, 3, 2, 2, 1, 1, 1) if framework == "zcdp" else (1,)
    return [
        sum(w * counts[j - i] for i, w in enumerate(weights) if 0 <= j - i < len(counts))
        for j in range(len(counts) + len(weights) - 1)
    ]


def published(root: Path) -> dict[str, list[int]]:
    with (root / "public" / "measurements.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    stated = json.loads((root / "public" / "answer.json").read_bytes())
    keys = {*stated["terms"], stated["place"]}
    return {name: [int(row[name]) for row in rows] for name in rows[0] if name not in keys}


@pytest.mark.parametrize(
    ("framework", "text"),
    [*(("zcdp", text) for text in QUESTIONS), *(("pure", text) for text in QUESTIONS if text in UNDER_EPSILON)],
)
def test_an_answer_is_drawn_again_from_what_is_kept(tmp_path: Path, framework: str, text: str) -> None:
    pure = framework == "pure"
    spec = write_workers(tmp_path, *([PURE] if pure else []), n=100)
    with ledger_of(tmp_path, budget="100", framework=framework):
        root = ask(spec, text, None if pure else "1/2", epsilon="10" if pure else None)
    assert redrawn(root) == published(root)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (root / "restricted").glob("*.*")}
    assert {modes[name] for name in ("question.json", "areas.parquet", "counts.parquet", "run.json")} == {0o600}
    assert stat.S_IMODE((root / "restricted").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "text",
    ["count by county", "sum wages by county", "mean wages", "count units by tract", "count units by records_per_unit"],
)
def test_the_caps_of_units_are_kept(tmp_path: Path, text: str) -> None:
    """No unit has more than is charged for, and what is counted is what was drawn from; the names are not kept."""
    spec = write_workers(tmp_path, UNITS, TOTAL)
    with ledger_of(tmp_path):
        root = ask(spec, text)
    assert redrawn(root) == published(root)
    path = root / "restricted" / "units.parquet"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    table = pq.read_table(path)
    assert table.column_names == ["unit", "record", "counted"]
    unit, counted = table.column("unit").to_numpy(), table.column("counted").to_numpy()
    assert len(unit) == 400  # every record of the file
    kept = json.loads((root / "restricted" / "question.json").read_bytes())
    n_cells = math.prod(len(axis["values"]) for axis in kept["axes"])
    leaf, cell, count = (pq.read_table(root / "restricted" / "counts.parquet").column(i).to_numpy() for i in range(3))
    found, times = np.unique(counted[counted >= 0], return_counts=True)
    assert (found == leaf * n_cells + cell).all()
    assert (times == count).all()
    if text.startswith("sum"):
        amounts = counted % n_cells  # the only attribute
        assert np.bincount(unit, np.where(counted >= 0, amounts, 0)).max() == 600
    else:
        assert np.bincount(unit[counted >= 0]).max() == (1 if "records_per_unit" in text else 2)

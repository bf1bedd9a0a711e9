"""Sums of a thousand small areas, of a table as it was imported, hold the truth in 90 % of cases over many keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.made_case import made_case

from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.estimation.sum_margins import LinearVariances
from pipeline.reading.release import Release, reader_of
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX, read_table
from pipeline.storage.readable import unchecked
from spinewise.runs import run

KEYS, N, PART = 30, 3_000, 1_000
SHARES = np.array([0.62, 0.13, 0.09, 0.06, 0.04, 0.025, 0.015, 0.01, 0.006, 0.004])


def population() -> np.ndarray:
    """Ten groups in areas of 150 to 3,000 people, `(N, 10)`; neighbours are alike, and most cells small."""
    rng = np.random.default_rng(1)
    of_region = np.exp(rng.normal(0, 1.2, (N // 250, 10)))[np.arange(N) // 250]
    weights = of_region * np.exp(rng.normal(0, 0.8, (N, 10))) * SHARES
    sizes = rng.integers(150, 3_000, (N, 1))
    return rng.poisson(weights / weights.sum(axis=1, keepdims=True) * sizes)


def spec_of_import(counts: np.ndarray, folder: Path) -> Path:
    """The spec that the import of the table writes, its public inputs accepted, without margins of tables."""
    codes = [f"E01{number:06}" for number in range(N)]
    table = pd.DataFrame({"area": np.repeat(codes, 10), "ethnicity": [f"e{i}" for i in range(10)] * N})
    table.assign(Observation=counts.ravel()).to_csv(folder / "table.csv", index=False)
    stated = Statement(
        str(folder / "table.csv"), geography="area", count="Observation", attributes="ethnicity",
        expect_records=int(counts.sum()), expect_areas=N,
    )  # fmt: skip
    spec = import_table(stated, folder / "in").spec
    text = spec.read_text()
    assert 'levels = ["all", "area"]' in text
    assert 'passes = ["total"]' in text
    text = text.replace("# accept = ", "accept = ").replace('rho = "1"', 'rho = "0.2"\nkey = "insecure-test:KEY"', 1)
    spec.write_text(f"{text}\n[publish]\nmargins = false\nmicrodata = false\n")
    return spec


def sums(counts: np.ndarray) -> Mapping[str, np.ndarray]:
    """Areas from everywhere; next to each other; those where a group is rarest, or most frequent; nearly all."""
    rng = np.random.default_rng(2)
    areas = {f"anywhere {i}": rng.choice(N, PART, replace=False) for i in range(8)}
    areas |= {f"neighbours {i}": np.arange(i * 250, i * 250 + PART) for i in range(8)}
    for group in (3, 6, 9):
        order = np.argsort(counts[:, group], kind="stable")
        areas |= {f"rare {group}": order[:PART], f"frequent {group}": order[-PART:]}
    return areas | {"nearly all": np.arange(40, N)}


def covered(release: Release, areas: Mapping[str, np.ndarray], counts: np.ndarray) -> dict[str, list[np.ndarray]]:
    """Kind of sum -> for each sum, which of its ten numbers are in their intervals."""
    codes = reader_of(release).spine.leaf_level.geocodes
    found = release.query("ethnicity").over({name: codes[some].tolist() for name, some in areas.items()})
    inside: dict[str, list[np.ndarray]] = {}
    for name, some in areas.items():
        columns = [[f"e{i}{end}" for i in range(10)] for end in (LOW_SUFFIX, HIGH_SUFFIX, "")]
        low, high, shown = (found.loc[name, some_columns].to_numpy(float) for some_columns in columns)
        assert ((low <= shown) & (shown <= high)).all()
        true = counts[some].sum(axis=0)
        inside.setdefault(name.split()[0], []).append((low <= true) & (true <= high))
    return inside


@pytest.mark.slow
def test_sums_of_small_areas_are_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bias of non-negativity left out, as a fault, sums of areas that are alike are covered far too seldom."""
    counts = population()
    spec, areas = spec_of_import(counts, tmp_path), sums(counts)
    right: dict[str, list[np.ndarray]] = {}
    wrong: dict[str, list[np.ndarray]] = {}
    for key in range(KEYS):
        own = spec.with_name(f"{key}.toml")
        own.write_text(spec.read_text().replace("KEY", str(key)))
        release = run(own, out=tmp_path / "out" / str(key), workers=1, progress=False)
        for kind, inside in covered(release, areas, counts).items():
            right.setdefault(kind, []).extend(inside)
        with monkeypatch.context() as fault:
            unknown = lambda _, leaves, groups: np.full(10 if groups[0].max() else 1, np.nan)  # noqa: E731, ARG005
            fault.setattr(LinearVariances, "estimate_of_area", unknown)
            for kind, inside in covered(release, areas, counts).items():
                wrong.setdefault(kind, []).extend(inside)
    shares = {kind: float(np.mean(inside)) for kind, inside in right.items()}
    assert 0.88 < shares["anywhere"] < 0.93, shares
    assert 0.88 < shares["neighbours"] < 0.93, shares
    # Where the released sum is far off, the interval reaches from the truth to it, and holds more.
    assert all(0.87 < share < 0.955 for share in shares.values()), shares
    without = {kind: float(np.mean(inside)) for kind, inside in wrong.items()}
    assert without["neighbours"] < 0.8, without
    assert without["rare"] < 0.6, without


@pytest.mark.slow
def test_intervals_of_a_sampled_spine_cover(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The case of the matrix whose margins are of a sample, with no leaf in the first run: each size is covered."""
    folder = made_case(tmp_path_factory, "sampled")
    table = read_table(unchecked(RunDirectory(folder / "out" / "sampled").main.table("group", "leaf")))
    assert table.lows is not None
    assert table.highs is not None
    true = pd.read_csv(folder / "people.csv").set_index("leaf").loc[list(table.geocodes)].to_numpy()
    inside = (table.lows <= true) & (true <= table.highs)
    for sizes in (true, table.counts):
        for least, most in ((5, 10), (10, 100), (100, 1000), (1000, math.inf)):
            of_size = (sizes >= least) & (sizes < most)
            assert of_size.sum() > 1000
            assert 0.88 <= inside[of_size].mean() <= 0.95, (least, inside[of_size].mean())

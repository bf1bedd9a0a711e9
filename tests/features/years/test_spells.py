"""How many spells the units of some records have, against a count person by person; and what `validate` says of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.series_town import INDEPENDENT, YEARS, write_series_town
from releases.small import run_period

from auditor.program import audit
from features.years.confidential import spell_counts
from flows.checks.validation import validate
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release

UNITS = ('rho = "2"', 'rho = "2"\nunit = "person"\nat_most = 1')


def spells_of(life: list[object]) -> int:
    """Of one person: how often an answer begins that is not that of the period before; None for no record."""
    return sum(1 for t, one in enumerate(life) if one is not None and (t == 0 or life[t - 1] != one))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_spells_are_those_of_each_unit(seed: int) -> None:
    """Units that come, go, move and come back, in records of any order; those with two records are left out."""
    rng = np.random.default_rng(seed)
    units, cells = [], []
    lives: dict[int, list[object]] = {i: [None] * 6 for i in range(200)}
    for period in range(6):
        here = rng.permutation(200)[: rng.integers(100, 200)]
        units.append(here)
        cells.append(rng.integers(0, 3, len(here)))
        for i, cell in zip(here.tolist(), cells[-1].tolist(), strict=True):
            lives[i][period] = cell
    again = [int(units[2][0]), int(units[4][1])]
    for period, unit in zip((2, 4), again, strict=True):
        units[period], cells[period] = np.append(units[period], unit), np.append(cells[period], 1)
    expected = Counter(spells_of(life) for i, life in lives.items() if i not in again)
    found, several = spell_counts(units, cells)
    assert several == len(set(again))
    assert found[0] == 0
    assert {k: n for k, n in enumerate(found.tolist()) if n} == {k: n for k, n in expected.items() if k}


def test_no_records() -> None:
    found, several = spell_counts([np.array([], dtype=int)], [np.array([], dtype=int)])
    assert (found.sum(), several) == (0, 0)


@pytest.mark.parametrize("independent", [False, True])
def test_validate_counts_spells(tmp_path: Path, independent: bool) -> None:
    """Against pandas: block and values of each person over the years; with one spell allowed, by name and number."""
    changes = [UNITS, *(INDEPENDENT if independent else (("spells = 2", "spells = 1"),))]
    spec = write_series_town(tmp_path, *changes)
    lives: dict[str, list[object]] = {}
    for t, year in enumerate(YEARS):
        for person, *answer in pd.read_csv(tmp_path / f"persons-{year}.csv", dtype=str).to_numpy().tolist():
            lives.setdefault(person, [None] * 3)[t] = answer
    expected = Counter(spells_of(life) for life in lives.values())
    assert expected[2] > 30
    files = [tmp_path / f"persons-{year}.csv" for year in YEARS]
    found = validate(files[2], spec, periods_before=files[:2])
    assert found.passed
    (said,) = (one for one in found.remarks if one.startswith("series"))
    assert f"1: {expected[1]}, 2: {expected[2]}, 3: {expected[3]};" in said
    more = expected[2] + expected[3]
    assert (f"{more} of {len(lives)} " in said) == (not independent)
    assert ("with independent noise all lose the same" in said) == independent
    assert not [one for one in validate(files[2], spec).remarks if one.startswith("series")]


def test_what_has_no_spells_is_said(tmp_path: Path, town_spec: Path) -> None:
    spec = write_series_town(tmp_path)
    files = [tmp_path / f"persons-{year}.csv" for year in YEARS]
    (found,) = validate(files[1], spec, periods_before=files[:1]).findings
    assert "state it as unit in [privacy], with at_most = 1" in found.text
    (found,) = validate(files[1], spec, periods_before=[tmp_path / "none.csv"]).findings
    assert "none.csv: no such file" in found.text
    spec = write_series_town(tmp_path / "units", UNITS)
    (found,) = validate(files[1], spec, periods_before=[*files, files[0]]).findings
    assert "found records of 5 periods; it has 2031 to 2033" in found.text
    (found,) = validate(town_spec.parent, town_spec, periods_before=files[:1]).findings
    assert "--before: the spec is of one release" in found.text


@pytest.mark.slow
def test_a_series_of_persons_by_their_numbers_is_released(tmp_path: Path) -> None:
    """Of each person one record in each period is counted, by the key; the second program finds nothing wrong."""
    spec = write_series_town(tmp_path / "in", UNITS)
    for year in YEARS[:2]:
        release = run_period(spec, tmp_path / "out", year, tmp_path / "in" / f"persons-{year}.csv")
        assert verify_release(RunDirectory(release), 1, Silent()) == []
        assert [one for one in audit(release) if not one.passed] == []

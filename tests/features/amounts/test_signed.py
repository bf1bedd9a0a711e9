"""Amounts that may be below 0: sums of gains and losses, means of either sign, and what a record then costs."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from releases.again import computed_again
from releases.wages import BALANCES, LABELS, detailed, true_units, write_wages

from pipeline.publishing.steps import perform_public_steps
from pipeline.reading.release import open_release
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import ReleaseSpec, load_spec

LEVELS = {"county": 1, "tract": 2, "block": 3}
LOW, HIGH = -30, 40


@pytest.fixture(scope="module")
def spec(balances_spec: Path) -> Path:
    return balances_spec


@pytest.fixture(scope="module")
def release(balances: Path) -> Path:
    return balances


def test_what_is_summed_are_losses_and_gains_as_by_hand(spec: Path, release: Path) -> None:
    universe = load_spec(spec).universes()[1]
    codes = detailed(release, "block").index.to_numpy(dtype=str)
    path = RunDirectory(release).universe("wages").true_histogram("block")
    counted = read_histogram(path, codes, universe.schema, signed=True)
    by_hand = true_units(spec.parent, "balance", 10 * LOW, 10 * HIGH)
    cells = [(sex, job) for sex, job in itertools.product("fm", ("none", "part", "full"))]
    expected = np.array([[by_hand.get((str(code), *cell), 0) for cell in cells] for code in codes])
    assert counted.toarray().tolist() == expected.tolist()
    assert (expected < 0).any()
    assert (expected > 0).any()


def test_released_sums_add_up_and_are_those_of_so_many_clipped_records(release: Path) -> None:
    for (above, length), below in zip(itertools.islice(LEVELS.items(), 2), ("tract", "block"), strict=True):
        sums = detailed(release, below)
        assert (
            sums.groupby(sums.index.str[:length]).sum().to_numpy().tolist()
            == detailed(release, above).to_numpy().tolist()
        )
    for level in LEVELS:
        sums, counts = detailed(release, level), detailed(release, level, "")
        assert ((sums >= LOW * counts) & (sums <= HIGH * counts)).all(axis=None)
    assert (detailed(release, "block") < 0).any(axis=None)


def test_means_have_the_sign_of_their_sums_and_lie_in_their_intervals_within_the_clip(release: Path) -> None:
    means = open_release(release).companion("wages").means("detailed", "tract")
    negative = 0
    for label in LABELS:
        known = means[label + ":count"].to_numpy() > 0
        found = means[label + ":mean"][known].to_numpy(dtype=float)
        sums = means[label + ":sum"][known].to_numpy(dtype=float)
        assert found == pytest.approx(sums / means[label + ":count"][known].to_numpy())
        low, high = (means[label + ":mean" + end][known].to_numpy(dtype=float) for end in (":low90", ":high90"))
        assert ((low >= 10 * LOW) & (low <= found) & (found <= high) & (high <= 10 * HIGH)).all()
        negative += int((high < 0).sum())
    assert negative, "some mean is surely a loss"


def test_noise_is_that_of_the_least_sound_reach(release: Path) -> None:
    manifest = json.loads((release / "public/manifest.json").read_text("utf-8"))
    stated = {entry["universe"]: entry for entry in manifest["privacy"]}["wages"]
    reach = 50
    assert 2 * (reach - 1) ** 2 < (HIGH - LOW) ** 2 <= 2 * reach**2, "one sum may move from loss to gain"
    for entry in stated["noise"]:
        assert Fraction(entry["scale"]) == Fraction(2 * reach**2) / (2 * Fraction(entry["share"]) * 2)


@pytest.mark.slow
def test_a_spine_that_is_cut_gives_the_same_bytes(release: Path, tmp_path: Path) -> None:
    with computed_again(release, tmp_path / "cut", 1, 1) as job:
        perform_public_steps(job, last=False)
    found = sorted((tmp_path / "cut" / "public").rglob("companions/wages/**/*.parquet"))
    assert len(found) > len(LEVELS)
    for path in found:
        assert path.read_bytes() == (release / path.relative_to(tmp_path / "cut")).read_bytes(), path.name


_SUMS = (
    *BALANCES,
    (
        'queries = { total = "1/4", sex = "1/4", detailed = "1/2" }\nlevels = {',
        'queries = { total = "1/2", sex = "1/2" }\nlevels = {',
    ),
    ("publish = {", "tables = { total = 'total', sex = 'sex', detailed = 'detailed' }\npublish = {"),
)


def test_sums_below_0_are_left_out_with_the_numbers_of_records_that_their_intervals_need(tmp_path: Path) -> None:
    """The release measures no detail, the amount does; the spec that is left can be read again."""
    spec = load_spec(write_wages(tmp_path, *_SUMS))
    side = open_listed(spec, spec.universes())
    every = ("county", "tract", "block")
    assert [{table.name: table.levels for table in one.tables} for one in side.universes] == 2 * [
        {"total": every, "sex": every}
    ]
    told = [line for line in side.remarks if line.startswith("companions.wages.tables.detailed: ")]
    assert [line.partition("at level ")[2].partition(",")[0] for line in told] == [f"'{level}'" for level in every]
    assert all("as nothing that is measured determines it; the sums are left out there, too" in line for line in told)
    again = ReleaseSpec.from_public_dict(side.spec.public_dict())
    assert [[table.name for table in one.tables] for one in again.universes()] == 2 * [["total", "sex"]]


def test_sums_stay_where_they_are_not_below_0_or_need_no_intervals(tmp_path: Path) -> None:
    for changes in (_SUMS[len(BALANCES) :], (*_SUMS, ("replicates = 4", "margins = false"))):
        spec = load_spec(write_wages(tmp_path, *changes))
        side = open_listed(spec, spec.universes())
        assert [table.name for table in side.universes[1].tables] == ["total", "sex", "detailed"]

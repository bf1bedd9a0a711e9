"""Draws and unbiased estimates of a whole release: exact sums, invariants, zeros, variances, and nothing made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import QUICK, public_bytes, run, write_town
from scipy.special import ndtr

from pipeline.estimation.draws import PublicNormals
from pipeline.estimation.unbiased import unbiased_leaves
from pipeline.reading.reader import open_reader
from pipeline.reading.release import Release, open_release, reader_of

DRAWS = ("replicates = 3\nunbiased = true", "margins = false\nunbiased = true\ndraws = 19")


@pytest.fixture(scope="module")
def drawn(drawn_town: Path) -> Release:
    return open_release(drawn_town)


def test_the_estimator_does_not_show(drawn: Release, tmp_path: Path) -> None:
    """Draws and unbiased estimates are of what the measurements say, whichever way the release was made from them."""
    topdown = ("[companions.units]", '[postprocess]\nsolver = "batched"\nestimator = "topdown"\n\n[companions.units]')
    again = public_bytes(run(write_town(tmp_path / "in", DRAWS, topdown), tmp_path / "out"))
    found = public_bytes(drawn.directory)
    same = [name for name in found if "/draws/" in name or "/estimates/" in name]
    assert len(same) > 10
    assert [name for name in same if again[name] != found[name]] == []


def test_sums_over_areas_are_exact_and_over_answers_nearly(drawn: Release) -> None:
    levels = [drawn.draws("detail", level) for level in ("county", "tract", "block")]
    for upper, lower, length in zip(levels, levels[1:], (1, 3), strict=False):
        draw, code = (lower.index.get_level_values(name) for name in ("draw", "geocode"))
        summed = lower.groupby([draw, code.str[:length]]).sum()
        assert np.array_equal(summed.to_numpy(), upper.to_numpy())
    difference = levels[2].sum(axis=1) - drawn.draws("total", "block")["total"]
    assert 0 < difference.abs().max() < 18 * 2.5 / 256


def test_invariants_and_impossible_cells_are_exact(drawn: Release) -> None:
    released = drawn.table("total", "county")["total"]
    for _, counties in drawn.draws("total", "county").groupby(level="draw"):
        assert (counties["total"].to_numpy() == released.to_numpy()).all()
    detail = drawn.draws("detail", "block")
    assert (detail[["child * f * prison", "child * m * prison"]] == 0).all(axis=None)
    facilities = pd.read_parquet(reader_of(drawn).files.constraint(0)).set_index("geocode")
    nowhere = facilities.index[facilities["dorm"] == 0]
    dorms = detail.filter(like="dorm")
    assert (dorms.loc[pd.IndexSlice[:, nowhere], :] == 0).all(axis=None)
    units = drawn.companion("units")
    assert (units.draws("total", "block").groupby(level="geocode")["total"].nunique() == 1).all()


def test_draws_centre_on_the_unbiased_estimates_and_spread_as_they_say(drawn: Release) -> None:
    frame = pd.read_parquet(reader_of(drawn).files.estimates("tract"))
    estimates, variances = (np.stack(frame[name].tolist()) for name in ("detail", "detail:variance"))
    draws = drawn.draws("detail", "tract").to_numpy().reshape(19, *estimates.shape)
    free = variances > 0
    z = ((draws - estimates) / np.sqrt(np.where(free, variances, 1)))[:, free]
    assert abs(z.mean()) < 0.1
    assert 0.93 < z.std() < 1.07
    assert (draws < 0).any()


def test_what_is_not_measured_is_not_made_up(tmp_path: Path) -> None:
    """Prisons are not told from houses by any query below the county: their draws are NaN, those of sums are not."""
    changes = [
        ('detailed = "1/2"', '"sex * age" = "1/2"'),
        ('detail = "detailed"', 'detail = { query = "sex * quarters", levels = ["tract", "block"] }'),
        ('sex = { query = "sex * grown", levels = ["county", "tract"] }', 'sex = "sex"'),
    ]
    release = open_release(run(write_town(tmp_path / "in", DRAWS, QUICK[1], *changes), tmp_path / "out"))
    assert release.draws("detail", "tract").isna().to_numpy().any()
    assert not release.draws("sex", "block").isna().to_numpy().any()


def test_numbers_are_standard_normal_and_depend_on_their_place_alone() -> None:
    normals = PublicNormals(3, "", 2)
    whole = normals.of(1, 0, (10, 4))
    assert np.array_equal(whole[3:7], normals.of(1, 3, (4, 4)))
    part = PublicNormals(3, "", 2, first_level=1, first_rows=(3,))
    assert np.array_equal(part.of(0, 0, (4, 4)), whole[3:7])
    others = (PublicNormals(4, "", 2), PublicNormals(3, "units", 2), PublicNormals(3, "", 1))
    assert all((other.of(1, 0, (10, 4)) != whole).all() for other in others)
    assert (normals.of(2, 0, (10, 4)) != whole).all()
    numbers = np.sort(PublicNormals(0, "", 0).of(0, 0, (200_000, 1))[:, 0])
    places = (np.arange(1, len(numbers) + 1) - 0.5) / len(numbers)
    assert np.abs(ndtr(numbers) - places).max() < 1.95 / len(numbers) ** 0.5  # Kolmogorov, 1 in 1000
    assert np.abs(ndtr(1.02 * numbers) - places).max() > 1.95 / len(numbers) ** 0.5


def test_estimates_of_a_finished_release_are_those_that_it_publishes(town: Path) -> None:
    """From the published measurements alone; sums over areas are those of their leaves."""
    release = open_reader(town)
    found = unbiased_leaves(release.universe, release.files, release.spine)
    leaves = release.spine.leaf_level
    published = pd.read_parquet(release.files.estimates(leaves.name)).sort_values("geocode")["detail"]
    assert np.abs(found[np.argsort(leaves.geocodes)] - np.stack(published.tolist())).max() < 0.001
    inside = np.arange(release.spine.n_leaves) % 3 > 0
    groups = Release(release).query("sex").query.groups
    expected = Release(release).query("sex").query.answer(found[inside]).sum(axis=0)
    where, nothing = inside.astype(float), np.zeros((1, len(expected)), dtype=np.int64)
    reach = release.margins.half_widths(where, groups)
    np.testing.assert_array_equal(release.margins.ends(where, groups, nothing)[1], np.rint(expected) + reach)

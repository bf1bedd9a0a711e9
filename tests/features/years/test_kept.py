"""A history of releases with structural zeros, invariants and bounds keeps all of them in every period."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from releases.series_town import INDEPENDENT, YEARS, true_counts, write_series_town
from releases.small import run_period

import features.years.chain
from features.years.confidential import SeriesRecords
from features.years.revision import Revision, revised, series_at
from geography.errors import InputError

HOMES = 25
CHANGES = (
    ('"padron"\n\n[privacy]', '"padron"\nstructural_zeros = [ { born = "since 2000", sex = "x" } ]\n\n[privacy]'),
    ('sex = ["f", "m"]', 'sex = ["f", "m", "x"]'),
    (
        "[tables]",
        '[invariants]\ncounty = ["total"]\n\n[[bounds]]\nname = "homes"\nlevel = "tract"\nfile = "homes.csv"\n'
        f'geocode = "tract"\nquery = "sex"\nlower = 1\nupper = {HOMES}\ncolumns = {{ m = "homes" }}\n\n[tables]',
    ),
)  # fmt: skip


def homes(folder: Path) -> pd.Series:
    """Of each tract, in which at most 25 men live in a home; in the smallest tract there is none."""
    men = np.max([true_counts(folder, year, ["born", "sex"], 3)[:, [1, 3]].sum(axis=1) for year in YEARS], axis=0)
    tracts = pd.read_csv(folder / "blocks.csv")["block"].str[:3].unique()
    return pd.Series([math.ceil(n / HOMES) for n in men], index=pd.Index(tracts, name="tract"), name="homes")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Revision]:
    """The folder of the input, that of the releases, and their history."""
    folder = tmp_path_factory.mktemp("kept")
    spec = write_series_town(folder / "in", *CHANGES)
    homes(folder / "in").to_csv(folder / "in" / "homes.csv")
    for year in YEARS[:2]:
        run_period(spec, folder / "out", year, folder / "in" / f"persons-{year}.csv")
    return folder / "in", folder / "out", revised(series_at(folder / "out"), model=True)


def test_numbers_keep_what_the_releases_keep(made: tuple[Path, Path, Revision]) -> None:
    given, _, history = made
    total, men = np.ones(6), np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    impossible = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    limit = HOMES * homes(given).to_numpy()
    for t, year in enumerate(YEARS[:2]):
        exact = history.in_period("county", total, t)
        truth = true_counts(given, year, [], 1).ravel()
        assert exact.values.tolist() == exact.low.tolist() == exact.high.tolist() == truth.tolist()
        bounded = history.in_period("tract", men, t)
        assert ((bounded.values >= limit // HOMES) & (bounded.values <= limit)).all()
        for level in ("county", "tract", "block"):
            none = history.in_period(level, impossible, t)
            assert np.abs([none.values, none.low, none.high]).max() == 0
    change = history.change("county", total, (0, 1))
    truth = true_counts(given, "2032", [], 1).ravel() - true_counts(given, "2031", [], 1).ravel()
    assert change.values.tolist() == change.low.tolist() == change.high.tolist() == truth.tolist()
    for number in range(2):
        below = np.zeros_like(history.whole[number])
        np.add.at(below, history.spine.levels[number + 1].parents, history.whole[number + 1])
        assert np.array_equal(below, history.whole[number])


def test_public_shares_are_refused(made: tuple[Path, Path, Revision]) -> None:
    """Of whichever release."""
    for number in (0, 1):
        releases = list(series_at(made[1]))
        stated = replace(releases[number].spec.universes()[0], facts=(cast("Any", "shares"),))
        spec = cast("Any", SimpleNamespace(universes=lambda stated=stated: (stated,)))
        releases[number] = replace(releases[number], spec=spec)
        with pytest.raises(InputError, match="a history does not know public shares, which these releases have"):
            revised(releases)


def test_bounds_that_are_forgotten_are_broken(
    made: tuple[Path, Path, Revision], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: a history that knows no bounds has more men in some tract than its homes may have."""
    given, out, _ = made
    monkeypatch.setattr("features.years.history._ranges", lambda *_: iter(()))
    history = revised(series_at(out))
    men = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    values = np.array([history.in_period("tract", men, t).values for t in range(2)])
    total = np.array([history.in_period("county", np.ones(6), t).values for t in range(2)])
    truth = np.array([true_counts(given, year, [], 1).ravel() for year in YEARS[:2]])
    assert (values > HOMES * homes(given).to_numpy()).any() or (total != truth).any()


ZERO = ('{ born = "since 2000", sex = "x" }', '{ born = "before 2000", sex = "x" }')
MORE = (' sex = "x" } ]', ' sex = "x" }, { born = "since 2000", sex = "m" } ]')


def _known(groups: str) -> tuple[tuple[str, str], ...]:
    """A second invariant, of groups of a recode."""
    recode = f'[schema.recodes.known]\nattribute = "sex"\ngroups = {groups}\n\n[strategy.queries]'
    return ("[strategy.queries]", recode), ('county = ["total"]', 'county = ["total", "known"]')


def _year(given: Path, out: Path, year: str, *changes: tuple[str, str]) -> Path:
    spec = write_series_town(given, *CHANGES, *INDEPENDENT)
    homes(given).to_csv(given / "homes.csv")
    for old, new in changes:
        assert spec.read_text().count(old) == 1, old
        spec.write_text(spec.read_text().replace(old, new))
    return run_period(spec, out, year, given / f"persons-{year}.csv")


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ((), (ZERO,), "structural_zeros: 'before 2000 \\* x' is impossible here and not in .*-2031"),
        ((MORE,), (), "structural_zeros: 'since 2000 \\* m' is possible here and not in .*-2031"),
        (
            _known('{ told = ["f", "m"], other = ["x"] }'),
            _known('{ told = ["f"], other = ["m", "x"] }'),
            "invariants: known of county sums other values than in .*-2031",
        ),
    ],
)
def test_what_is_exact_is_the_same_in_all_periods(
    first: tuple[tuple[str, str], ...],
    then: tuple[tuple[str, str], ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refused before a draw; and by a history, which has both of the last release, where releases were made so."""
    given, out = tmp_path / "in", tmp_path / "out"
    with monkeypatch.context() as without:
        without.setattr(SeriesRecords, "check", lambda *_: [])  # some records are in cells that a case forbids
        _year(given, out, "2031", *first)
        with pytest.raises(InputError, match=message):
            _year(given, out, "2032", *then)
        assert not (out / "padron-2032").exists()
        without.setattr(features.years.chain, "check_exact", lambda *_: None)
        _year(given, out, "2032", *then)
    with pytest.raises(InputError, match=message):
        series_at(out)


def test_bounds_may_change_and_each_period_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first year are far below its records, so that neither year's would keep the other's."""
    monkeypatch.setattr(SeriesRecords, "check", lambda *_: [])
    men, given, most = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0]), tmp_path / "in", (10, HOMES)
    for year, upper in zip(YEARS, most, strict=False):
        _year(given, tmp_path / "out", year, (f"upper = {HOMES}", f"upper = {upper}"))
    history, number = revised(series_at(tmp_path / "out")), homes(given).to_numpy()
    values = [history.in_period("tract", men, t).values for t in range(2)]
    assert all((found <= upper * number).all() for upper, found in zip(most, values, strict=True))
    assert (values[1] > 10 * number).any()

"""A history from the public files of a series: its estimates, what it keeps, and its page in a real browser."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from releases.browser import Opened, opened
from releases.made_case import made_case
from releases.policy import runs_its_own_scripts_alone
from releases.series_town import INDEPENDENT, YEARS, MadeSeries, true_counts, write_series_town
from releases.small import run_period

import features.years.chain
from features.years.confidential import SeriesRecords
from features.years.design import Design
from features.years.revision import DIRECTION_SUFFIX, Revision, revised, series_at
from features.years.vintage import PAGE, write_revision
from geography.errors import InputError
from pipeline.errors import ReleaseError

LEVELS = ("county", "tract", "block")


@pytest.fixture(scope="module")
def history(town_series: MadeSeries) -> Revision:
    return revised(series_at(town_series.out))


def test_without_a_model_a_history_is_what_each_release_estimates_by_itself(
    town_series: MadeSeries, history: Revision
) -> None:
    """Means and variances of each period are those of the release's own unbiased estimates, by another program's way.

    But for what is rounded off the published numbers: half a number in some 260 of them.
    """
    for number, level in enumerate(LEVELS[:2]):  # those of a table by sex
        for t, year in enumerate(YEARS):
            stated = pd.read_parquet(town_series.release(year) / "public" / "estimates" / f"{level}.parquet")
            for answer, sex in enumerate(([1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0])):
                found, covariance = history.plain[number].sums(np.array(sex))
                estimates = np.stack(stated["sex"].to_list())[:, answer]
                variances = np.stack(stated["sex:variance"].to_list())[:, answer]
                assert np.abs(found[:, t] - estimates).max() < 0.01
                assert np.abs(covariance[:, t, t] / variances - 1).max() < 1e-5


def test_intervals_of_changes_know_the_covariance_of_the_noise(history: Revision) -> None:
    """Their half width by hand: what a year's variance is, times the variance of the change by G^-1."""
    assert history.universe.series is not None
    inverse = Design(history.universe.series.terms.design, 2, "change-one").covariance
    cells = np.ones(4)
    for level in ("county", "block"):
        at = history.spine.index_of(level)
        year = history.plain[at].sums(cells)[1][:, 0, 0] / inverse[0, 0]
        variance = year * (inverse[0, 0] + inverse[2, 2] - 2 * inverse[0, 2])
        numbers = history.numbers(level, cells, 2, 0)
        width = (numbers.high - numbers.low) / 2
        assert np.abs(width - 1.645 * np.sqrt(variance)).max() < 1.6  # whole numbers, and the released one is within
        independent = 1.645 * np.sqrt(year * (inverse[0, 0] + inverse[2, 2]))
        assert (width < independent + 1).all()


def test_fewer_periods_and_independent_ones_have_a_history_too(
    own_series: MadeSeries, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The variance of a change of independent periods is the sum of two."""
    shutil.rmtree(own_series.release("2033"))
    assert revised(series_at(own_series.release("2031"))).periods == ("2031", "2032")
    apart = revised(series_at(made_case(tmp_path_factory, "independent") / "out"), model=True)
    for level in range(3):
        _, covariance = apart.plain[level].sums(np.ones(4))
        assert np.abs(covariance[:, 0, 1]).max() < 1e-9 * covariance[:, 0, 0].max()
    assert [one is None for one in apart.changes[:2]] == [True, False]


def test_a_revision_says_what_it_changes_against_the_one_before(own_series: MadeSeries, tmp_path: Path) -> None:
    """By pandas from the two versions' own tables; the first has nothing to compare with."""
    later, kept = own_series.release("2033"), tmp_path / "kept"
    shutil.move(later, kept)
    first = write_revision(revised(series_at(own_series.out)), tmp_path / "out")
    shutil.move(kept, later)
    history = revised(series_at(own_series.out), model=True)
    second = write_revision(history, tmp_path / "out")
    stated = [json.loads((folder / "revision.json").read_text("utf-8")) for folder in (first, second)]
    assert [one["vintage"] for one in stated] == [1, 2]
    assert (stated[0]["predecessor"], stated[0]["revised"]) == (None, {})
    assert not (first / "revised").exists()
    digest = hashlib.sha256((first / "revision.json").read_bytes()).hexdigest()
    assert stated[1]["predecessor"] == {"folder": "padron-revised-2032", "sha256": digest}
    for table, level, labels in (("total", "block", ["total"]), ("sex", "tract", ["f", "m"])):
        path = Path("tables") / table / f"{level}.parquet"
        old, new = (
            pd.read_parquet(folder / path).set_index(["geocode", "period"])[labels] for folder in (first, second)
        )
        difference = (new - old).dropna().astype(int)
        said = pd.read_parquet(second / "revised" / table / f"{level}.parquet").set_index(["geocode", "period"])
        others = difference[(difference != 0).any(axis=1)]
        assert len(others) > 0
        assert said.index.tolist() == [row for row in new.index if row in others.index]
        for label in labels:
            assert said[f"{label}:revised"].tolist() == others.loc[said.index, label].tolist()
            assert (said[label] - said[f"{label}:before"]).tolist() == said[f"{label}:revised"].tolist()
        for period in YEARS[:2]:
            own = difference.xs(period, level="period")
            assert stated[1]["revised"][f"revised/{table}/{level}.parquet"][period] == {
                "numbers": own.size, "revised": int((own != 0).to_numpy().sum()), "largest": int(own.abs().max().max()),
            }  # fmt: skip
    for folder, one in zip((first, second), stated, strict=True):
        files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
        assert set(one["files"]) == files
        for name, listed in one["files"].items():
            assert listed["rows"] == len(pd.read_parquet(folder / name))
            assert listed["sha256"] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    made = {path.name: path.read_bytes() for path in second.rglob("*.parquet")}
    shutil.rmtree(second)
    write_revision(history, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in second.rglob("*.parquet")} == made
    (first / "tables" / "total" / "block.parquet").write_bytes(b"other")
    shutil.rmtree(second)
    with pytest.raises(ReleaseError, match=r"not the file that revision\.json beside it lists"):
        write_revision(history, tmp_path / "out")
    assert not second.exists()
    (first / "revision.json").write_text(json.dumps(stated[0] | {"periods": {"2031": "0" * 64}}))
    with pytest.raises(InputError, match="a revision of other releases than the first 1 of these"):
        write_revision(history, tmp_path / "out")
    (first / "revision.json").write_text("[]")
    with pytest.raises(ReleaseError, match="missing or damaged"):
        write_revision(history, tmp_path / "out")


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
        exact = history.numbers("county", total, t)
        truth = true_counts(given, year, [], 1).ravel()
        assert exact.values.tolist() == exact.low.tolist() == exact.high.tolist() == truth.tolist()
        bounded = history.numbers("tract", men, t)
        assert ((bounded.values >= limit // HOMES) & (bounded.values <= limit)).all()
        for level in ("county", "tract", "block"):
            none = history.numbers(level, impossible, t)
            assert np.abs([none.values, none.low, none.high]).max() == 0
    change = history.numbers("county", total, 1, 0)
    truth = true_counts(given, "2032", [], 1).ravel() - true_counts(given, "2031", [], 1).ravel()
    assert change.values.tolist() == change.low.tolist() == change.high.tolist() == truth.tolist()
    for number in range(2):
        below = np.zeros_like(history.whole[number])
        np.add.at(below, history.spine.levels[number + 1].parents, history.whole[number + 1])
        assert np.array_equal(below, history.whole[number])


def test_bounds_that_are_forgotten_are_broken(
    made: tuple[Path, Path, Revision], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: a history that knows no bounds has more men in some tract than its homes may have."""
    given, out, _ = made
    monkeypatch.setattr("features.years.history._ranges", lambda *_: iter(()))
    history = revised(series_at(out))
    men = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    values = np.array([history.numbers("tract", men, t).values for t in range(2)])
    total = np.array([history.numbers("county", np.ones(6), t).values for t in range(2)])
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
    values = [history.numbers("tract", men, t).values for t in range(2)]
    assert all((found <= upper * number).all() for upper, found in zip(most, values, strict=True))
    assert (values[1] > 10 * number).any()


#: As signs and numbers are shown.
_MINUS, _TO = "\N{MINUS SIGN}", "\N{EN DASH}"


@pytest.fixture(scope="module")
def revision(town_series: MadeSeries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_revision(revised(series_at(town_series.out)), tmp_path_factory.mktemp("revision"))


def _number(text: str) -> int:
    return int(text.replace(_MINUS, "-").replace("+", "").replace(",", ""))


def _stored(path: Path, *keys: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """The rows of a file of the revision."""
    rows: list[dict[str, Any]] = json.loads(str(pd.read_parquet(path).to_json(orient="records")))
    return {tuple(row[key] for key in keys): row for row in rows}


def _cells(shown: Opened, table: str) -> list[list[str]]:
    """Each row of a table of the page; what stands below a number is a text of its own."""
    script = (
        "(id) => [...document.querySelectorAll(`#${id} tbody tr`)].map(row => [...row.children].flatMap("
        "cell => [...cell.childNodes].map(one => one.textContent)))"
    )
    found: list[list[str]] = shown.page.evaluate(script, table)
    return found


def _choose(shown: Opened, code: str) -> None:
    shown.page.fill("#search", code)
    shown.page.wait_for_selector("#found-0")
    shown.wait("press", "#search", "Enter")


def _compare(shown: Opened, revision: Path, table: str, level: str, code: str, label: str) -> set[str]:
    """Compare what the page says of an area with the files; the verdicts."""
    numbers = _stored(revision / "tables" / table / f"{level}.parquet", "geocode", "period")
    changes = _stored(revision / "changes" / table / f"{level}.parquet", "geocode", "from", "to")
    first, *rest = _cells(shown, "changes")
    for year, cells in zip(YEARS, (first, *rest), strict=True):
        stored = numbers[code, year]
        assert (cells[0], _number(cells[1])) == (year, stored[label])
        assert list(map(_number, cells[2].split(_TO))) == [stored[label + ":low90"], stored[label + ":high90"]]
    said = set()
    for (before, year), cells in zip(pairwise(YEARS), rest, strict=True):
        stored = changes[code, before, year]
        low, high = map(_number, cells[4].split(" to "))
        assert (_number(cells[3]), low, high) == tuple(stored[label + end] for end in ("", ":low90", ":high90"))
        assert cells[5] == stored[label + DIRECTION_SUFFIX]
        said.add(cells[5])
    whole = changes[code, YEARS[0], YEARS[-1]]
    verdict = shown.page.inner_text("#verdict")
    words = {"rose": "the number rose by ", "fell": "the number fell by ", "cannot tell": "It cannot be told whether"}
    assert words[whole[label + DIRECTION_SUFFIX]] in verdict
    signed = [
        f"{value:+}".replace("-", _MINUS) if value else "0"
        for value in (whole[label + ":low90"], whole[label + ":high90"])
    ]
    assert f"(90 % interval: {signed[0]} to {signed[1]})" in verdict
    return said


@pytest.mark.slow
def test_every_number_of_the_page_is_that_of_the_tables(browser: Any, revision: Path) -> None:
    """Every area and answer, the line and its band too; the parent and the areas within are a press away."""
    shown = opened(browser, revision / PAGE)
    said = set()
    spine = pd.read_parquet(revision / "tables" / "total" / "block.parquet")["geocode"].unique()
    areas = {
        "county": sorted({code[:1] for code in spine}),
        "tract": sorted({code[:3] for code in spine}),
        "block": list(spine),
    }
    for level, codes in areas.items():
        for code in codes:
            _choose(shown, code)
            assert code in shown.page.text_content("#area-title")
            shown.wait("select_option", "#table", "0")
            said |= _compare(shown, revision, "total", level, code, "total")
            if level == "block":
                assert shown.page.locator("#table option").count() == 1
                continue
            for number, sex in enumerate(("f", "m")):
                shown.wait("select_option", "#table", "1")
                shown.wait("select_option", "#cell", str(number))
                said |= _compare(shown, revision, "sex", level, code, sex)
    assert len(said) > 1, "the town has areas of which nothing can be told, and others"
    _choose(shown, "A")
    inside = _cells(shown, "inside")
    changes = _stored(revision / "changes" / "total" / "tract.parquet", "geocode", "from", "to")
    for row in inside:
        stored = changes[row[0], YEARS[0], YEARS[-1]]
        assert (_number(row[3]), row[5]) == (stored["total"], stored["total" + DIRECTION_SUFFIX])
    shown.wait("click", "#inside tbody tr:nth-child(2) button")
    assert "A02" in shown.page.text_content("#area-title")
    assert shown.page.evaluate("document.activeElement.id") == "area-title"
    shown.wait("click", "#above button")
    assert shown.page.text_content("#area-title").endswith(" A")
    assert shown.complaints == []
    assert shown.requests == []
    shown.page.context.close()


@pytest.mark.slow
def test_everybody_can_read_it(browser: Any, revision: Path) -> None:
    """No rule of axe-core is broken, nothing is wider than a telephone, and paper has the table and no controls."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    for width, dark in ((390, False), (1280, True)):
        shown = opened(browser, revision / PAGE, width=width, dark=dark)
        _choose(shown, "B")
        found = axe.Axe().run(shown.page).response["violations"]
        assert [f"{one['id']}: {[node['target'] for node in one['nodes']]}" for one in found] == []
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        shown.page.emulate_media(media="print")
        assert not shown.page.locator("#search").is_visible()
        for kept in ("#line", "#changes", "#verdict", "#area-title"):
            assert shown.page.locator(kept).is_visible()
        assert shown.complaints == []
        shown.page.context.close()


def test_what_is_put_into_the_page_does_not_run(revision: Path, browser: Any, tmp_path: Path) -> None:
    runs_its_own_scripts_alone(browser, revision / PAGE, tmp_path)


def test_public_shares_are_refused(made: tuple[Path, Path, Revision]) -> None:
    """Of whichever release."""
    for number in (0, 1):
        releases = list(series_at(made[1]))
        stated = replace(releases[number].spec.universes()[0], facts=(cast("Any", "shares"),))
        spec = cast("Any", SimpleNamespace(universes=lambda stated=stated: (stated,)))
        releases[number] = replace(releases[number], spec=spec)
        with pytest.raises(InputError, match="a history does not know public shares, which these releases have"):
            revised(releases)

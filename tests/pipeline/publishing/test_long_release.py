"""A release with a table of many numbers an area: made again, judged, read, compared and exported as any other."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from releases.once import release_once, spec_once
from releases.small import write_spec

from auditor.check.release import check_release, examine
from features.exports.release import export_release
from pipeline.execution.steps import Silent
from pipeline.published import open_finished
from pipeline.reading.release import Release, open_release, reader_of
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release
from pipeline.storage.paths import unchecked

#: 2,100 numbers an area, most of them zeros, on five tracts of two counties with names.
AGES, GROUPS, SEXES = tuple(f"a{age}" for age in range(70)), tuple(f"g{group}" for group in range(15)), ("f", "m")
SPEC = f"""
name = "long"
privacy = {{ rho = "4", key = "insecure-test:5" }}
input = {{ file = "persons.csv", form = "microdata", geocode = "tract" }}
tables = {{ total = "total", all = "detailed" }}
[geography]
file = "tracts.csv"
column = "tract"
levels = {{ county = 1, tract = 3 }}
names.tract = {{ file = "names.csv", code = "tract", name = "name" }}
[schema.attributes]
age = [{", ".join(f'"{age}"' for age in AGES)}]
sex = ["f", "m"]
group = [{", ".join(f'"{group}"' for group in GROUPS)}]
[strategy]
queries = {{ total = "1/4", "sex * age" = "1/4", detailed = "1/2" }}
levels = {{ county = "1/2", tract = "1/2" }}
[publish]
replicates = 2
"""
SIZE = len(AGES) * len(GROUPS) * len(SEXES)
TABLE = Path("public/tables/all/tract.parquet")


def write_long(folder: Path) -> Path:
    """Write records, tracts and spec; one of the tracts is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    tracts = ["A01", "A02", "B01", "B02", "B03"]
    pd.DataFrame({"tract": tracts}).to_csv(folder / "tracts.csv", index=False)
    pd.DataFrame({"tract": tracts, "name": [f"Tract {code}" for code in tracts]}).to_csv(
        folder / "names.csv", index=False
    )
    rng = np.random.default_rng(4)
    n = 600
    columns = {"tract": np.array(tracts)[rng.choice(4, n)]}
    for name, values, skew in (("age", AGES, 25.0), ("sex", SEXES, 1.0), ("group", GROUPS, 1.5)):
        number = np.minimum(rng.exponential(skew, n).astype(int), len(values) - 1)
        columns[name] = np.array(values)[number]
    pd.DataFrame(columns).to_csv(folder / "persons.csv", index=False)
    return write_spec(folder, SPEC, ())


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_once(tmp_path_factory, "long", spec_once(tmp_path_factory, "long", write_long))


@pytest.fixture(scope="module")
def release(released: Path) -> Release:
    return open_release(released)


@pytest.fixture
def copy(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "long"))


def _true(release: Release, root: Path, level: str) -> np.ndarray:
    path = root / "public" / "histograms" / f"{level}.parquet"
    counts = read_histogram(unchecked(path), reader_of(release).spine.level(level).geocodes, reader_of(release).schema)
    return np.asarray(counts.toarray())


def test_the_table_is_the_histogram_and_small_and_judged_well(released: Path, release: Release) -> None:
    assert verify_release(RunDirectory(released), 1, Silent()) == []
    assert examine(released).problems == []
    page = (released / "public" / "report.html").read_text("utf-8")
    assert ("tables/all/tract.parquet" in page, "a69 * m * g14" in page) == (True, False)
    for level in ("county", "tract"):
        table = release.table("all", level)
        assert table.shape == (len(reader_of(release).spine.level(level)), 4 * SIZE)
        labels = [name for name in table.columns if ":" not in name]
        assert np.array_equal(table[labels], _true(release, released, level))
        frame = pd.read_parquet(released / "public" / "tables" / "all" / f"{level}.parquet")
        assert (frame.groupby("geocode", observed=True)["answers"].sum() == SIZE).all()
        assert frame["count"].sum() == release.table("total", level)["total"].sum()
        assert len(frame) < 0.6 * len(table) * SIZE


def test_every_export_has_its_numbers(released: Path, release: Release, tmp_path: Path) -> None:
    """As they are stored, or with a column for each answer."""
    published, table = open_finished(released, check_hashes=True), release.table("all", "tract")
    labels = [name for name in table.columns if ":" not in name]

    def exported(layout: str) -> Path:
        return export_release(published, layout, tmp_path / layout, tables=["all"], levels=["tract"])

    stored = pd.read_parquet(released / TABLE)
    numbers = ["answers", "count", "moe90", "low90", "high90"]
    with duckdb.connect(str(exported("duckdb") / "long.duckdb"), read_only=True) as opened:
        of_database = opened.sql("select * from all_tract").df()
    for found in (
        pd.read_csv(exported("csv") / "all" / "tract.csv"),
        pd.read_parquet(exported("parquet") / "all" / "tract.parquet"),
        of_database,
    ):
        assert np.array_equal(found[numbers].to_numpy(float), stored[numbers].to_numpy(float), equal_nan=True)
        assert (found["name"] == "Tract " + found["geocode"].astype(str)).all()
    sdmx = pd.read_csv(next(exported("sdmx").rglob("*.csv.gz")))
    assert sdmx["OBS_VALUE"].tolist() == table[labels].to_numpy().ravel().tolist()
    assert np.array_equal(sdmx["HIGH90"], table[[f"{label}:high90" for label in labels]].to_numpy().ravel())
    sheet = pd.read_excel(exported("xlsx") / "all.xlsx", sheet_name="tract")
    assert np.array_equal(sheet[labels], table[labels])


def one_more(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(count=frame["count"] + (frame.index == frame.index[frame["count"] > 0][0]))


def made_zero(frame: pd.DataFrame) -> pd.DataFrame:
    """A number that is not a zero is among the zeros without a row, which are one more."""
    row = frame.index[frame["count"] > 0][0]
    of_zeros = frame["age"].isna() & (frame["geocode"] == frame["geocode"][row])
    return frame.assign(answers=frame["answers"] + of_zeros).drop(index=row)


def lacking(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["geocode"] != "B03"]


FAULTS: list[tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = [
    (one_more, "1 too many (the sum over the histogram's cells)"),
    (made_zero, "too few (the sum over the histogram's cells)"),
    (lambda frame: frame.drop(index=frame.index[frame["count"] > 0][0]), "its rows say that they are of 2,099 answers"),
    (lambda frame: pd.concat([frame.iloc[:1], frame]), "its rows say that they are of 2,101 answers"),
    (lambda frame: frame.assign(answers=frame["answers"] - (frame["age"].isna() & (frame["geocode"] == "A01"))),
     "its rows say that they are of 2,099 answers"),
    (lambda frame: frame.assign(count=frame["count"] + frame["age"].isna()), "its zeros: found 1, a zero is required"),
    (lacking, "(Tract B03): its rows say that they are of 0 answers"),
    (lambda frame: frame.assign(age=frame["age"].where(frame.index != 0)), "row 1 has no known label of some term"),
    (lambda frame: frame.assign(high90=frame["high90"] - 99 * (frame.index == 0)), "with margin of error"),
    (lambda frame: frame.assign(high90=frame["high90"] - 99 * frame["age"].isna()), "its zeros, its interval: found"),
]  # fmt: skip


def test_the_second_program_names_what_is_wrong(copy: Path) -> None:
    kept = pd.read_parquet(copy / TABLE)
    for name in ("geocode", "age", "sex", "group"):
        kept[name] = kept[name].astype(object)
    for how, needed in FAULTS:
        how(kept.copy()).to_parquet(copy / TABLE, index=False)
        problems = check_release(copy)
        assert any(needed in problem for problem in problems), (needed, problems)


def test_coverage_is_counted_by_size_and_half_the_width_shows(
    released: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `benchmarks/bench_wide.py --part coverage` counts it."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "benchmarks")
    bench = importlib.import_module("bench_wide")
    spec = spec_once(tmp_path_factory, "long", write_long)
    whole, half = (bench.classes(spec, released, width) for width in (1.0, 0.5))
    assert whole.drop(columns="inside").equals(half.drop(columns="inside"))
    by = whole.groupby("by")[["numbers", "inside"]].sum()
    assert by.loc["true"].equals(by.loc["released"])
    assert by.loc["true", "numbers"] > 7 * SIZE / 2
    inside, of_half = (int(rows.loc[rows["size"] > 0, "inside"].sum()) for rows in (whole, half))
    assert of_half < 0.6 * inside
    assert len(bench.missed(half)) > len(bench.missed(whole))

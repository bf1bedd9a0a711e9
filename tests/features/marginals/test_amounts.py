"""Amounts in records: bins of public ends, counted as any value; in the microdata, numbers drawn inside the bins."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.command import printed, spinewise
from releases.repeated import rerun
from releases.small import public_bytes, run
from releases.wide import ATTRIBUTES, SPEC, leaves, records, write_wide
from scipy.stats import chi2

import features.marginals.estimation as estimation
import spinewise as sw
from auditor.check.release import check_release
from auditor.program import audit
from features.marginals.cliques import AttributeSizes
from features.marginals.records import WholeRecords, drawn_numbers
from features.marginals.section import Bins
from features.marginals.whole import Seed
from pipeline.errors import RefusedError, SpecError
from pipeline.execution.progress import Silent
from pipeline.inputs.geography import read_spine
from pipeline.reading.release import open_release
from pipeline.records.tabulate import tabulate
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec, load_spec, parse_spec
from postprocess.arrays import IntArray

LEVELS = {"county": 1, "tract": 3, "block": 5}
ENDS = {"wages": ((0, 0), (1, 9999), (10000, 49999), (50000, 999999)), "hours": ((-5, -1), (0, 39), (40, 99))}
BINS = {name: [f"{first}..{last}" for first, last in ends] for name, ends in ENDS.items()}
AMOUNTS = ("[marginals]\ncliques = [", '[marginals]\ncliques = [["work", "wages"], ["wages", "hours"], ')
STATED = (
    "[strategy.levels]",
    "\n".join(
        ["[marginals.amounts]", *(f"{name} = {json.dumps(BINS[name])}" for name in BINS), "", "[strategy.levels]"]
    ),
)


def amounts(n: int = 1500) -> pd.DataFrame:
    """The records of `records`, with wages by work, and hours, some of them below 0."""
    rng, table = np.random.default_rng(8), records(n=n)
    earned = np.minimum(np.exp(rng.normal(10, 1.2, n)).astype(np.int64), 999_999)
    table["wages"] = np.where(table["work"] == "no", 0, earned)
    table["hours"] = np.where(table["wages"] > 0, rng.integers(10, 100, n), rng.integers(-5, 3, n))
    return table


def write(folder: Path, *changes: tuple[str, str], table: pd.DataFrame | None = None) -> Path:
    """Spec and records; `changes` as of `write_wide`."""
    spec = write_wide(folder, AMOUNTS, STATED, *changes)
    (amounts() if table is None else table).to_csv(folder / "persons.csv", index=False)
    return spec


def binned(name: str, values: pd.Series) -> pd.Series:
    """The bins of some numbers, by cutting at the ends."""
    ends = [first for first, _ in ENDS[name]] + [ENDS[name][-1][1] + 1]
    return pd.cut(values, ends, right=False, labels=BINS[name]).astype(str)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("amounts") / "in")


@pytest.fixture(scope="module")
def root(spec: Path) -> Path:
    return run(spec, spec.parent.parent / "out")


@pytest.fixture(scope="module")
def microdata(root: Path) -> pd.DataFrame:
    return pq.read_table(root / "public" / "microdata.parquet").to_pandas()


# -- the spec ---------------------------------------------------------------------------------------------------------


def _spec(*changes: tuple[str, str]) -> ReleaseSpec:
    text = SPEC
    for old, new in (AMOUNTS, STATED, *changes):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return parse_spec(text, "wide.toml")


def test_an_amount_is_an_attribute_whose_values_are_its_bins() -> None:
    """As if attribute and ranges were stated by hand, so budget, noise and guarantee are those of any."""
    by_hand = SPEC.replace(*AMOUNTS).replace(
        'car = ["no", "yes"]\n',
        f'car = ["no", "yes"]\nwages = {json.dumps(BINS["wages"])}\nhours = {json.dumps(BINS["hours"])}\n',
    )
    for name, values in BINS.items():
        by_hand += f"\n[input.values.{name}]\n" + "\n".join(f'"{value}" = "{value}"' for value in values) + "\n"
    mine, theirs = _spec().universes(), parse_spec(by_hand, "wide.toml").universes()
    assert [one.privacy_fingerprint() for one in mine] == [one.privacy_fingerprint() for one in theirs]
    assert [one.input for one in mine] == [one.input for one in theirs]
    assert [one.name for one in mine[0].record_attributes] == [*ATTRIBUTES, "wages", "hours"]
    assert [one.name for one in mine[0].record_numbers] == ["wages_drawn", "hours_drawn"]
    assert theirs[0].record_numbers == () == mine[1].record_numbers


def test_a_published_spec_has_the_bins_and_is_refused_with_others() -> None:
    content = _spec().public_dict()
    assert content["marginals"]["amounts"] == [[name, values] for name, values in BINS.items()]
    again = ReleaseSpec.from_public_dict(json.loads(json.dumps(content)))
    assert again.public_dict() == content
    assert again.universes()[0].record_numbers == _spec().universes()[0].record_numbers
    for changed in ([["wages", ["0..0", "1..9"]]], [["pay", BINS["wages"]]]):
        content["marginals"]["amounts"] = changed
        with pytest.raises(
            SpecError, match=rf"amounts.{changed[0][0]}: these bins are not the values of the attribute"
        ):
            ReleaseSpec.from_public_dict(content)
    assert "amounts" not in parse_spec(SPEC, "wide.toml").public_dict()["marginals"]


@pytest.mark.parametrize(
    ("bins", "said"),
    [
        (["0..0", "2..9"], "found '2..9' after '0..0', a gap: 1 would be in no bin; each bin begins where the one"),
        (["0..5", "5..9"], "found '5..9' after '0..5', which overlap: 5 would be in both; each number is in one bin"),
        (["0..5", "-2..9"], "found '-2..9' after '0..5', which overlap: 0 would be in both"),
        (["5..9", "0..4"], "found '0..4' after '5..9'; the lower bin comes first"),
        (["9..1"], "found '9..1', whose last number is before its first"),
        (["0..9", "10+"], "found '10+'; a range is \"FIRST..LAST\", two whole numbers of at most 15 digits"),
        (["0..9", "10.."], "found '10..'; a range is \"FIRST..LAST\", two whole numbers"),
        (["0..9.5"], "found '0..9.5'; a range is"),
        (["0..1000000000000000"], "found '0..1000000000000000'; a range is"),
        (["0..0", "0..0"], "which overlap: 0 would be in both"),
    ],
)
def test_bins_that_are_none_are_refused_in_one_sentence(bins: Sequence[str], said: str) -> None:
    with pytest.raises(SpecError) as told:
        _spec((f"hours = {json.dumps(BINS['hours'])}", f"hours = {json.dumps(bins)}"))
    assert str(told.value).startswith("wide.toml: marginals.amounts.hours: ")
    assert said in str(told.value)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((f"hours = {json.dumps(BINS['hours'])}", "hours = []"), "marginals.amounts.hours: found an empty list"),
        (('car = ["no", "yes"]', 'car = ["no", "yes"]\nhours = ["few"]'), "hours: found in [schema.attributes], too"),
        (
            ('car = ["no", "yes"]', 'car = ["no", "yes"]\nwages_drawn = ["few"]'),
            "amounts.wages: its drawn numbers are called 'wages_drawn' in the microdata; give the attribute",
        ),
        (('geocode = "block"', 'geocode = "block"\ncoded = true'), "marginals.amounts: not with coded = true"),
        ((', ["wages", "hours"]', ""), "marginals.cliques: none has the attribute 'hours'"),
        (
            ("[publish]", '[input.values.wages]\n"" = "nothing"\n\n[publish]'),
            "input.values.wages.\"\": 'nothing' is not a value of wages",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_with_amounts_is_said(change: tuple[str, str], said: str) -> None:
    with pytest.raises(SpecError) as told:
        _spec(change)
    assert said in str(told.value)
    assert len(str(told.value).splitlines()) == 1


# -- records ----------------------------------------------------------------------------------------------------------


def _wrong(column: str, wrong: Mapping[int, object]) -> pd.DataFrame:
    """The records with something else in some rows, numbered from 1."""
    table = amounts()
    found = [wrong.get(row, value) for row, value in enumerate(table[column], start=1)]
    return table.assign(**{column: pd.Series(found, dtype=object)})


def test_numbers_outside_of_all_bins_are_refused_with_rows_and_bins_and_never_clipped(tmp_path: Path) -> None:
    table = _wrong("wages", {7: 1_000_000, 12: -1, 13: "12.5", 40: "many"})
    spec = write(tmp_path / "in", table=table)
    with pytest.raises(RefusedError):
        run(spec, tmp_path / "out")
    assert (tmp_path / "out/wide/restricted/refused.txt").read_text("utf-8").strip() == (
        f"{tmp_path}/in/persons.csv, column 'wages': a value outside the schema in 4 rows (rows 7, 12, 13, 40; lines "
        "8, 13, 14, 41): found '1000000', '-1', '12.5', 'many'; allowed are '0..0', '1..9999', '10000..49999', "
        "'50000..999999'"
    )
    done = spinewise("run", spec, "--out", tmp_path / "out2", "--allow-insecure-key")
    assert done.returncode == 2
    assert not list((tmp_path / "out2").rglob("measurements"))


def test_a_missing_number_is_refused_unless_it_has_a_bin_and_so_are_numbers_beyond(tmp_path: Path) -> None:
    table = _wrong("wages", {3: "", 9: 2_000_000})
    with pytest.raises(RefusedError):
        run(write(tmp_path / "in", table=table), tmp_path / "refused")
    said = (tmp_path / "refused/wide/restricted/refused.txt").read_text("utf-8")
    assert "column 'wages': a value outside the schema in 1 row (row 9; line 10): found '2000000'; allowed are" in said
    assert "column 'wages': a missing value in 1 row (row 3; line 4); allowed are '0..0', '1..9999'" in said
    stated = ("[publish]", '[input.values.wages]\n"" = "0..0"\n"1000000..9999999" = "50000..999999"\n\n[publish]')
    spec = load_spec(write(tmp_path / "in", stated, table=table))
    (of_hours,) = (one for one in spec.universes() if one.schema.names == ("wages", "hours"))
    counts = tabulate(of_hours.require_input(), of_hours.schema, read_spine(spec.geography))
    found = counts.sum(axis=0).reshape(4, 3).sum(axis=1)
    meant = amounts()["wages"]
    meant.iloc[[2, 8]] = [0, 50_000]
    assert dict(zip(BINS["wages"], found, strict=True)) == dict(binned("wages", meant).value_counts())


def test_numbers_are_those_of_any_file(spec: Path, root: Path, tmp_path: Path) -> None:
    """Whole numbers as 12.0, as a program with missing values writes them; in memory; and bins as texts."""
    floats = amounts().astype({"wages": float})
    assert "0.0" in floats.to_csv(index=False)
    texts = amounts()
    texts["hours"] = binned("hours", texts["hours"])
    for number, table in enumerate((floats, texts)):
        again = run(write(tmp_path / f"in{number}", table=table), tmp_path / f"out{number}")
        assert _same(root, again) == []
    assert _same(root, sw.run(sw.Spec.read(spec), records=amounts(), out=tmp_path / "out", workers=1).directory) == []


def _same(one: Path, other: Path) -> list[str]:
    """Public files that differ, but for the manifest, which has the names of what was read."""
    whole, again = public_bytes(one), public_bytes(other)
    return [name for name in {**whole, **again} if whole.get(name) != again.get(name) and "manifest" not in name]


# -- what is released -------------------------------------------------------------------------------------------------


def test_bins_in_the_microdata_are_the_published_numbers(root: Path, microdata: pd.DataFrame) -> None:
    release = open_release(root)
    for name, values in BINS.items():
        for level, width in LEVELS.items():
            shown = release.query(name).at(level)[values]
            counted = pd.crosstab(microdata["geocode"].astype(str).str[:width], microdata[name].astype(str))
            areas = sorted({leaf[:width] for leaf in leaves()})
            np.testing.assert_array_equal(shown, counted.reindex(index=areas, columns=values, fill_value=0))


def test_released_numbers_are_near_the_truth(root: Path) -> None:
    """Noise of a cell: six cliques, blocks have half of rho 3; the truth is cut at the ends, by another program."""
    truth = amounts()
    for name, values in BINS.items():
        shown = open_release(root).query(name).at("county")[values].to_numpy()
        true = pd.crosstab(truth["block"].str[:1], binned(name, truth[name])).reindex(columns=values, fill_value=0)
        assert 0 < np.abs(shown - true.to_numpy()).mean() < 8
        assert true.to_numpy().min() > 30


def test_a_drawn_number_is_inside_its_bin_and_stands_beside_it(microdata: pd.DataFrame) -> None:
    assert list(microdata.columns) == ["geocode", *ATTRIBUTES, "wages", "hours", "wages_drawn", "hours_drawn"]
    for name in BINS:
        drawn = microdata[f"{name}_drawn"]
        assert drawn.dtype == np.int64
        assert (binned(name, drawn) == microdata[name].astype(str)).all()


def test_drawn_numbers_of_a_release_are_uniform(microdata: pd.DataFrame) -> None:
    assert _uniform(_positions(microdata)) > 1e-4
    low = microdata.copy()
    for name, ends in ENDS.items():
        first = {text: first for text, (first, _) in zip(BINS[name], ends, strict=True)}
        low[f"{name}_drawn"] = low[name].astype(str).map(first)
    assert _uniform(_positions(low)) < 1e-12, "the fault is seen: always the lower end"


def _positions(microdata: pd.DataFrame) -> IntArray:
    """Which tenth of its bin each number is in, of the bins that have tenths."""
    found = []
    for name, ends in ENDS.items():
        for text, (first, last) in zip(BINS[name], ends, strict=True):
            if (last - first + 1) % 10 == 0 or last - first > 1000:
                numbers = microdata.loc[microdata[name].astype(str) == text, f"{name}_drawn"].to_numpy()
                found.append((numbers - first) * 10 // (last - first + 1))
    return np.concatenate(found)


def _uniform(tenths: IntArray) -> float:
    """The p-value that numbers from 0 to 9 are equally frequent."""
    counts = np.bincount(tenths, minlength=10)
    expected = counts.sum() / 10
    assert expected > 50
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 9))


# -- the draw by itself -----------------------------------------------------------------------------------------------

#: Bins with one number, few, many and more than a hash of 14 bits has.
DRAWN_BINS = Bins.of("a", ["-10..-1", "0..0", "1..7", "8..99999", "100000..999999999999999"])
SIZES = (10, 1, 7, 99992, 10**15 - 10**5)
N = 200_000


def _records(n_leaves: int = 400) -> WholeRecords:
    rng = np.random.default_rng(4)
    leaf = np.sort(rng.choice(n_leaves, N))
    return WholeRecords(leaf, np.stack([rng.choice(5, N), rng.choice(5, N)], axis=1))


DOMAIN = AttributeSizes(("a", "b"), (5, 5))
TWO = (DRAWN_BINS, Bins.of("b", DRAWN_BINS.values))


def _p_values(drawn: IntArray, people: WholeRecords) -> dict[str, float]:
    """Of several properties of what is drawn: chances, and independence of leaves, neighbours and amounts."""
    found: dict[str, float] = {}
    first = np.array([one.first for one in DRAWN_BINS.ranges])[people.values]
    size = np.array(SIZES)[people.values]
    place = (drawn - first) / size
    for value, n in ((0, 10), (2, 7)):
        counts = np.bincount((drawn - first)[:, 0][people.values[:, 0] == value], minlength=n)
        found[f"each of {n} numbers"] = float(chi2.sf(((counts - counts.mean()) ** 2 / counts.mean()).sum(), n - 1))
    for value in (3, 4):
        of_bin = people.values[:, 0] == value
        counts = np.bincount((place[of_bin, 0] * 64).astype(np.int64), minlength=64)
        found[f"64 parts of {SIZES[value]}"] = float(chi2.sf(((counts - counts.mean()) ** 2 / counts.mean()).sum(), 63))
        last = drawn[of_bin, 0] % 50
        counts = np.bincount(last, minlength=50)
        found[f"remainders of {SIZES[value]}"] = float(
            chi2.sf(((counts - counts.mean()) ** 2 / counts.mean()).sum(), 49)
        )
    wide = np.isin(people.values, (3, 4))

    def together(one: np.ndarray, other: np.ndarray) -> float:
        table = np.histogram2d(one, other, bins=8, range=[[0, 1], [0, 1]])[0]
        expected = table.sum(1)[:, None] * table.sum(0) / table.sum()
        return float(chi2.sf((((table - expected) ** 2)[expected > 0] / expected[expected > 0]).sum(), 49))

    both = wide.all(axis=1)
    found["two amounts"] = together(place[both, 0], place[both, 1])
    next_one = wide[1:, 0] & wide[:-1, 0]
    found["neighbours"] = together(place[1:, 0][next_one], place[:-1, 0][next_one])
    starts = np.searchsorted(people.leaf, np.unique(people.leaf))
    rank = (np.arange(N) - starts[np.unique(people.leaf, return_inverse=True)[1]]) / 600
    found["place in the leaf"] = together(place[wide[:, 0], 0], np.minimum(rank[wide[:, 0]], 0.999))
    return found


@pytest.mark.parametrize("seed", [0, 1, 2**62 + 3])
def test_every_number_of_a_bin_has_the_same_chance_whatever_else_a_record_has(seed: int) -> None:
    people = _records()
    drawn = drawn_numbers(people, TWO, DOMAIN, Seed(seed))
    first = np.array([one.first for one in DRAWN_BINS.ranges])[people.values]
    last = np.array([one.last for one in DRAWN_BINS.ranges])[people.values]
    assert ((first <= drawn) & (drawn <= last)).all()
    p_values = _p_values(drawn, people)
    assert min(p_values.values()) > 1e-5, p_values


def _lower_end(people: WholeRecords) -> IntArray:
    return np.array([one.first for one in DRAWN_BINS.ranges])[people.values]


def _few_bits(people: WholeRecords) -> IntArray:
    """Numbers of 14 bits, which are fewer than a wide bin has."""
    size = np.array(SIZES)[people.values]
    return _lower_end(people) + Seed(0).numbers(1, np.arange(N)[:, None], np.arange(2)) % size


def _same_for_both(people: WholeRecords) -> IntArray:
    hashed = Seed(0).bits(1, np.arange(N)[:, None])
    return _lower_end(people) + (hashed % np.array(SIZES, dtype=np.uint64)[people.values]).astype(np.int64)


def _by_place_alone(people: WholeRecords) -> IntArray:
    """The n-th record of every leaf has the same number."""
    place = np.arange(N) - np.searchsorted(people.leaf, people.leaf)
    hashed = Seed(0).bits(1, place[:, None], np.arange(2))
    return _lower_end(people) + (hashed % np.array(SIZES, dtype=np.uint64)[people.values]).astype(np.int64)


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (_lower_end, "each of 10 numbers"),
        (_few_bits, f"64 parts of {SIZES[3]}"),
        (_same_for_both, "two amounts"),
        (_by_place_alone, "place in the leaf"),
    ],
)
def test_faults_in_the_draw_would_be_seen(fault: Callable[[WholeRecords], IntArray], seen: str) -> None:
    people = _records()
    assert _p_values(fault(people), people)[seen] < 1e-9


def test_no_draw_depends_on_another_leaf() -> None:
    people = _records()
    whole = drawn_numbers(people, TWO, DOMAIN, Seed(5))
    part = people.leaf >= 100
    alone = drawn_numbers(WholeRecords(people.leaf[part], people.values[part]), TWO, DOMAIN, Seed(5))
    np.testing.assert_array_equal(whole[part], alone)
    assert (whole != drawn_numbers(people, TWO, DOMAIN, Seed(6))).mean() > 0.5


# -- the same bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_workers_do_not_change_a_byte(spec: Path, root: Path, tmp_path: Path, workers: int) -> None:
    assert _same(root, run(spec, tmp_path / "out", workers=workers)) == []


def test_batches_do_not_change_a_byte(spec: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimation, "_AT_ONCE", 200)
    assert _same(root, run(spec, tmp_path / "out")) == []


def test_a_rerun_has_the_same_bytes_and_it_is_verified_checked_and_audited(root: Path) -> None:
    assert rerun(root).differences == ()
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert check_release(root) == []
    assert [one for one in audit(root) if not one.passed] == []


# -- judges -----------------------------------------------------------------------------------------------------------


def _changed(root: Path, folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Path:
    again = folder / "changed"
    shutil.copytree(root, again)
    path = again / "public" / "microdata.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.Table.from_pandas(change(table.to_pandas()), table.schema, preserve_index=False), path)
    return again


def _row_of(table: pd.DataFrame, bin_: str) -> int:
    return int(np.flatnonzero(table["wages"] == bin_)[0])


def _outside(table: pd.DataFrame) -> pd.DataFrame:
    table.loc[_row_of(table, "1..9999"), "wages_drawn"] = 10_000
    return table


def _lower_ends(table: pd.DataFrame) -> pd.DataFrame:
    first = dict(zip(BINS["wages"], (first for first, _ in ENDS["wages"]), strict=True))
    return table.assign(wages_drawn=table["wages"].astype(str).map(first))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_outside, "has 10000 as 'wages_drawn', and '1..9999' as 'wages'"),
        (_lower_ends, "as 'wages', in which the public seed draws "),
    ],
)
def test_other_numbers_are_caught_by_verify_and_by_the_second_program(
    root: Path, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], said: str
) -> None:
    again = _changed(root, tmp_path, change)
    assert any("microdata.parquet" in problem for problem in verify_release(RunDirectory(again), 1, Silent()))
    assert any(said in problem for problem in check_release(again))


def test_a_column_that_is_not_there_is_caught_by_the_second_program(root: Path, tmp_path: Path) -> None:
    again = tmp_path / "changed"
    shutil.copytree(root, again)
    path = again / "public" / "microdata.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["hours_drawn"]), path)
    assert any("it lacks 'hours_drawn'" in problem for problem in check_release(again))


# -- what is said -----------------------------------------------------------------------------------------------------


def test_everything_that_describes_it_says_that_the_number_is_drawn(root: Path) -> None:
    manifest = json.loads((root / "public" / "manifest.json").read_text("utf-8"))
    assert ["carries no information beyond it" in one["words"] for one in manifest["privacy"]] == [True] + [False] * 5
    package = json.loads((root / "public" / "datapackage.json").read_text("utf-8"))
    (table,) = (one for one in package["resources"] if one["name"].endswith("microdata"))
    titles = {field["name"]: field["title"] for field in table["schema"]["fields"]}
    assert titles["hours_drawn"] == (
        "hours: a whole number drawn at random inside the record's bin; it says nothing beyond the bin"
    )
    page = (root / "public" / "report.html").read_text("utf-8")
    assert "wages_drawn, hours_drawn" in page
    assert "No mean and no median inside a bin is published" in page


def test_query_says_it_where_an_amount_is_shown_or_a_condition(root: Path) -> None:
    said = "wages_drawn in the microdata is drawn at random inside the bin and says nothing beyond it"
    assert said in printed("query", root, "wages", "--at", "county")
    assert said in printed("query", root, "work", "--where", "wages=1..9999", "--at", "county", "--format", "markdown")
    assert "wages and hours: counted by bins" in printed("query", root, "--table", "wages.hours", "--at", "county")
    assert "drawn" not in printed("query", root, "work", "--at", "county")
    assert "10000..49999" in printed("query", root, "wages", "--at", "county", "--show", "median")


@pytest.mark.parametrize("layout", ["csv", "parquet"])
def test_exports_have_the_column_and_what_it_is(
    root: Path, tmp_path: Path, microdata: pd.DataFrame, layout: str
) -> None:
    assert spinewise("export", root, "--format", layout, "--out", tmp_path / "out", "--microdata").returncode == 0
    (path,) = (tmp_path / "out").rglob(f"microdata.{layout}")
    table = pd.read_csv(path) if layout == "csv" else pd.read_parquet(path)
    assert (table["wages_drawn"] == microdata["wages_drawn"]).all()
    written = [file.read_text("utf-8") for file in (tmp_path / "out").rglob("*.json")]
    assert any("it says nothing beyond the bin" in text for text in written)


def test_cliques_with_amounts_can_be_chosen_privately(tmp_path: Path) -> None:
    spec = write_wide(tmp_path / "in", STATED)
    text = spec.read_text("utf-8")
    start, stop = text.index("cliques = "), text.index("[marginals.amounts]")
    spec.write_text(text[:start] + 'choose = { share = "1/10", attributes_share = "1/20" }\n\n' + text[stop:])
    amounts().to_csv(spec.parent / "persons.csv", index=False)
    root = run(spec, tmp_path / "out")
    content = json.loads((root / "public" / "manifest.json").read_text("utf-8"))["spec"]["marginals"]
    assert any("wages" in pair for pair in content["cliques"])
    table = pq.read_table(root / "public" / "microdata.parquet").to_pandas()
    for name in BINS:
        assert (binned(name, table[f"{name}_drawn"]) == table[name].astype(str)).all()
    assert check_release(root) == []
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert rerun(root).differences == ()


def test_without_microdata_an_amount_is_its_bins(tmp_path: Path) -> None:
    root = run(write(tmp_path / "in", ("[publish]", "[publish]\nmicrodata = false")), tmp_path / "out")
    assert not (root / "public" / "microdata.parquet").exists()
    assert check_release(root) == []
    assert list(open_release(root).query("hours").at("county")[BINS["hours"]].columns) == BINS["hours"]


def test_bins_can_be_impossible_together_with_other_values(tmp_path: Path) -> None:
    """No wages without work: of the truth, and so of whole records."""
    zeros = (
        'name = "wide"',
        'name = "wide"\nstructural_zeros = \'work == no and wages != "0..0"\'',
    )
    root = run(write(tmp_path / "in", zeros), tmp_path / "out")
    table = pq.read_table(root / "public" / "microdata.parquet").to_pandas()
    assert set(table.loc[table["work"] == "no", "wages_drawn"]) == {0}


def test_ends_of_bins_may_have_spaces() -> None:
    assert Bins.of("wages", ["0 .. 0", " 1..9999"]).values == ("0..0", "1..9999")

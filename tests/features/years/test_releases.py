"""Releases of a series from end to end: their numbers by hand, what is refused before a draw, and what they state."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.histories import farthest
from releases.command import spinewise
from releases.killed import kill_at
from releases.series_town import INDEPENDENT, SPEC, YEARS, true_counts, write_series_town
from releases.small import public_bytes, run_period

from auditor.ledger import chain_problems, read_ledger
from auditor.program import audit
from features.years.best import best
from geography.errors import InputError
from pipeline.errors import RefusedError, SpecError
from pipeline.execution.progress import Silent
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest, write_manifest
from pipeline.release.measurements import MeasurementWriter, read_measurement
from pipeline.release.run_directory import recorded_input
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.readable import unchecked

Ints = NDArray[np.int64]
QUERIES = {"total": [], "born * sex": ["born", "sex"]}
PREFIX = {"county": 1, "tract": 3, "block": 5}
LEVEL_SHARE = {"county": Fraction(1, 4), "tract": Fraction(1, 4), "block": Fraction(1, 2)}


class Made(Protocol):
    """See `conftest.MadeSeries`."""

    given: Path
    out: Path
    spec: Path

    def release(self, year: str) -> Path: ...


def _stated(release: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((release / "public" / "manifest.json").read_text("utf-8"))
    return manifest


def _drawn(release: Path, level: str, query: str, scale: Fraction, shape: tuple[int, ...]) -> Ints:
    """z of a period, drawn again with its key from what its streams depend on."""
    opened = open_finished(release, check_hashes=True)
    records = recorded_input(RunDirectory(release))
    assert records is not None
    key = MasterKey.from_text("insecure-test:1")
    context = (records[""], opened.spine.fingerprint(), opened.universes[0].privacy_fingerprint())
    stream = key.stream_key(context, level, query)
    return sampler_for(NoiseSpec("discrete_gaussian", scale)).draw(stream, 0, math.prod(shape)).reshape(shape)


def test_published_numbers_are_the_mixed_truths_less_what_is_known_and_the_keys_noise(town_series: Made) -> None:
    """By Python's fractions from pandas' counts; sigma^2 is the reach of all pairs of histories by another program."""
    rows = _stated(town_series.release("2033"))["spec"]["series"]["terms"]["design"]
    matrix = np.zeros((3, 3), dtype=np.int64)
    for t, row in enumerate(rows):
        matrix[t, : t + 1] = row
    reach = farthest(matrix.T @ matrix, "change-one")[1]
    for query, columns in QUERIES.items():
        for level, prefix in PREFIX.items():
            truths, counts = [], list[NDArray[np.float64]]()
            for t, year in enumerate(YEARS):
                release = town_series.release(year)
                name = query.replace(" * ", ".")
                read = read_measurement(unchecked(release / "public" / "measurements" / level / f"{name}.parquet"))
                scale = reach / (2 * 2 * LEVEL_SHARE[level] * Fraction(1, 2))
                assert (read.header.mechanism, read.header.scale, list(read.header.row)) == ("mixed", scale, rows[t])
                truths.append(true_counts(town_series.given, year, columns, prefix))
                z = _drawn(release, level, query, scale, truths[-1].shape)
                known = sum((int(rows[t][s]) * counts[s] for s in range(t)), np.zeros(z.shape))
                mixed = sum(int(rows[t][s]) * truths[s] for s in range(t + 1)) + z
                assert np.array_equal(read.values, mixed - np.rint(known).astype(np.int64))
                counts.append(read.values / rows[t][t])
                inverse = np.linalg.inv(matrix.astype(float))[t]
                assert read.variance == pytest.approx(float(scale) * (inverse**2).sum(), rel=1e-9)


def test_counts_are_unbiased_with_the_stated_variance(town_series: Made) -> None:
    """All errors together, in standard errors: 540 numbers, of which each period's share one noise."""
    scores = []
    for year in YEARS:
        for query, columns in QUERIES.items():
            for level, prefix in PREFIX.items():
                name = query.replace(" * ", ".")
                read = read_measurement(
                    unchecked(town_series.release(year) / "public" / "measurements" / level / f"{name}.parquet")
                )
                truth = true_counts(town_series.given, year, columns, prefix)
                scores.append(((read.values / read.header.row[-1] - truth) / math.sqrt(read.variance)).ravel())
    found = np.concatenate(scores)
    assert abs(found.mean()) < 4 / math.sqrt(len(found))
    assert abs((found**2).mean() - 1) < 4 * math.sqrt(2 / len(found))


def test_each_release_is_verified_alone_and_made_again(town_series: Made, tmp_path: Path) -> None:
    for year in YEARS:
        run = RunDirectory(town_series.release(year))
        assert verify_release(run, 1, Silent()) == []
    alone = tmp_path / "alone"
    shutil.copytree(town_series.release("2033") / "public", alone / "padron-2033" / "public")
    assert verify_release(RunDirectory(alone / "padron-2033"), 1, Silent()) == []
    again = spinewise(
        "verify", "--records", town_series.release("2033"), "--data", town_series.given / "persons-2033.csv"
    )
    assert "rerun; all" in again.stdout


def test_tables_are_near_the_truth_and_add_up(town_series: Made) -> None:
    opened = open_finished(town_series.release("2032"), check_hashes=True)
    leaves = opened.histogram(opened.universes[0], opened.spine.leaf_level).toarray()
    top = opened.histogram(opened.universes[0], opened.spine.levels[0]).toarray()
    assert np.array_equal(leaves.sum(axis=0), top.sum(axis=0))
    truth = true_counts(town_series.given, "2032", ["born", "sex"], 5)
    assert np.abs(leaves - truth).mean() < 3


def test_what_a_release_states(town_series: Made) -> None:
    first, second, third = (_stated(town_series.release(year)) for year in YEARS)
    assert [one["release"] for one in (first, second, third)] == [f"padron-{year}" for year in YEARS]
    hashes = [
        hashlib.sha256((town_series.release(year) / "public" / "manifest.json").read_bytes()).hexdigest()
        for year in YEARS
    ]
    assert [one["spec"]["series"]["predecessor"] for one in (first, second, third)] == ["first", *hashes[:2]]
    assert first["spec"]["series"]["terms"] == third["spec"]["series"]["terms"]
    words = third["privacy"][0]["words"]
    assert "inputs differ by changing all records of one person over 2031 to 2033 with at most 2 spells. " in words
    assert "This is the release of 2033 in the series padron, 2031 to 2033." in words
    assert "with 2 spells or fewer loses no more than the budget; with 1, 1 of it; with 3, 1.62 of it." in words
    account = third["accounts"][0]
    assert (account["record"]["budget"], account["attributes"], account["places"]) == ("2", [], [])


def test_the_variance_of_a_file_is_said_to_be_that_of_the_counts(town_series: Made) -> None:
    """Its numbers are a multiple of them, whose variance is the square of that larger."""
    package = json.loads((town_series.release("2032") / "public" / "datapackage.json").read_text("utf-8"))
    told = {
        field["title"]
        for one in package["resources"]
        if one["path"].startswith("measurements/")
        for field in one["schema"]["fields"]
        if field["name"] == "variance"
    }
    assert told == {"Variance of each count that is made from them"}


def test_what_people_lose_is_what_another_program_enumerates(town_series: Made) -> None:
    terms = _stated(town_series.release("2031"))["spec"]["series"]["terms"]
    matrix = np.zeros((3, 3), dtype=np.int64)
    for t, row in enumerate(terms["design"]):
        matrix[t, : t + 1] = row
    reaches = farthest(matrix.T @ matrix, "change-one")
    assert Fraction(terms["distance"]) == Fraction(reaches[1], 2)
    assert terms["losses"] == [[k, str(Fraction(reaches[k - 1], reaches[1])), True] for k in (1, 2, 3)]


def test_independent_periods_are_usual_measurements_with_a_part_of_the_budget(tmp_path: Path) -> None:
    spec = write_series_town(tmp_path / "in", *INDEPENDENT)
    for year in YEARS[:2]:
        run_period(spec, tmp_path / "out", year, tmp_path / "in" / f"persons-{year}.csv")
    for year in YEARS[:2]:
        release = tmp_path / "out" / f"padron-{year}"
        read = read_measurement(unchecked(release / "public" / "measurements" / "block" / "total.parquet"))
        assert (read.header.mechanism, read.header.row) == ("discrete_gaussian", ())
        assert read.header.scale == 3 * 2 / (2 * 2 * Fraction(1, 4))  # three periods, each a third of rho = 2
        assert verify_release(RunDirectory(release), 1, Silent()) == []
    blocks = spec.with_name("blocks.csv")
    blocks.write_text(blocks.read_text() + "B0204\n")
    with pytest.raises(InputError, match="'B0204' is not an area of the release before"):
        run_period(spec, tmp_path / "out", "2033")


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((('spells = 2\n', 'noise = "spells"\n'),), "series.noise: is stated by a run"),
        ((('spells = 2\n', 'period = "2032"\n'),), "series.period: is stated by a run"),
        ((("to = 2033", "to = 2030"),), "series: series 'padron': found 2030 as its last period, before 2031"),
        ((("to = 2033", 'to = "2033-Q1"'),), "series: period: found '2033-Q1'; a year of series 'padron' is written"),
        ((("to = 2033", "to = 2060"),), "series.to: found 30 periods; at most 20 can be mixed"),
        ((("spells = 2", "spells = 2\npredecessor = \"aa\""),), "series.predecessor: is stated by a run"),
        ((('rho = "2"', 'framework = "pure"\nepsilon = "2"'),), 'series: not with framework "pure"'),
        ((('column = "block"', 'column = "block"\nbypass = true'),), "series: not with geography.bypass"),
        ((('rho = "2"', 'rho = "2"\nunit = "person"\nat_most = 2'),), "series: not with [privacy] unit"),
        (
            (("[tables]", '[invariants]\nblock = ["born * sex"]\n\n[tables]'),),
            "series: not with invariants that let no record change alone",
        ),
        (
            (("[tables]", '[select.detail]\nlevel = "block"\nversions = ["total", "sex"]\nthresholds = [0, 9]\n'
              'share = "1/10"\nchoice_share = "1/2"\n\n[tables]'),),
            "series: not with [select]",
        ),
        ((("spells = 2\n", "spells = 2\nrecords = 2\n"),), 'series.records: not with spells'),
        (
            (INDEPENDENT[0], ("to = 2033\n", "to = 2033\nrecords = 4\n")),
            "series.records: found 4; the series has 3 periods",
        ),
        ((INDEPENDENT[0], ("to = 2033\n", "to = 2033\nrecords = 0\n")), "series.records"),
    ],
)  # fmt: skip
def test_a_spec_that_does_not_fit_is_refused(changes: tuple[tuple[str, str], ...], message: str) -> None:
    text = SPEC
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(SpecError) as refused:
        parse_spec(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("period", "message"),
    [
        (
            None,
            "a series of 3 releases, 2031 to 2033; name one of them, such as --period 2031; `deploy` with --wait-for "
            "releases each when its records are there",
        ),
        ("2034", "series 'padron' has 2031 to 2033; what comes after is another series with a budget of its own"),
        ("31", "period: found '31'; a year of series 'padron' is written as 2031"),
        ("2032", "2031 is not released in"),
    ],
)
def test_a_period_that_cannot_be_released_is_refused(tmp_path: Path, period: str, message: str) -> None:
    spec = write_series_town(tmp_path / "in")
    with pytest.raises(InputError) as refused:
        run_period(spec, tmp_path / "out", period)
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_period_of_a_spec_of_one_release_is_refused(tmp_path: Path) -> None:
    alone = write_series_town(tmp_path / "in", ('[series]\nname = "padron"\nfrom = 2031\nto = 2033\n', "[series]\n"))
    alone.write_text(alone.read_text().replace("[series]\nspells = 2\n", ""))
    with pytest.raises(InputError, match=r"--period 2031: the spec has no \[series\], so it is of one release"):
        run_period(alone, tmp_path / "out", "2031")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((('rho = "2"', 'rho = "3"'),), "budget, neighbours, attributes, strategy, spells or horizon differ"),
        ((("spells = 2", "spells = 1"),), "the noise of its series is for 2 spells and not for 1 spells"),
        ((("to = 2033", "to = 2034"),), "is of period 2031 of series 'padron', 2031 to 2033"),
        ((('[series]\nname = "padron"', '[series]\nname = "another"'),), "period 2031 of 'another', 2031 to 2033 is"),
        ((('block = "1/2"\n\n[input]', 'block = "1/2"\n\n[input]'), ('total = "1/2"\n"born * sex" = "1/2"',
          'total = "1/4"\n"born * sex" = "3/4"')), "strategy"),
        ((('[tables]', '[invariants]\ncounty = ["total"]\n\n[tables]'),), "found total of county and none in .*-2031"),
    ],
)  # fmt: skip
def test_another_series_cannot_follow(
    town_series: Made, tmp_path: Path, changes: tuple[tuple[str, str], ...], message: str
) -> None:
    spec = write_series_town(tmp_path / "in", *changes)
    before = public_bytes(town_series.release("2033"))
    with pytest.raises(InputError, match=message):
        run_period(spec, town_series.out, "2033")
    assert public_bytes(town_series.release("2033")) == before


def test_a_broken_chain_is_refused(own_series: Made) -> None:
    """A release before that was changed since, whose manifest is whole; and true counts that are gone."""
    run = RunDirectory(own_series.release("2031"))
    manifest = read_manifest(run.manifest)
    write_manifest(run, manifest.model_copy(update={"public_seed": 99}))
    with pytest.raises(InputError, match="not the release that the one after it in the series 'padron' follows"):
        run_period(own_series.spec, own_series.out, "2033")
    write_manifest(run, manifest)
    run.main.true_histogram("tract").unlink()
    with pytest.raises(InputError, match=r"tract.parquet is missing; the numbers of later periods are mixed with"):
        run_period(own_series.spec, own_series.out, "2033")


@pytest.mark.parametrize("old", [True, False])
def test_other_areas_are_refused_before_anything_is_drawn(own_series: Made, tmp_path: Path, old: bool) -> None:
    """Else the levels above, whose areas are the same, would be measured before the leaves are found to differ."""
    shutil.rmtree(own_series.release("2033"))
    spec = write_series_town(tmp_path / "in")
    blocks = spec.with_name("blocks.csv")
    text = blocks.read_text()
    blocks.write_text(text.replace("B0203", "B0299") if old else text + "B0204\n")
    with pytest.raises(InputError, match=r"geography.file: block 'B02..' is not an area of the release before") as one:
        run_period(spec, own_series.out, "2033")
    assert "nothing was charged or drawn" in str(one.value)
    assert not own_series.release("2033").exists()


def test_a_restricted_part_of_another_run_is_noticed(own_series: Made, tmp_path: Path) -> None:
    """2031 on other records, with the same key: its true counts would be mixed, by the noise that 2032 has already."""
    run_period(own_series.spec, tmp_path / "again", "2031", own_series.given / "persons-2033.csv")
    for year in YEARS[1:]:
        shutil.rmtree(own_series.release(year))
    restricted = own_series.release("2031") / "restricted"
    shutil.rmtree(restricted)
    shutil.copytree(tmp_path / "again" / "padron-2031" / "restricted", restricted)
    with pytest.raises(RefusedError) as refused:
        run_period(own_series.spec, own_series.out, "2032", own_series.given / "persons-2032.csv")
    assert "is of another run than the release" in Path(str(refused.value.details)).read_text()
    assert not list(own_series.release("2032").rglob("public/measurements"))


def test_a_missing_file_of_a_release_before_is_named(own_series: Made) -> None:
    shutil.rmtree(own_series.release("2033"))
    (own_series.release("2031") / "public" / "measurements" / "tract" / "total.parquet").unlink()
    with pytest.raises(RefusedError) as refused:
        run_period(own_series.spec, own_series.out, "2033", own_series.given / "persons-2033.csv")
    said = Path(str(refused.value.details)).read_text()
    assert "tract/total.parquet is missing; the manifest lists it; get the release again" in said, said


def test_a_design_that_costs_more_than_it_says_is_noticed(own_series: Made) -> None:
    """By the next run, before it draws, and by verify: the distance is found again from the design."""
    run = RunDirectory(own_series.release("2031"))
    manifest = read_manifest(run.manifest)
    spec = json.loads(json.dumps(manifest.spec))
    spec["series"]["terms"]["distance"] = "1000"
    write_manifest(run, manifest.model_copy(update={"spec": spec}))
    with pytest.raises(InputError, match="two histories are 369215/2 apart by the design, and 1000 is stated"):
        run_period(own_series.spec, own_series.out, "2032")
    assert verify_release(run, 1, Silent()) != []
    spec["series"]["terms"] |= {"distance": "369215/2", "losses": [[1, "1/2", True], [2, "1", True], [3, "1", True]]}
    write_manifest(run, manifest.model_copy(update={"spec": spec}))
    found = "\n".join(verify_release(run, 1, Silent()))
    assert "what people with 1 spells lose is not what the design gives" in found
    assert "what people with 3 spells lose is not what the design gives" in found
    spec["series"]["noise"] = "independent"
    write_manifest(run, manifest.model_copy(update={"spec": spec}))
    with pytest.raises(SpecError, match=r"series\.noise: found 'independent'; it is correlated where"):
        open_finished(run.root, check_hashes=False)


def test_true_counts_that_were_replaced_are_noticed(own_series: Made) -> None:
    """A run of 2032 on other records replaces nothing; where somebody did, 2033 would be mixed with other counts."""
    shutil.rmtree(own_series.release("2033"))
    other = own_series.given / "persons-2033.csv"
    with pytest.raises(InputError, match="as begun on other records"):
        run_period(own_series.spec, own_series.out, "2032", other)
    counts = own_series.release("2032") / "restricted" / "histograms" / "county.parquet"
    own = counts.read_bytes()
    shutil.copy(own_series.release("2031") / "restricted" / "histograms" / "county.parquet", counts)
    with pytest.raises(RefusedError) as refused:
        run_period(own_series.spec, own_series.out, "2033", other)
    assert "not the counts that this release was measured from" in refused.value.details.read_text()
    assert not list(own_series.release("2033").rglob("measurements"))
    counts.write_bytes(own)
    run_period(own_series.spec, own_series.out, "2033", other)
    found = list(audit(own_series.release("2033")))
    assert [one for one in found if not one.passed] == []


def test_the_second_program_audits_every_release(town_series: Made) -> None:
    for year in YEARS:
        found = list(audit(town_series.release(year)))
        assert {one.check for one in found} >= {"noise redrawn", "headers", "statements"}
        assert [one for one in found if not one.passed] == []


def test_the_second_program_notices_planted_faults(own_series: Made) -> None:
    """A design for another horizon; a distance without pairs that share an answer; a period that follows another."""
    run = RunDirectory(own_series.release("2033"))
    manifest = read_manifest(run.manifest)
    stated = json.dumps(manifest.spec)
    series = json.loads(stated)["series"]
    terms = series["terms"]

    def failed(old: str, new: str) -> set[str]:
        assert stated.count(old) == 1, old
        write_manifest(run, manifest.model_copy(update={"spec": json.loads(stated.replace(old, new))}))
        return {one.check for one in audit(run.root) if not one.passed}

    assert failed("[54, -54, 265]", "[54, -53, 265]") >= {"headers", "statements"}
    rows = np.array([[256, 0, 0], [-43, 264, 0], [54, -54, 265]])
    unshared = Fraction(farthest(rows.T @ rows, "change-one", sharing=False)[1], 2)
    assert unshared < Fraction(terms["distance"])
    assert failed(f'"{terms["distance"]}"', f'"{unshared}"') >= {"headers", "statements"}
    longer = json.dumps([list(row) for row in best(4, 2, "change-one").rows[:3]])
    assert failed(json.dumps(terms["design"]), longer) >= {"headers", "statements"}
    before = series["predecessor"]
    assert "noise" in failed(f'"{before}"', f'"{"0" * 64}"')


def test_noise_that_is_used_again_is_noticed(own_series: Made) -> None:
    """The planted fault: a query of 2032 has the z of 2031. The second program draws it, and finds another."""
    before, release = (own_series.release(year) for year in YEARS[:2])
    path = release / "public" / "measurements" / "block" / "total.parquet"
    read = read_measurement(unchecked(path))
    z = [_drawn(one, "block", "total", read.header.scale, read.values.shape) for one in (before, release)]
    assert (z[0] != z[1]).mean() > 0.5
    with MeasurementWriter.open(path, path.parent, read.header) as writer:
        writer.write(read.geocodes, read.values - z[1] + z[0])
    assert "noise redrawn" in {one.check for one in audit(release) if not one.passed}


# -- the ledger -------------------------------------------------------------------------------------------------------


def test_a_ledger_is_charged_once_for_the_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "ledger.sqlite"
    with Ledger.open(str(place), create=True, state=tmp_path / "state") as ledger:
        ledger.open_dataset(
            "people", population="x", framework="zcdp", budget=Fraction(5, 2), neighbours="change-one",
        )  # fmt: skip
    monkeypatch.setenv("SPINEWISE_LEDGER", str(place))
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    spec = write_series_town(tmp_path / "in", ('key = "insecure-test:1"', 'dataset = "people"'))
    for year in YEARS:
        release = run_period(spec, tmp_path / "out", year, tmp_path / "in" / f"persons-{year}.csv")
        run_period(spec, tmp_path / "out", year, tmp_path / "in" / f"persons-{year}.csv")  # the same again
        (receipt,) = _stated(release)["receipts"]
        assert receipt["cost"] == ("2" if year == "2031" else "0")
        assert verify_release(RunDirectory(release), 1, Silent()) == []
    with Ledger.open(str(place), state=tmp_path / "state") as ledger:
        assert ledger.dataset("people").spent == 2
        assert [event.kind for event in ledger.events()].count("period") == 3
        assert ledger.verify() == ()
        known = KnownLedger(ledger.id, ledger.events())
    manifests = find_manifests([tmp_path / "out"])
    compared = compare_receipts(manifests, known)
    assert (len(manifests), compared.problems, compared.uncharged) == (3, (), ())
    assert [one.cost for one in compared.spending] == [2], "once, with the first"
    last = RunDirectory(tmp_path / "out" / "padron-2033").manifest
    receipt = manifests[last].receipts[0]
    manifests[last] = manifests[last].model_copy(update={"receipts": (receipt.model_copy(update={"cost": "2"}),)})
    assert any(
        "spends 0 of 'people', its receipt states 2" in one for one in compare_receipts(manifests, known).problems
    )
    assert chain_problems(*read_ledger(str(place))) == []
    for year in YEARS:
        found = list(audit(tmp_path / "out" / f"padron-{year}", ledger=str(place)))
        assert "charges" in {one.subject for one in found}
        assert [one for one in found if not one.passed] == []
    _a_period_cannot_leave_the_ledger(spec, tmp_path / "out", tmp_path / "apart")
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(InputError, match="a period is drawn once; nothing was charged or drawn"):
        run_period(spec, elsewhere, "2031", tmp_path / "in" / "persons-2031.csv")
    assert not list(elsewhere.rglob("measurements"))


def _a_period_cannot_leave_the_ledger(spec: Path, made: Path, apart: Path) -> None:
    """By a spec without the dataset: the ledger would not know that 2033 was drawn again, from whatever records."""
    for year in YEARS[:2]:
        shutil.copytree(made / f"padron-{year}", apart / f"padron-{year}")
    uncharged = spec.with_name("uncharged.toml")
    uncharged.write_text(spec.read_text().replace('dataset = "people"', ""))
    with pytest.raises(InputError, match=r"privacy.dataset: found none and 'people' in .*; one ledger counts all"):
        run_period(uncharged, apart, "2033", spec.with_name("persons-2031.csv"))
    assert not (apart / "padron-2033").exists()


# -- killed and resumed -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("event", "number"), [("finish", 2), ("finish", 4), ("advance", 9), ("sync", 40)])
def test_a_period_that_is_killed_is_resumed_to_the_same_bytes(
    own_series: Made, tmp_path: Path, event: str, number: int
) -> None:
    whole = public_bytes(own_series.release("2032"))
    shutil.rmtree(own_series.release("2033"))
    shutil.rmtree(own_series.release("2032"))
    spec = write_series_town(tmp_path / "in", ("persons-2031.csv", "persons-2032.csv"))
    assert kill_at(spec, own_series.out, event, number, "2032")
    run_period(spec, own_series.out, "2032")
    assert public_bytes(own_series.release("2032")) == whole

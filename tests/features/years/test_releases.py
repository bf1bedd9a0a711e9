"""Releases of a series: what is refused before a draw, what they state, which faults are noticed, and the ledger.

The matrix makes the same series, and compares its numbers with the truth and the key's noise (`cases.py`).
"""

from __future__ import annotations

import json
import math
import shutil
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.histories import farthest
from releases.asked import spent
from releases.series_town import INDEPENDENT, SPEC, YEARS, MadeSeries, drawn_again, true_counts, write_series_town
from releases.small import public_bytes, run_period

from auditor.ledger import chain_problems, read_ledger
from auditor.program import audit
from auditor.release import Release
from features.years.best import best
from features.years.chain import released
from geography.errors import InputError
from pipeline.errors import RefusedError, ReleaseError, SpecError
from pipeline.execution.steps import Silent
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import FileEntry, Manifest, read_manifest, write_manifest
from pipeline.release.measurements import MeasurementWriter, read_measurement
from pipeline.runs.receipts import KnownLedger, compare_receipts, find_manifests
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.files import sha256_file
from pipeline.storage.paths import unchecked

Changes = tuple[tuple[str, str], ...]
_TABLES = "[tables]"


def _stated(release: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((release / "public" / "manifest.json").read_text("utf-8"))
    return manifest


def test_counts_are_unbiased_with_the_stated_variance(town_series: MadeSeries) -> None:
    """All errors together, in standard errors: 540 numbers, of which each period's share one noise."""
    scores = []
    for year in YEARS:
        for query, columns in (("total", []), ("born.sex", ["born", "sex"])):
            for level, prefix in (("county", 1), ("tract", 3), ("block", 5)):
                path = town_series.release(year) / "public" / "measurements" / level / f"{query}.parquet"
                read = read_measurement(unchecked(path))
                truth = true_counts(town_series.given, year, columns, prefix)
                scores.append(((read.values / read.header.row[-1] - truth) / math.sqrt(read.variance)).ravel())
    found = np.concatenate(scores)
    assert abs(found.mean()) < 4 / math.sqrt(len(found))
    assert abs((found**2).mean() - 1) < 4 * math.sqrt(2 / len(found))


def test_releases_state_which_they_follow_and_what_people_lose(town_series: MadeSeries) -> None:
    """Each has the hash of the one before, as two programs have it; losses are of all pairs of histories by a third."""
    releases = [town_series.release(year) for year in YEARS]
    stated = [_stated(release) for release in releases]
    followed = [one["spec"]["series"]["predecessor"] for one in stated]
    for hashes in (
        [Release(release).followed() for release in releases],
        [released(RunDirectory(release)).hash for release in releases],
    ):
        assert followed == ["first", *hashes[:2]]
    terms = stated[0]["spec"]["series"]["terms"]
    assert all(one["spec"]["series"]["terms"] == terms for one in stated)
    matrix = np.zeros((3, 3), dtype=np.int64)
    for t, row in enumerate(terms["design"]):
        matrix[t, : t + 1] = row
    reaches = farthest(matrix.T @ matrix, "change-one")
    assert Fraction(terms["distance"]) == Fraction(reaches[1], 2)
    assert terms["losses"] == [[k, str(Fraction(reaches[k - 1], reaches[1])), True] for k in (1, 2, 3)]
    assert stated[2]["accounts"][0]["record"]["budget"] == "2"
    assert (
        "with 2 spells or fewer loses no more than the budget; with 1, 1 of it; with 3, 1.62 of it."
        in (stated[2]["privacy"][0]["words"])
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((("spells = 2\n", 'noise = "spells"\n'),), "series.noise: is stated by a run"),
        ((("spells = 2\n", 'period = "2032"\n'),), "series.period: is stated by a run"),
        ((("spells = 2", 'spells = 2\npredecessor = "aa"'),), "series.predecessor: is stated by a run"),
        ((("to = 2033", "to = 2030"),), "series: series 'padron': found 2030"),
        ((("to = 2033", 'to = "2033-Q1"'),), "series: period: found '2033-Q1'"),
        ((("to = 2033", "to = 2060"),), "series.to: found 30 periods; at most 20"),
        ((('rho = "2"', 'framework = "pure"\nepsilon = "2"'),), 'series: not with framework "pure"'),
        ((('column = "block"', 'column = "block"\nbypass = true'),), "series: not with geography.bypass"),
        ((('rho = "2"', 'rho = "2"\nunit = "person"\nat_most = 2'),), "series: not with [privacy] unit"),
        (((_TABLES, f'[invariants]\nblock = ["born * sex"]\n\n{_TABLES}'),), "series: not with invariants"),
        (
            (
                (
                    _TABLES,
                    '[select.detail]\nlevel = "block"\nversions = ["total", "sex"]\nthresholds = [0, 9]\n'
                    f'share = "1/10"\nchoice_share = "1/2"\n\n{_TABLES}',
                ),
            ),
            "series: not with [select]",
        ),
        ((("spells = 2\n", "spells = 2\nrecords = 2\n"),), "series.records: not with spells"),
        ((INDEPENDENT[0], ("to = 2033\n", "to = 2033\nrecords = 4\n")), "series.records: found 4; the series has 3"),
        ((INDEPENDENT[0], ("to = 2033\n", "to = 2033\nrecords = 0\n")), "series.records"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(changes: Changes, message: str) -> None:
    text = SPEC
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(SpecError) as refused:
        parse_spec(text)
    assert message in str(refused.value)


def test_a_period_that_cannot_be_released_is_refused(tmp_path: Path) -> None:
    spec = write_series_town(tmp_path / "in")
    for period, message in (
        (None, "a series of 3 releases, 2031 to 2033; name one of them, such as --period 2031"),
        ("2034", "series 'padron' has 2031 to 2033"),
        ("31", "found '31'; a year of series 'padron' is written as 2031"),
        ("2032", "2031 is not released in"),
    ):
        with pytest.raises(InputError, match=message):
            run_period(spec, tmp_path / "out", cast("str", period))
    stated = spec.read_text().replace('[series]\nname = "padron"\nfrom = 2031\nto = 2033\nspells = 2\n', "")
    spec.write_text(stated)
    with pytest.raises(InputError, match=r"--period 2031: the spec has no \[series\], so it is of one release"):
        run_period(spec, tmp_path / "out", "2031")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((('rho = "2"', 'rho = "3"'),), "budget, neighbours, attributes, strategy, spells or horizon differ"),
        ((("spells = 2", "spells = 1"),), "the noise of its series is for 2 spells and not for 1 spells"),
        ((("to = 2033", "to = 2034"),), "is of period 2031 of series 'padron', 2031 to 2033"),
        ((('[series]\nname = "padron"', '[series]\nname = "another"'),), "period 2031 of 'another', 2031 to 2033 is"),
        ((('total = "1/2"\n"born * sex" = "1/2"', 'total = "1/4"\n"born * sex" = "3/4"'),), "strategy"),
        (((_TABLES, f'[invariants]\ncounty = ["total"]\n\n{_TABLES}'),), "found total of county and none in .*-2031"),
    ],
)
def test_another_series_cannot_follow(own_series: MadeSeries, tmp_path: Path, changes: Changes, message: str) -> None:
    spec = write_series_town(tmp_path / "in", *changes)
    before = public_bytes(own_series.release("2033"))
    with pytest.raises(InputError, match=message):
        run_period(spec, own_series.out, "2033")
    assert public_bytes(own_series.release("2033")) == before


@pytest.mark.parametrize("old", [True, False])
def test_other_areas_are_refused_before_anything_is_drawn(own_series: MadeSeries, tmp_path: Path, old: bool) -> None:
    """Else the levels above, whose areas are the same, would be measured before the leaves are found to differ."""
    shutil.rmtree(own_series.release("2033"))
    spec = write_series_town(tmp_path / "in")
    blocks = spec.with_name("blocks.csv")
    text = blocks.read_text()
    blocks.write_text(text.replace("B0203", "B0299") if old else text + "B0204\n")
    with pytest.raises(InputError, match=r"block 'B02..' is not an area of the release before") as one:
        run_period(spec, own_series.out, "2033")
    assert "nothing was charged or drawn" in str(one.value)
    assert not own_series.release("2033").exists()


def test_a_broken_chain_is_refused(own_series: MadeSeries) -> None:
    """A release before that was changed since, whose manifest is whole; and true counts or numbers that are gone."""
    run = RunDirectory(own_series.release("2031"))
    manifest = read_manifest(run.manifest)
    other_key = manifest.model_copy(update={"key_commitment": str(manifest.key_commitment)[::-1]})
    for changed in (partial(other_key.model_copy), partial(_with_one_more, run, manifest)):
        write_manifest(run, changed())
        with pytest.raises(InputError, match="not the release that the one after it in the series 'padron' follows"):
            run_period(own_series.spec, own_series.out, "2033")
    shutil.copy(own_series.out / "kept.parquet", run.main.measurement("tract", "total"))
    write_manifest(run, manifest)
    counts = run.main.true_histogram("tract")
    counts.rename(counts.with_suffix(".kept"))
    with pytest.raises(InputError, match=r"tract.parquet is missing; the numbers of later periods are mixed with"):
        run_period(own_series.spec, own_series.out, "2033")
    counts.with_suffix(".kept").rename(counts)
    shutil.rmtree(own_series.release("2033"))
    numbers = run.public / "measurements" / "tract" / "total.parquet"
    numbers.write_bytes((run.public / "measurements" / "county" / "total.parquet").read_bytes())
    for message in ("tract/total.parquet", "tract/total.parquet is missing; the manifest lists it"):
        with pytest.raises(ReleaseError, match=message):
            run_period(own_series.spec, own_series.out, "2033", own_series.given / "persons-2033.csv")
        assert not list(own_series.release("2033").rglob("public/measurements"))
        numbers.unlink(missing_ok=True)


def _with_one_more(run: RunDirectory, manifest: Manifest) -> Manifest:
    """One measured number is 1 more, and the manifest lists the file as it is now; it is kept beside the releases."""
    path = run.main.measurement("tract", "total")
    shutil.copy(path, run.root.parent / "kept.parquet")
    table = pq.read_table(path)
    values = table.column("value").to_pylist()
    values[0][0] += 1
    changed = table.set_column(1, table.schema.field("value"), pa.array(values, table.schema.field("value").type))
    pq.write_table(changed, path)
    listed = FileEntry(sha256=sha256_file(path), bytes=path.stat().st_size)
    return manifest.model_copy(update={"files": {**manifest.files, run.name_of(path): listed}})


def test_a_restricted_part_of_another_run_is_noticed(own_series: MadeSeries, tmp_path: Path) -> None:
    """2031 on other records, with the same key: its true counts would be mixed, by the noise that 2032 has already."""
    run_period(own_series.spec, tmp_path / "again", "2031", own_series.given / "persons-2033.csv")
    for year in YEARS[1:]:
        shutil.rmtree(own_series.release(year))
    restricted = own_series.release("2031") / "restricted"
    shutil.rmtree(restricted)
    shutil.copytree(tmp_path / "again" / "padron-2031" / "restricted", restricted)
    with pytest.raises(RefusedError) as refused:
        run_period(own_series.spec, own_series.out, "2032", own_series.given / "persons-2032.csv")
    assert "is of another run than the release" in refused.value.details.read_text()
    assert not list(own_series.release("2032").rglob("public/measurements"))


def test_true_counts_that_were_replaced_are_noticed(own_series: MadeSeries) -> None:
    """A run of 2032 on other records replaces nothing; where somebody did, 2033 would be mixed with other counts."""
    shutil.rmtree(own_series.release("2033"))
    other = own_series.given / "persons-2033.csv"
    with pytest.raises(InputError, match="as begun on other records"):
        run_period(own_series.spec, own_series.out, "2032", other)
    counts = own_series.release("2032") / "restricted" / "histograms" / "county.parquet"
    shutil.copy(own_series.release("2031") / "restricted" / "histograms" / "county.parquet", counts)
    with pytest.raises(RefusedError) as refused:
        run_period(own_series.spec, own_series.out, "2033", other)
    assert "not the counts that this release was measured from" in refused.value.details.read_text()
    assert not list(own_series.release("2033").rglob("measurements"))


def test_a_design_that_costs_more_than_it_says_is_noticed(own_series: MadeSeries) -> None:
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
    for spells in (1, 3):
        assert f"what people with {spells} spells lose is not what the design gives" in found
    spec["series"]["noise"] = "independent"
    write_manifest(run, manifest.model_copy(update={"spec": spec}))
    with pytest.raises(SpecError, match=r"series\.noise: found 'independent'; it is correlated where"):
        open_finished(run.root, check_hashes=False)


def test_the_second_program_notices_planted_faults(own_series: MadeSeries) -> None:
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
    assert "noise" in failed(f'"{series["predecessor"]}"', f'"{"0" * 64}"')


def test_noise_that_is_used_again_is_noticed(own_series: MadeSeries) -> None:
    """The planted fault: a query of 2032 has the z of 2031. The second program draws it, and finds another."""
    before, release = (own_series.release(year) for year in YEARS[:2])
    path = release / "public" / "measurements" / "block" / "total.parquet"
    read = read_measurement(unchecked(path))
    z = [drawn_again(one, "block", "total", read.header.scale, read.values.shape) for one in (before, release)]
    assert (z[0] != z[1]).mean() > 0.5
    with MeasurementWriter.open(path, path.parent, read.header) as writer:
        writer.write(read.geocodes, read.values - z[1] + z[0])
    assert "noise redrawn" in {one.check for one in audit(release) if not one.passed}


def test_a_ledger_is_charged_once_for_the_series(tmp_path: Path, people: Path) -> None:
    place, out = str(people), tmp_path / "out"
    spec = write_series_town(tmp_path / "in", ('key = "insecure-test:1"', 'dataset = "people"'))
    for year in YEARS:
        for _again in range(2):
            release = run_period(spec, out, year, tmp_path / "in" / f"persons-{year}.csv")
        (receipt,) = _stated(release)["receipts"]
        assert receipt["cost"] == ("2" if year == "2031" else "0")
        assert verify_release(RunDirectory(release), 1, Silent()) == []
        found = list(audit(release, ledger=place))
        assert "charges" in {one.subject for one in found}
        assert [one for one in found if not one.passed] == []
    assert spent(people, "people") == 2
    with Ledger.open(place, state=tmp_path / "state") as ledger:
        assert [event.kind for event in ledger.events()].count("period") == 3
        known = KnownLedger(ledger.id, ledger.events())
    assert chain_problems(*read_ledger(place)) == []
    manifests = find_manifests([out])
    compared = compare_receipts(manifests, known)
    assert (len(manifests), compared.problems, compared.uncharged) == (3, (), ())
    assert [one.cost for one in compared.spending] == [2], "once, with the first"
    last = RunDirectory(out / "padron-2033").manifest
    receipt = manifests[last].receipts[0]
    manifests[last] = manifests[last].model_copy(update={"receipts": (receipt.model_copy(update={"cost": "2"}),)})
    assert any(
        "'people' was charged rho = 2, and what is measured costs rho = 0" in one
        for one in compare_receipts(manifests, known).problems
    )
    # By a spec without the dataset the ledger would not know that 2033 was drawn again, from whatever records.
    shutil.rmtree(out / "padron-2033")
    uncharged = spec.with_name("uncharged.toml")
    uncharged.write_text(spec.read_text().replace('dataset = "people"', ""))
    with pytest.raises(InputError, match=r"privacy.dataset: found none and 'people' in .*; one ledger counts all"):
        run_period(uncharged, out, "2033", spec.with_name("persons-2031.csv"))
    assert not (out / "padron-2033").exists()
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(InputError, match="a period is drawn once; nothing was charged or drawn"):
        run_period(spec, elsewhere, "2031", tmp_path / "in" / "persons-2031.csv")
    assert not list(elsewhere.rglob("measurements"))

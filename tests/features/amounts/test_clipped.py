"""How many records a clip cuts off, from end to end: counted by the amount itself, charged, with intervals."""

from __future__ import annotations

import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from releases.command import feature_module
from releases.mutant import resealed
from releases.repeated import rerun
from releases.small import run
from releases.wages import OVER, write_wages

import pipeline.records.columns as columns
from auditor.check.release import examine
from auditor.form import read_form
from auditor.program import audit
from pipeline.confidential.charge import _layout
from pipeline.errors import SpecError
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import read_spine
from pipeline.records.columns import AmountNumbers
from pipeline.records.tabulate import tabulate
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec

SIDES = ("below", "within", "above")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wages(tmp_path_factory.mktemp("clipped"), OVER)


@pytest.fixture(scope="module")
def release(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(spec, tmp_path_factory.mktemp("clipped released"))


def by_hand(folder: Path) -> Counter[tuple[str, str, str]]:
    """Persons by block, sex and side of the clip, from the text of the file."""
    found: Counter[tuple[str, str, str]] = Counter()
    for line in (folder / "persons.csv").read_text("utf-8").splitlines()[1:]:
        block, sex, _, wage, _ = line.split(",")
        amount = Fraction(wage or "0")
        found[block, sex, "above" if amount > 500 else "below" if amount < 0 else "within"] += 1
    return found


def test_what_is_counted_are_persons_by_side_of_the_clip_as_by_hand(spec: Path, release: Path) -> None:
    run_directory, universe = RunDirectory(release), load_spec(spec).universes()[1]
    codes = read_spine(load_spec(spec).geography).leaf_level.geocodes
    counted = read_histogram(run_directory.universe("over").true_histogram("block"), codes, universe.schema)
    true = by_hand(spec.parent)
    assert counted.toarray().tolist() == [
        [true[str(code), sex, side] for sex in "fm" for side in SIDES] for code in codes
    ]
    assert true["A30", "m", "above"] == 1
    assert sum(n for (_, _, side), n in true.items() if side == "above") >= 5


def test_a_clip_that_is_forgotten_in_reading_is_seen_by_hand(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the test above: amounts that are clipped before they are looked at are never beyond the clip."""

    class Clipped(AmountNumbers):
        def __getitem__(self, text: str) -> int:
            return min(super().__getitem__(text), 1)

    monkeypatch.setattr(columns, "AmountNumbers", Clipped)
    universe = load_spec(spec).universes()[1]
    counted = tabulate(universe.require_input(), universe.schema, read_spine(load_spec(spec).geography))
    assert counted.sum() == sum(by_hand(spec.parent).values())
    assert counted.toarray()[:, [2, 5]].sum() == 0


def test_the_number_is_published_with_an_interval_and_costs_its_own_budget(release: Path, spec: Path) -> None:
    table = pd.read_parquet(release / "public/companions/over/tables/clipped/county.parquet")
    true = sum(n for (_, _, side), n in by_hand(spec.parent).items() if side == "above")
    assert table["above:low90"][0] <= true <= table["above:high90"][0], "of a test key, whose noise is known"
    assert table["above:high90"][0] - table["above:low90"][0] < 20
    universe = load_spec(spec).universes()[1]
    assert (universe.reach, universe.unit_budget) == (1, universe.budget)
    assert universe.budget == Fraction(1)


def test_a_plan_has_the_number_beside_the_others(spec: Path) -> None:
    plan = feature_module("features.plan.release_plan").plan_release(spec, 1)
    assert {row.query for row in plan.universes[1].rows} == {"clipped", "detailed"}
    assert [one.universe.name for one in plan.universes] == ["", "over", "wages"]


def test_the_release_is_verified_checked_and_audited(release: Path) -> None:
    assert not verify_release(RunDirectory(release), 1, Silent())
    assert examine(release).problems == []
    assert all(found.passed for found in audit(release))


def test_another_clip_in_the_public_spec_is_found_by_the_second_program(release: Path, tmp_path: Path) -> None:
    """The noise depends on the ends, so that counts beyond two clips that agree do not show that they do."""
    copy = Path(shutil.copytree(release, tmp_path / release.name))

    def lower(content: dict[str, object]) -> None:
        over = next(part for name, part in content["spec"]["companions"] if name == "over")  # type: ignore[index]
        over["between"] = ["0", "300"]

    resealed(copy, lower)
    assert not all(found.passed for found in audit(copy))
    spec = load_spec(
        write_wages(tmp_path, OVER, ('between = ["0", "500"]\nmissing', 'between = ["0", "400"]\nmissing'))
    )
    stated = read_manifest(RunDirectory(release).manifest)
    assert str(spec.universes()[1].privacy_fingerprint()) not in str(stated)


def test_the_release_is_drawn_again_from_records_and_key(release: Path, spec: Path) -> None:
    """With the spec, and by what the run kept: the column of the amount, and the ends of the public spec."""
    assert rerun(release, spec=spec).same
    assert rerun(release).same


_PRIVACY = 'privacy = { rho = "2", key = "insecure-test:1" }'
_UNITS = (_PRIVACY, _PRIVACY.replace(" }", ', unit = "sex", at_most = 2 }'))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([_UNITS], "companions.over.count_clipped: what is clipped of units with several records"),
        ([_UNITS, ('"0"\nprivacy = { rho = "1" }', '"0"\nrecords_per_person = 2\nprivacy = { rho = "1" }')],
         "companions.over.count_clipped: what is clipped of units with several records"),
        ([('{ rho = "1" }', '{ rho = "1", unit = "sex", at_most = 2 }')], "companions.over.privacy.unit: not for"),
        ([_UNITS, ('{ rho = "1" }', '{ rho = "1", unit = "sex", at_most = 2 }')], "companions.over.privacy.unit: not"),
        ([('{ rho = "1" }', '{ rho = "1", at_most = 2 }')], "companions.over.privacy.unit: missing"),
        ([('count_clipped = "wage"', 'count_clipped = "wage"\nends = "total"')], "companions.over.ends: not with"),
        ([_UNITS, ('count_clipped = "wage"', 'count_clipped = "wage"\nends = "total"')], "companions.over.ends: not"),
    ],
)  # fmt: skip
def test_what_is_clipped_of_units_with_several_records_is_refused(
    tmp_path: Path, changes: list[tuple[str, str]], sentence: str
) -> None:
    """It would be charged for a single record."""
    with pytest.raises(SpecError) as refused:
        load_spec(write_wages(tmp_path, OVER, *changes)).universes()
    assert sentence in str(refused.value)


def test_the_second_program_takes_the_units_of_the_release_for_what_is_clipped(release: Path, tmp_path: Path) -> None:
    """A manifest that says of units what was made for single records, as no spec can."""
    copy = Path(shutil.copytree(release, tmp_path / release.name))

    def of_units(content: dict[str, object]) -> None:
        content["spec"]["privacy"]["at_most"] = 2  # type: ignore[index]

    resealed(copy, of_units)
    assert read_form(read_manifest(RunDirectory(copy).manifest).spec).universes[1].together == 2


def layout_and_fingerprint(folder: Path, *changes: tuple[str, str]) -> tuple[str, str]:
    """What the ledger compares, and what the noise depends on, of the companion that counts by the clip."""
    folder.mkdir()
    spec = load_spec(write_wages(folder, OVER, *changes))
    universe, spine = spec.universes()[1], read_spine(spec.geography)
    job = Job(RunDirectory(folder), spec, spec.universes(), spine, Workers(1), Silent())
    return _layout(job, universe), universe.privacy_fingerprint()


def test_noise_and_ledger_tell_columns_and_stand_ins_with_equal_counts_apart(tmp_path: Path) -> None:
    """Else equal noise, and a second release for nothing, would show that two columns are clipped alike everywhere."""
    own = layout_and_fingerprint(tmp_path / "own")
    assert own == layout_and_fingerprint(tmp_path / "again")
    other = layout_and_fingerprint(tmp_path / "other", ('count_clipped = "wage"', 'count_clipped = "balance"'))
    lacking = layout_and_fingerprint(tmp_path / "lacking", ('missing = "0"\nprivacy', 'missing = "1"\nprivacy'))
    for changed in (other, lacking):
        assert all(old != new for old, new in zip(own, changed, strict=True))


def stated_fingerprints(release: Path) -> dict[str, str]:
    """Of the second program, of each universe."""
    form = read_form(read_manifest(RunDirectory(release).manifest).spec)
    return {one.name: one.fingerprint() for one in form.universes}


@pytest.mark.parametrize(("companion", "key"), [("over", "count_clipped"), ("wages", "amount")])
def test_another_column_in_the_public_spec_is_found_by_the_second_program(
    release: Path, tmp_path: Path, companion: str, key: str
) -> None:
    copy = Path(shutil.copytree(release, tmp_path / release.name))
    stated = stated_fingerprints(copy)

    def balance(content: dict[str, object]) -> None:
        other = next(part for name, part in content["spec"]["companions"] if name == companion)  # type: ignore[index]
        other[key] = "balance"

    resealed(copy, balance)
    changed = stated_fingerprints(copy)
    assert {name for name in stated if stated[name] != changed[name]} == {companion}
    assert not all(found.passed for found in audit(copy))

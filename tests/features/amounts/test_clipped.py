"""Amounts released: clips that are others are found, and fitness and plans know that sums are no people."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.command import feature_module
from releases.mutant import resealed
from releases.small import run
from releases.wages import BALANCES, OVER, write_wages

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
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.release_spec import load_spec


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wages(tmp_path_factory.mktemp("clipped"), OVER, ("replicates = 4", "replicates = 2"))


@pytest.fixture(scope="module")
def release(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(spec, tmp_path_factory.mktemp("clipped released"))


def test_a_clip_that_is_forgotten_in_reading_is_seen_by_hand(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of what the case shows: amounts clipped before they are looked at are never beyond the clip."""
    universe, spine = load_spec(spec).universes()[1], read_spine(load_spec(spec).geography)
    sound = tabulate(universe.require_input(), universe.schema, spine)
    assert sound.toarray()[:, [2, 5]].sum() >= 5

    class Clipped(AmountNumbers):
        def __getitem__(self, text: str) -> int:
            return min(super().__getitem__(text), 1)

    monkeypatch.setattr(columns, "AmountNumbers", Clipped)
    counted = tabulate(universe.require_input(), universe.schema, spine)
    assert counted.sum() == sound.sum()
    assert counted.toarray()[:, [2, 5]].sum() == 0


def _ends(companion: str) -> Callable[[dict[str, Any]], None]:
    return lambda found: dict(found["spec"]["companions"])[companion].update(between=["0", "300"])


def _column(companion: str, key: str) -> Callable[[dict[str, Any]], None]:
    return lambda found: dict(found["spec"]["companions"])[companion].update({key: "balance"})


@pytest.mark.parametrize(
    ("companion", "change"),
    [
        ("wages", _ends("wages")),
        ("over", _ends("over")),
        ("wages", _column("wages", "amount")),
        ("over", _column("over", "count_clipped")),
    ],
    ids=["clip of sums", "clip of counts", "column of sums", "column of counts"],
)
def test_another_clip_or_column_in_the_public_spec_is_found(
    release: Path, tmp_path: Path, companion: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """By the second program, as the noise depends on both; a clip of sums that is stated lower by the checker, too."""
    copy = Path(shutil.copytree(release, tmp_path / release.name))
    stated = fingerprints(copy)
    resealed(copy, change)
    changed = fingerprints(copy)
    assert {name for name in stated if stated[name] != changed[name]} == {companion}
    assert not all(found.passed for found in audit(copy))
    if change.__qualname__.startswith("_ends") and companion == "wages":
        problems = examine(copy).problems
        assert any("sums that so many records cannot have" in text or "units for" in text for text in problems)


def fingerprints(release: Path) -> dict[str, str]:
    """Of the second program, of each universe."""
    form = read_form(read_manifest(RunDirectory(release).manifest).spec)
    return {one.name: one.fingerprint() for one in form.universes}


_PRIVACY = 'privacy = { rho = "2", key = "insecure-test:1" }'


_UNITS = (_PRIVACY, _PRIVACY.replace(" }", ', unit = "sex", at_most = 2 }'))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([_UNITS], "companions.over.count_clipped: what is clipped of units with several records"),
        ([('{ rho = "1" }', '{ rho = "1", unit = "sex", at_most = 2 }')], "companions.over.privacy.unit: not for"),
        ([('{ rho = "1" }', '{ rho = "1", at_most = 2 }')], "companions.over.privacy.unit: missing"),
        ([('count_clipped = "wage"', 'count_clipped = "wage"\nends = "total"')], "companions.over.ends: not with"),
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
    resealed(copy, lambda content: content["spec"]["privacy"].update(at_most=2))
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


@pytest.fixture(scope="module")
def judged_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wages(tmp_path_factory.mktemp("judged"), *BALANCES, ("replicates = 4", "replicates = 2"))


@pytest.fixture(scope="module")
def judged(judged_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Into whose restricted/ errors are written."""
    return run(judged_spec, tmp_path_factory.mktemp("judged released"))


def table(judged: Path, level: str, universe: str = "") -> pd.DataFrame:
    return pd.read_parquet(judged / f"public/{universe}tables/total/{level}.parquet").set_index("geocode")


def found(data: Mapping[str, Any], level: str, name: str = "total") -> Mapping[str, Any]:
    wanted = ("wages", name, level)
    (one,) = (one for one in data["tables"] if (one["universe"], one["table"], one["level"]) == wanted)
    assert isinstance(one, Mapping)
    return one


def test_a_plan_foretells_sums_and_means_in_what_the_amount_is_in(spec: Path) -> None:
    plan = feature_module("features.plan.release_plan").plan_release(spec, 1)
    assert [one.universe.name for one in plan.universes] == ["", "over", "wages"]
    assert {row.query for row in plan.universes[1].rows} == {"clipped", "detailed"}
    rows = {(row.level, row.query): row for row in plan.universes[2].rows}
    counts = {(row.level, row.query): row for row in plan.universes[0].rows}
    assert len(plan.amounts) == 9
    for row in plan.amounts:
        margin, counted = rows[row.level, row.query].margin90, counts[row.level, row.query].margin90
        assert margin is not None
        assert counted is not None
        assert row.sum_margin == pytest.approx(10 * margin)
        assert row.mean_margins[100] ** 2 == pytest.approx(((10 * margin) ** 2 + (250 * counted) ** 2) / 100**2)

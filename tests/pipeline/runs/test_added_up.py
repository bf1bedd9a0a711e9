"""After a run of records that were released before, one line says what both cost together, as far as is known."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from releases.series_town import INDEPENDENT, write_series_town
from releases.series_town import SPEC as SERIES_TOWN
from releases.small import QUICK, run, run_period, write_town
from releases.updated import charged_release, key_of

from pipeline.model.exact import epsilon_text
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.keys import MasterKey
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.added_up import added_up
from pipeline.runs.receipts import chosen_elsewhere, chosen_uncharged


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases of one file, a third of another one, and one with a test key."""
    root = tmp_path_factory.mktemp("added")
    own = (*QUICK, ('key = "insecure-test:1"\n', ""))
    for number, name in enumerate(("first", "second", "trial")):
        changes = QUICK if name == "trial" else own
        spec = write_town(root / "in", *changes, ('name = "town"', f'name = "{name}"'))
        text = spec.read_text().replace('rho = "2"', f'rho = "{number + 1}"')
        spec.write_text(text)
        run(spec, root / "out", i_know=True)
    spec = write_town(root / "elsewhere", *own, ('name = "town"', 'name = "third"'))
    run(spec, root / "out", i_know=True)
    return root / "out"


def test_losses_of_one_file_are_added_up(folder: Path) -> None:
    """Of all universes of both releases; the total is the sum of what each states of a person."""
    totals = [read_manifest(RunDirectory(folder / name).manifest).joint for name in ("first", "second")]
    rho = sum((Fraction(one.budget) for one in totals if one is not None), Fraction(0))
    epsilon = epsilon_text(zcdp_epsilon(rho, Fraction("1e-10")))
    said = (
        "Releases of the same records add up: {} in this folder counted the same file, together rho = "
        f"{float(rho):g}, at most epsilon = {epsilon} at delta = 1e-10. No ledger counts them."
    )
    assert rho == 1 + 2 + 2 * 1, "persons with rho = 1 and 2, and the units of each with rho = 1"
    assert added_up(RunDirectory(folder / "first")) == said.format("second")
    assert added_up(RunDirectory(folder / "second")) == said.format("first")


def test_nothing_is_said_of_other_records_or_of_trials(folder: Path) -> None:
    assert added_up(RunDirectory(folder / "third")) == ""
    assert added_up(RunDirectory(folder / "trial")) == ""


def test_a_damaged_neighbour_is_passed_over(folder: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        shutil.copytree(folder / name, tmp_path / name)
    (tmp_path / "first" / "restricted" / "input.json").write_text(json.dumps([1]))
    assert added_up(RunDirectory(tmp_path / "second")) == ""
    shutil.copy(folder / "first" / "restricted" / "input.json", tmp_path / "first" / "restricted" / "input.json")
    (tmp_path / "first" / "public" / "manifest.json").write_text("{")
    assert added_up(RunDirectory(tmp_path / "second")) == ""


def test_a_series_has_one_budget(tmp_path: Path) -> None:
    """Its records may be in one file that is written anew each year; with a release that is alone both are added."""
    own = ('key = "insecure-test:1"\n', "")
    spec = write_series_town(tmp_path / "in", own, *INDEPENDENT)
    for year in ("2031", "2032"):
        run_period(spec, tmp_path / "out", year)
    series = '[series]\nname = "padron"\nfrom = 2031\nto = 2033\n'
    alone = write_series_town(tmp_path / "alone", own, spec=SERIES_TOWN.replace(series + INDEPENDENT[0][0], ""))
    run(alone, tmp_path / "out", data=tmp_path / "in" / "persons-2031.csv")
    assert added_up(RunDirectory(tmp_path / "out" / "padron")).startswith(
        "Releases of the same records add up: padron-2031, padron-2032 in this folder counted the same file, together "
        "rho = 4, "
    )
    said = "Releases of the same records add up: padron in this folder counted the same file, together rho = 4, "
    assert added_up(RunDirectory(tmp_path / "out" / "padron-2032")).startswith(said)
    shutil.rmtree(tmp_path / "out" / "padron")
    assert added_up(RunDirectory(tmp_path / "out" / "padron-2032")) == ""


@pytest.mark.parametrize(
    ("dataset", "ledger", "found"),
    [("people", "a", None), ("people", "b", "the ledger bbbb"), ("homes", "a", "no receipt for the dataset 'people'")],
)
def test_an_end_that_was_chosen_with_another_ledger_or_dataset_is_told(
    dataset: str, ledger: str, found: str | None
) -> None:
    """One ledger counts the release and the answer that chose an end of its amounts."""
    answer = SimpleNamespace(name="clip-1")
    chosen = SimpleNamespace(dataset="people", ledger="a" * 64, answer=answer, question="clip wages among 1, 2")
    spec: Any = SimpleNamespace(chosen_ends={"wages": chosen})
    receipt: Any = SimpleNamespace(dataset=dataset, ledger=ledger * 64)
    said = list(chosen_elsewhere(spec, [receipt]))
    assert [text.partition(":")[0] for text in said] == ["companions.wages.between"] * (found is not None)
    assert found is None or found in said[0]
    (uncharged,) = chosen_uncharged(spec, "a" * 64, [])
    assert "the ledger has no charge to 'people' for the question" in uncharged


@pytest.mark.slow
def test_the_ledger_knows_what_was_charged(tmp_path: Path) -> None:
    quick = ("[input]", "[publish]\nreplicates = 0\nmargins = false\n[input]")
    with charged_release(tmp_path, quick) as (spec, root):
        assert added_up(RunDirectory(root)) == ""
        name = read_manifest(RunDirectory(root).manifest).release
        spec.write_text(spec.read_text().replace(f'name = "{name}"', 'name = "again"'))
        again = run(spec, tmp_path / "other", key_file=key_of(tmp_path / "in", 2))
        said = added_up(RunDirectory(again))
        assert said.startswith(
            f"Releases of the same records add up: with {name} the ledger has charged rho = 2 of 9 to"
        )
        assert said.endswith("; 7 is left.")
    assert MasterKey.read(key_of(tmp_path / "in", 2)) != MasterKey.read(key_of(tmp_path / "in", 1))

"""A run can be repeated and gone on with to the same bytes, and refuses everything that would make it another run."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pandas as pd
import pytest
from releases.command import needs
from releases.small import QUICK, public_bytes, run, write_town

from pipeline.errors import BudgetRefusedError, InputError, SpecError
from pipeline.execution.progress import Silent
from pipeline.execution.steps import Step
from pipeline.privacy.keys import MasterKey
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.receipts import NOT_CHARGED


class Listening(Silent):
    """Keeps which steps were performed, and which were passed over."""

    def __init__(self) -> None:
        self.performed: list[str] = []
        self.skipped: list[str] = []

    def finish(self, step: Step, *, skipped: bool = False) -> None:
        (self.skipped if skipped else self.performed).append(step.name)


@pytest.fixture
def copied(town: Path, tmp_path: Path) -> Path:
    """The folder of a copy of the town's release."""
    shutil.copytree(town, tmp_path / "copy" / "town")
    return tmp_path / "copy"


def test_what_is_missing_or_damaged_is_made_again_and_nothing_else(copied: Path, town_spec: Path) -> None:
    before = public_bytes(copied / "town")
    progress = Listening()
    run(town_spec, copied, progress=progress)
    assert public_bytes(copied / "town") == before
    assert {step.split()[0] for step in progress.performed} == {"tabulate", "check", "charge", "close", "accuracy"}
    directory = RunDirectory(copied / "town")
    directory.main.table("total", "tract").unlink()
    directory.main.histogram("block").write_bytes(b"damaged")
    directory.manifest.unlink()
    progress = Listening()
    run(town_spec, copied, progress=progress)
    assert public_bytes(copied / "town") == before
    assert {"combine", "estimate block", "tables tract", "simulate"} <= set(progress.performed)
    assert {"estimate tract", "tables block", "measure block"} <= set(progress.skipped)


def test_restricted_files_are_closed_and_the_log_has_times_and_no_counts(town: Path) -> None:
    directory = RunDirectory(town)
    assert stat.S_IMODE(directory.restricted.stat().st_mode) == 0o700
    for path in directory.restricted.rglob("*"):
        assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert "run ends" in directory.log.read_text()
    accuracy = json.loads(directory.accuracy.read_text())
    assert accuracy[""]["total"]["county"] == 0
    assert accuracy["units"]["total"] == {"block": 0, "county": 0, "tract": 0}
    assert accuracy[""]["detail"]["block"] > 0


def test_other_records_are_refused_and_the_release_stays(copied: Path, tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", *QUICK)

    def kept() -> dict[str, bytes]:
        files = (path for path in (copied / "town").rglob("*") if path.is_file() and path.name != "run.log")
        return {path.relative_to(copied).as_posix(): path.read_bytes() for path in files}

    before = kept()
    assert "town/restricted/histograms/block.parquet" in before
    persons = pd.read_csv(tmp_path / "in" / "persons.csv").iloc[:-1]
    persons.to_csv(tmp_path / "in" / "persons.csv", index=False)
    with pytest.raises(InputError, match="begun on other records, or with another key"):
        run(spec, copied)
    assert kept() == before, "the true counts of the release among them"


def test_a_refused_budget_leaves_a_finished_release_as_it_is(copied: Path, town_spec: Path) -> None:
    def perform(step: Step) -> dict[str, object] | None:
        if step.stage == "charge":
            raise BudgetRefusedError("nothing is left")
        return step.perform()

    before = public_bytes(copied / "town")
    with pytest.raises(BudgetRefusedError):
        run(town_spec, copied, perform=perform)
    assert public_bytes(copied / "town") == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (('rho = "2"', 'rho = "3"'), "the spec's privacy"),
        (("test:1", "test:2"), "the key"),
        (('key = "insecure-test:1"', ""), "the key"),
        (("", ""), "the facilities of the bounds"),
    ],
)
def test_another_spec_is_refused_by_name(town: Path, tmp_path: Path, change: tuple[str, str], named: str) -> None:
    before = public_bytes(town)
    spec = write_town(tmp_path / "in", *QUICK, *[change] * bool(change[0]))
    if not change[0]:
        facilities = pd.read_csv(tmp_path / "in" / "facilities.csv")
        facilities.assign(dorms=facilities["dorms"] * 2).to_csv(tmp_path / "in" / "facilities.csv", index=False)
    with pytest.raises(InputError, match=f"holds another run: it differs in {named};"):
        run(spec, town.parent)
    assert public_bytes(town) == before


def test_a_file_that_is_not_of_the_run_is_refused(copied: Path, town_spec: Path) -> None:
    (copied / "town" / "public" / "tables" / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"1 files under public/ do not belong to this run: public/tables/notes\.txt"):
        run(town_spec, copied)


def test_a_key_file_is_used_where_it_is_and_stays_there(tmp_path: Path) -> None:
    MasterKey.from_text("insecure-test:1").write(tmp_path / "key")
    spec = write_town(tmp_path / "in", *QUICK)
    with pytest.raises(InputError, match=r"privacy\.key: found 'insecure-test:1' and --key file:"):
        run(spec, tmp_path / "out", key_file=tmp_path / "key")
    spec = write_town(tmp_path / "in", *QUICK, ('key = "insecure-test:1"', ""))
    root = run(spec, tmp_path / "out", key_file=tmp_path / "key")
    assert not RunDirectory(root).key.exists()
    with pytest.raises(InputError, match="it differs in the key"):
        run(spec, tmp_path / "out")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(InputError, match="found mode 0644"):
        run(spec, tmp_path / "out", key_file=tmp_path / "key")


def test_the_records_can_be_somewhere_else(copied: Path, tmp_path: Path) -> None:
    spec, moved = write_town(tmp_path / "in", *QUICK), tmp_path / "moved"
    moved.mkdir()
    (tmp_path / "in" / "persons.csv").rename(moved / "persons.csv")
    with pytest.raises(InputError, match=r"the folder has no file units\.csv"):
        run(spec, copied, data=moved)
    with pytest.raises(InputError, match="no such file or folder"):
        run(spec, copied, data=tmp_path / "nowhere")
    before = public_bytes(copied / "town")
    run(spec, copied, data=moved / "persons.csv")
    (tmp_path / "in" / "units.csv").rename(moved / "units.csv")
    run(spec, copied, data=moved)
    assert public_bytes(copied / "town") == before


def test_a_spec_that_cannot_be_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", *QUICK, ('rho = "2"', 'rho = "0.00000000000000001"'))
    with pytest.raises(InputError, match="noise scale: found"):
        run(spec, tmp_path / "out")
    spec = write_town(
        tmp_path / "in", ('file = "persons.csv"\nform = "microdata"\ngeocode = "block"', ""), ("[input]", "")
    )
    with pytest.raises(SpecError, match="input: missing; a run needs the records"):
        run(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@needs("report")
@pytest.mark.slow
def test_a_run_draws_a_key_and_keeps_it(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", *QUICK, ('key = "insecure-test:1"', ""))
    root = run(spec, tmp_path / "out")
    directory = RunDirectory(root)
    assert stat.S_IMODE(directory.key.stat().st_mode) == 0o600
    manifest = read_manifest(directory.manifest)
    assert manifest.status == manifest.charging == NOT_CHARGED
    assert NOT_CHARGED in directory.report.read_text()
    before = public_bytes(root)
    shutil.rmtree(directory.public / "measurements")
    run(spec, tmp_path / "out")
    assert public_bytes(root) == before
    other = run(spec, tmp_path / "other")
    assert public_bytes(other) != before

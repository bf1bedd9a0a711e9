"""A run can be repeated and gone on with to the same bytes, and refuses everything that would make it another."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from releases.asked import ask, write_workers
from releases.command import needs
from releases.small import QUICK, public_bytes, request_of, run, write_town

from features.registry import is_installed
from pipeline.confidential.custody import KeySource
from pipeline.errors import BudgetRefusedError, InputError, RecordsError
from pipeline.execution.faults import TimedOutError
from pipeline.execution.settings import load_settings
from pipeline.execution.steps import Notes, Silent, Step
from pipeline.execution.workers import WorkerError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.receipts import NOT_CHARGED
from pipeline.runs.run_here import retrying, run_here
from postprocess.errors import SolverError


class Listening(Silent):
    """Keeps which steps were performed, and which were passed over."""

    def __init__(self) -> None:
        self.performed: list[str] = []
        self.skipped: list[str] = []

    def finish(self, step: Step, seconds: float | None) -> None:
        (self.skipped if seconds is None else self.performed).append(step.name)


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


class Failing:
    """A step's work that fails a number of times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.tries = error, times, 0

    def __call__(self) -> Notes | None:
        self.tries += 1
        if self.tries <= self.times:
            raise self.error
        return {"tries": self.tries}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that are waited, without waiting."""
    seconds: list[float] = []
    monkeypatch.setattr("pipeline.runs.run_here.time.sleep", seconds.append)
    return seconds


def test_what_may_pass_is_retried(waits: list[float], caplog: pytest.LogCaptureFixture) -> None:
    work = Failing(WorkerError("planted text"), times=2)
    assert retrying(load_settings(retries=3, retry_delay=4))(Step("estimate", work, level="block")) == {"tries": 3}
    assert waits == [4, 8]
    assert "estimate block: WorkerError; retried in 4 s" in caplog.text
    assert "planted" not in caplog.text


@pytest.mark.parametrize(
    ("error", "retries", "tries"),
    [(RecordsError("wrong"), 3, 1), (SolverError("no"), 3, 1), (OSError("busy"), 2, 3), (OSError("busy"), 0, 1)],
)
def test_what_is_final_is_not(error: Exception, retries: int, tries: int, waits: list[float]) -> None:
    work = Failing(error, times=9)
    with pytest.raises(type(error)):
        retrying(load_settings(retries=retries))(Step("estimate", work))
    assert work.tries == tries
    assert len(waits) == tries - 1


def _in_a_thread(function: Callable[[], object]) -> BaseException | None:
    raised: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(60)
    return raised[0] if raised else None


@pytest.mark.slow
def test_the_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the main thread within a step, elsewhere between two; the run is resumed after it."""
    checked = request_of(write_town(tmp_path / "town", *QUICK), tmp_path / "out")
    before = signal.getsignal(signal.SIGALRM)
    with monkeypatch.context() as patched:
        patched.setattr("pipeline.confidential.parts.tabulate_universe", lambda *_: time.sleep(600))
        began = time.monotonic()
        with pytest.raises(TimedOutError, match=r"out/town: stopped after 0.2 s, the setting timeout; the same"):
            run_here(checked, Silent(), load_settings(timeout=0.2))
        assert time.monotonic() - began < 120
    assert signal.getsignal(signal.SIGALRM) is before
    assert isinstance(_in_a_thread(lambda: run_here(checked, Silent(), load_settings(timeout=0.05))), TimedOutError)
    resumed = run_here(checked, Silent(), load_settings())
    assert public_bytes(resumed) == public_bytes(run(checked.request.spec, tmp_path / "other"))


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> dict[str, str]:
    """Modes of the folder and of all in it that are not 0700, or 0600 of files; links of the run's own are left out."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        if (mode := stat.S_IMODE(path.lstat().st_mode)) != (0o700 if path.is_dir() else 0o600):
            found[str(path.relative_to(folder.parent))] = oct(mode)
    return found


@pytest.mark.usefixtures("no_umask")
def test_a_whole_run_leaves_nothing_confidential_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers, marks = tmp_path / "office" / "ledgers", tmp_path / "state" / "of" / "marks"
    place = ledgers / "ledger.sqlite"
    with Ledger.open(str(place), create=True, state=marks) as ledger:
        ledger.open_dataset("workers", population="x", framework="zcdp", budget=Fraction(9), neighbours="change-one")
    monkeypatch.setenv("SPINEWISE_LEDGER", str(place))
    monkeypatch.setenv("SPINEWISE_STATE", str(marks))
    spec = write_workers(tmp_path / "in", n=60)
    made = [run(spec, tmp_path / "out" / "of" / "this", workers=2)]
    if is_installed("questions"):
        made.append(ask(spec, "count by county", key=KeySource()))
    confidential = [*(root / "restricted" for root in made), ledgers.parent, marks.parents[1]]
    assert (made[0] / "restricted" / "key").is_file()
    assert len([path for folder in confidential for path in folder.rglob("*") if path.is_dir()]) >= 6
    assert {name: mode for folder in confidential for name, mode in open_to_others(folder).items()} == {}
    assert all(stat.S_IMODE((root / "public").stat().st_mode) == 0o777 for root in made), "the umask is 000"

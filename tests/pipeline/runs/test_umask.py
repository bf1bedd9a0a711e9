"""What is confidential is closed to others whatever the umask: folders of a run, an answer, a ledger and its marks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from releases.asked import ask, write_workers
from releases.small import run

from features.registry import is_installed
from pipeline.confidential.custody import KeySource
from pipeline.privacy.ledger.ledger import Ledger


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

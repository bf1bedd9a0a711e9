"""The program by itself: what it says of a release, and of one in which something is another."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from releases.command import feature_module
from releases.small import run

from auditor.files import read_measured
from auditor.program import main
from auditor.reading.findings import FormError
from auditor.release import Release


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, whole_trial = tmp_path_factory.mktemp("audited"), feature_module("features.audit.whole_trial")
    trial = whole_trial.Trial("zcdp", "change-one", bypass=False, budget=Fraction(1))
    return run(whole_trial.written(folder, trial, 'key = "insecure-test:3"', blocks=200), folder / "out")


def test_the_program_alone(sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "tried"))
    assert main([str(root)]) == 0
    said = capsys.readouterr().out
    assert "FAILED" not in said
    (root / "public" / "report.html").write_text("another")
    (root / "public" / "tables" / "manifest.old").write_text("more")
    assert main([str(root)]) == 1
    said = capsys.readouterr().out
    assert "report.html is not the file that is listed" in said
    assert "tables/manifest.old is not listed" in said
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_numbers_of_one_area_at_the_code_of_another_are_not_taken(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows of the same answers, in another order: the noise would be taken from the truth of other areas."""
    release = Release(sound)
    due = next(due for due in release.due if len(due.geounits.codes) > 1)
    codes, values = read_measured(due.path)
    monkeypatch.setattr("auditor.release.read_measured", lambda _: (codes[::-1], values))
    with pytest.raises(FormError, match="rows or answers are not those"):
        release.residuals(due)

"""What a run shows on Prefect's pages: public values, under the release's name; a server that is away stops nothing."""

from __future__ import annotations

import json
import logging
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pandas as pd
import pytest
from releases.command import needs
from releases.small import QUICK, request_of, write_town

import flows.orchestration.artifacts
from flows.orchestration.artifacts import ReleaseArtifacts
from pipeline.execution.progress import Together
from pipeline.execution.steps import perform_here
from pipeline.runs.run import run_release


class Pages:
    """In the place of Prefect's client: keeps what is made, or is away."""

    def __init__(self) -> None:
        self.away = False
        self.calls = 0
        self.made: dict[str, Any] = {}
        self.progress: list[tuple[float, str]] = []

    def make(self, content: object, key: str, description: str) -> UUID:
        self.calls += 1
        if self.away:
            raise ConnectionError("away")
        assert description
        self.made[key] = content
        return uuid4()

    def update(self, _: UUID, progress: float, text: str) -> None:
        self.progress.append((progress, text))


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    found = Pages()
    monkeypatch.setattr(flows.orchestration.artifacts, "_OFTEN", 0.0)
    for name in ("create_table_artifact", "create_progress_artifact", "create_markdown_artifact"):
        monkeypatch.setattr(flows.orchestration.artifacts, name, found.make)
    monkeypatch.setattr(flows.orchestration.artifacts, "update_progress_artifact", found.update)
    monkeypatch.setattr(flows.orchestration.artifacts, "get_run_logger", lambda: logging.getLogger("spinewise.tests"))
    return found


def released(spec: Path, out: Path) -> Path:
    """A run that tells the pages; its directory."""
    checked = request_of(spec, out)
    artifacts = ReleaseArtifacts(checked)
    root = run_release(checked, Together(artifacts), artifacts.noting(perform_here))
    artifacts.finished(checked.run)
    artifacts.close()
    return root


@needs("report")
def test_artifacts_have_public_values_alone(tmp_path: Path, pages: Pages, caplog: pytest.LogCaptureFixture) -> None:
    """The count of one cell, a number that stands for nothing else, is in none of them, and in no line of the log."""
    spec = write_town(tmp_path / "in", *QUICK)
    planted = 7_340_033
    units = pd.read_csv(tmp_path / "in" / "units.csv", dtype=str)
    units.loc[(units["block"] == "A0101") & (units.iloc[:, 1] == "vacant"), "count"] = str(planted)
    assert (units["count"] == str(planted)).sum() == 1
    units.to_csv(tmp_path / "in" / "units.csv", index=False)
    with caplog.at_level(logging.DEBUG):
        root = released(spec, tmp_path / "out")
    names = {"plan", "budget", "solver", "sizes", "times", "progress", "release"}
    assert set(pages.made) == {f"town-{name}" for name in names}
    shown = json.dumps([pages.made, pages.progress]) + caplog.text
    assert str(planted) not in shown
    assert f"{planted:,}" not in shown
    truth = pd.read_parquet(root / "restricted" / "companions" / "units" / "histograms" / "county.parquet")["count"]
    assert truth.max() > planted
    assert not [count for count in truth if count > 1000 and str(count) in shown]
    assert [row["bytes"] for row in pages.made["town-sizes"]] == [
        (root / "public" / row["file"]).stat().st_size for row in pages.made["town-sizes"]
    ]
    assert {row["step"] for row in pages.made["town-solver"]} >= {"estimate block", "estimate units block"}
    assert "NOT FOR RELEASE" in pages.made["town-release"]
    assert (root / "public" / "report.html").as_uri() in pages.made["town-release"]
    assert "estimate block: 23 geounits, " in caplog.text
    shares: dict[str, Fraction] = {}
    for row in pages.made["town-budget"]:
        shares[row["universe"]] = shares.get(row["universe"], Fraction(0)) + Fraction(row["share"])
    assert shares == {"main": 1, "units": 1}
    told = [share for share, _ in pages.progress]
    assert (told, told[-1]) == (sorted(told), 100)
    # A server that is away stops nothing, and is not asked again.
    pages.away, asked = True, pages.calls
    assert released(spec, tmp_path / "out") == root
    assert pages.calls == asked + 1
    assert "takes no artifacts (ConnectionError)" in caplog.text

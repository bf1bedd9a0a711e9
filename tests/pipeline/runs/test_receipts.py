"""The receipt of a release states what it cost: `verify` compares it with the budget, without the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from releases.updated import charged_release, seal

from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release

QUICK = ("[input]", "[publish]\nreplicates = 0\nmargins = false\nmicrodata = false\n[input]")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with charged_release(tmp_path_factory.mktemp("receipts"), QUICK) as (_, root):
        yield root


def receipt_of(root: Path) -> dict[str, Any]:
    (receipt,) = json.loads(RunDirectory(root).manifest.read_bytes())["receipts"]
    return dict(receipt)


@pytest.mark.parametrize(
    "change", [{"cost": "1/2"}, {"cost": "2"}, {"unit": "epsilon"}, {"cost": "1/1"}, {"dataset": "x"}]
)
def test_a_receipt_of_another_cost_does_not_verify(release: Path, change: dict[str, str]) -> None:
    run = RunDirectory(release)
    kept = run.manifest.read_bytes()
    assert receipt_of(release)["cost"] == "1"
    try:
        seal(release, receipts=[receipt_of(release) | change])
        assert any("receipts" in problem for problem in verify_release(run, 1, Silent()))
    finally:
        run.manifest.write_bytes(kept)

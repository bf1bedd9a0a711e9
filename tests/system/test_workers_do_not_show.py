"""The number of workers, and the batches that they are given, do not show in a single public byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import public_bytes, run

import postprocess.downward.tasks


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bytes(
    town_spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes]
) -> None:
    # The town is one batch; small ones make the workers share each level.
    monkeypatch.setattr(postprocess.downward.tasks, "BATCH_CELLS", 60)
    two = public_bytes(run(town_spec, tmp_path / "two", workers=2))
    assert two == public_bytes(run(town_spec, tmp_path / "one", workers=1))
    assert two == undisturbed

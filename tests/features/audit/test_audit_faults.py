"""Faults that the audit of a release finds without its key, in its statements, and in files that are no numbers.

Faults in a draw, a charge or a file are rows of the table that `test_mutations.py` plants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.command import needs
from releases.small import QUICK, run, write_town

import pipeline.confidential.measure
import pipeline.model.universe
from features.audit.findings import Audit
from features.audit.finished import audit_release
from pipeline.confidential.custody import KeySource
from pipeline.estimation.whole_spine import Estimation
from pipeline.plan import Plan
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.layout import RunDirectory

Patch = pytest.MonkeyPatch
#: Changes to the town's spec that spare what these tests do not look at.
LIGHT = (("replicates = 3", "margins = false"), ("unbiased = true", "unbiased = false"), QUICK[1])


def audited(tmp_path: Path, monkeypatch: Patch | None = None, *, key: bool = True) -> Audit:
    """The audit of a run of the town while a fault is switched on, which is off in the audit."""
    root = run(write_town(tmp_path / "in", *LIGHT), tmp_path / "out")
    if monkeypatch is not None:
        monkeypatch.undo()
    directory = RunDirectory(root)
    if not key:
        directory.key.unlink()
    return audit_release(directory, KeySource(), None, 1, lambda _: None)


def failed(audit: Audit, group: str = "release") -> set[str]:
    """What the program's own checks find, or those of the second program, "independent"."""
    return {finding.check for finding in audit.failed if finding.group == group}


def _half(patch: Patch) -> None:
    class Half:
        def __init__(self, spec: NoiseSpec) -> None:
            self.sampler = sampler_for(replace(spec, scale=spec.scale / 4))

        def draw(self, stream_key: bytes, start: int, count: int) -> np.ndarray:
            return self.sampler.draw(stream_key, start, count)

    patch.setattr(pipeline.confidential.measure, "sampler_for", Half)


def _one_stream(patch: Patch) -> None:
    sound = MasterKey.stream_key
    patch.setattr(MasterKey, "stream_key", lambda self, context, level, _: sound(self, context, level, "all"))


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "check"), [(None, ""), (_half, "noise found"), (_one_stream, "streams apart")])
def test_noise_is_judged_without_its_key(
    tmp_path: Path, monkeypatch: Patch, plant: Callable[[Patch], None] | None, check: str
) -> None:
    """Noise that is too small by its spread, streams that overlap by correlation; what is sound passes."""
    if plant is not None:
        plant(monkeypatch)
    audit = audited(tmp_path, monkeypatch if plant is not None else None, key=False)
    assert (check in failed(audit)) == (plant is not None)
    assert "noise redrawn" not in failed(audit, "independent")
    assert plant is not None or failed(audit) == set(), audit.failed


@pytest.mark.slow
def test_wrong_neighbours(tmp_path: Path, monkeypatch: Patch) -> None:
    """The spec is for a changed record, the noise is for an added one."""

    def wrong(*arguments: Any) -> NoiseSpec:
        given: tuple[Any, ...] = (*arguments[:-1], "add-remove")
        return noise_for(*given)

    monkeypatch.setattr(pipeline.model.universe, "noise_for", wrong)
    monkeypatch.setattr(Plan, "checked", lambda self: self)  # or the run is refused, see pipeline/test_plan.py
    audit = audited(tmp_path, monkeypatch)
    assert failed(audit) >= {"noise found"}
    assert failed(audit, "independent") >= {"statements", "headers"}


@pytest.mark.slow
def test_a_restricted_value_in_the_manifest(tmp_path: Path, monkeypatch: Patch) -> None:
    """A step that sees the records tells something, and it reaches the manifest."""
    estimate = Estimation.estimate_level
    monkeypatch.setattr(Estimation, "estimate_level", lambda self, level: {**estimate(self, level), "persons": 1234})
    audit = audited(tmp_path, monkeypatch)
    assert failed(audit) == {"verified"}
    assert failed(audit, "independent") == {"solver notes"}
    assert any("reports persons = 1234" in finding.detail for finding in audit.failed)


@needs("report")
@pytest.mark.slow
def test_the_key_in_a_public_file(tmp_path: Path) -> None:
    root = run(write_town(tmp_path / "in", ('key = "insecure-test:1"', ""), *LIGHT), tmp_path / "out")
    secret = (root / "restricted" / "key").read_text().split()[1]
    (root / "public" / "report.html").write_bytes(b"x" + bytes.fromhex(secret) + b"y")
    audit = audit_release(RunDirectory(root), KeySource(), None, 1, lambda _: None)
    assert "public/report.html holds the master key" in str([f.detail for f in audit.failed])

"""A release verifies from its public files alone; any change to any of them is found and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from releases.updated import seal

import pipeline.release.manifest
from auditor.check.release import check_release
from pipeline.execution.progress import Silent
from pipeline.published import release_at
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest, version_differences
from pipeline.runs.verify import verify_release


def verify(root: Path) -> list[str]:
    return verify_release(release_at(root), 1, Silent())


@pytest.fixture
def copied(town: Path, tmp_path: Path) -> Path:
    """A copy of what is public of the release, under a name of its own; there is no restricted/."""
    shutil.copytree(town / "public", tmp_path / "downloaded" / "public")
    return tmp_path / "downloaded"


def test_a_release_verifies_without_anything_restricted(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify(copied) == []
    assert verify(copied / "public") == []
    monkeypatch.chdir(copied / "public")
    assert release_at(Path()).root == copied
    assert verify(Path()) == [], "as '.' within it"
    assert check_release(Path()) == []


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("privacy", lambda found: [{**found[0], "budget": "1/10"}, *found[1:]]),
        ("public_seed", lambda found: found + 1),
        ("release", lambda found: found + "-final"),
        ("input_fingerprints", lambda found: {"": found[""]}),
    ],
)
def test_a_manifest_that_states_something_else_is_found(copied: Path, key: str, change) -> None:  # type: ignore[no-untyped-def]
    content = json.loads(RunDirectory(copied).manifest.read_text())
    seal(copied, **{key: change(content[key])})
    assert verify(copied) == [f"public/manifest.json: {key} is not what the spec gives"]


def test_a_spec_with_a_smaller_budget_does_not_fit_the_measurements(copied: Path) -> None:
    spec = json.loads(RunDirectory(copied).manifest.read_text())["spec"]
    spec["privacy"]["rho"] = "1"
    seal(copied, spec=spec)
    (problem,) = verify(copied)
    assert problem.startswith("public/ cannot be recomputed: ")
    assert "measurements/county/total.parquet does not match the spec: its scale is" in problem


def test_a_file_more_than_the_spec_gives_is_named(copied: Path) -> None:
    files = json.loads(RunDirectory(copied).manifest.read_text())["files"]
    (copied / "public" / "extra.parquet").write_bytes(b"x")
    seal(copied, files={**files, "extra.parquet": {"sha256": "", "bytes": 0}})
    assert verify(copied) == ["public/extra.parquet does not follow from the spec; no such file is part of the release"]


@pytest.mark.slow
def test_other_versions_are_told_with_what_differs(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = read_manifest(RunDirectory(copied).manifest)
    assert version_differences(manifest) == []
    here = manifest.software
    other = here.model_copy(update={"packages": {**here.packages, "numpy": "1.0"}, "python": "3.0"})
    monkeypatch.setattr(pipeline.release.manifest, "software", lambda: other)
    (sentence,) = version_differences(manifest)
    assert sentence == (
        f"the installed versions are not those it was made with: numpy 1.0 (made with {here.packages['numpy']}), "
        f"python 3.0 (made with {here.python})"
    )
    assert verify(copied) == []
    seal(copied, public_seed=9)
    assert verify(copied) == ["public/manifest.json: public_seed is not what the spec gives", sentence]

"""A release is made again from records and key, or verified from its public files: whatever differs is named."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.repeated import rerun
from releases.small import QUICK, write_town
from releases.updated import seal

import pipeline.confidential.parts
import pipeline.release.manifest
from auditor.check.release import check_release
from pipeline.confidential.custody import KeySource
from pipeline.confidential.measure import measure_level, tabulate_universe
from pipeline.errors import InputError, RefusedError
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.privacy.keys import MasterKey
from pipeline.published import release_at
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.measurements import MeasurementWriter, read_measurement
from pipeline.release.run_directory import held
from pipeline.runs.verify import verify_release
from pipeline.storage.files import sha256_file
from pipeline.storage.paths import unchecked


@pytest.fixture
def copied(town: Path, tmp_path: Path) -> Path:
    shutil.copytree(town, tmp_path / "town")
    return tmp_path / "town"


def test_every_public_file_is_the_same_and_nothing_is_left_behind(
    town: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """True counts are written below restricted/ only, and not for long."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders: list[str] = []

    def tabulate(job: Job, *rest: Any) -> Any:
        folders.append(str(job.run.root))
        return tabulate_universe(job, *rest)

    monkeypatch.setattr(pipeline.confidential.parts, "tabulate_universe", tabulate)
    before = {path: sha256_file(path) for path in town.rglob("*") if path.is_file()}
    found = rerun(town)
    assert found.same
    assert found.remarks == ()
    assert found.files == len(read_manifest(RunDirectory(town).manifest).files) + 1
    assert {path: sha256_file(path) for path in town.rglob("*") if path.is_file()} == before
    assert list(tmp_path.iterdir()) == []
    assert {Path(folder).parents[1] for folder in folders} == {town / "restricted" / "staging"}
    assert list((town / "restricted" / "staging").iterdir()) == []


@pytest.mark.slow
def test_what_a_killed_rerun_left_is_removed_and_two_do_not_meet(copied: Path) -> None:
    directory = RunDirectory(copied)
    (directory.staging / "rerun-x").mkdir()
    with held(directory), pytest.raises(InputError, match="another process is running in"):
        rerun(copied)
    assert rerun(copied).same
    assert list(directory.staging.iterdir()) == []


@pytest.mark.slow
def test_public_files_key_records_and_spec_are_enough(town: Path, town_spec: Path, tmp_path: Path) -> None:
    """On another machine: no restricted/, the records under another path and in another form."""
    shutil.copytree(town / "public", tmp_path / "got" / "public")
    shutil.copy(town / "restricted" / "key", tmp_path / "key")
    shutil.copytree(town_spec.parent, tmp_path / "in")
    records = tmp_path / "in" / "persons.csv"
    pd.read_csv(records, dtype=str).sample(frac=1, random_state=2).to_csv(records, index=False)
    source = KeySource(file=tmp_path / "key")
    assert rerun(tmp_path / "got", spec=tmp_path / "in" / "release.toml", source=source).same
    assert rerun(tmp_path / "got", data=tmp_path / "in", spec=town_spec, source=source).same
    with pytest.raises(InputError, match=r"nothing here says how the records are read.*--spec SPEC"):
        rerun(tmp_path / "got", data=tmp_path / "in", source=source)
    with pytest.raises(InputError, match="the key is not here; give it with --key"):
        rerun(tmp_path / "got", spec=town_spec)


def test_another_spec_or_key_is_refused_by_name(town: Path, tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", QUICK[1], ("upper = 60", "upper = 61"), ("replicates = 3", "replicates = 4"))
    with pytest.raises(InputError, match=r"is not the spec of .*: it differs in bounds, publish;"):
        rerun(town, spec=spec)
    MasterKey.generate().write(tmp_path / "key")
    with pytest.raises(InputError, match=r"the key is not the one that .* was made with: its commitment begins with"):
        rerun(town, source=KeySource(file=tmp_path / "key"))


def test_files_that_are_missing_added_or_damaged_are_named(copied: Path) -> None:
    directory = RunDirectory(copied)
    directory.main.histogram("block").unlink()
    (directory.public / "note.txt").write_text("x")
    directory.main.microdata.write_bytes(b"damaged")
    path = directory.main.measurement("tract", "total")
    stored = read_measurement(unchecked(path))
    stored.values[3] += 1
    with MeasurementWriter.open(path, copied, stored.header) as writer:
        writer.write(stored.geocodes, stored.values)
    differences = rerun(copied).differences
    said = f"public/measurements/tract/total.parquet: level tract, geounit {stored.geocodes[3]}, "
    assert any(str(one).startswith(said) for one in differences)
    found = {d.file: (d.what, d.level, d.geounit) for d in differences}
    assert found.pop("public/measurements/tract/total.parquet")[1:] == ("tract", stored.geocodes[3])
    assert {file: what for file, (what, _, _) in found.items()} == {
        "public/histograms/block.parquet": "is recomputed and is not in the release",
        "public/microdata.parquet": "cannot be read",
        "public/note.txt": "is in the release and is not recomputed",
    }


def test_over_other_records_no_noise_is_drawn(
    town: Path, town_spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be measured without a charge. The same records still can be, by the same patched function."""
    measured: list[str] = []

    def measure(*given: Any) -> Any:
        measured.append(given[-1])
        return measure_level(*given)

    monkeypatch.setattr(pipeline.confidential.parts, "measure_level", measure)
    assert rerun(town).same
    assert measured == ["county", "tract", "block"] * 2
    measured.clear()
    shutil.copytree(town_spec.parent, tmp_path / "in")
    lines = (tmp_path / "in" / "persons.csv").read_text().splitlines()
    (tmp_path / "in" / "persons.csv").write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(InputError, match=r"the records are not those that .* was made from: town; nothing was drawn"):
        rerun(town, data=tmp_path / "in")
    assert measured == []


def test_records_that_are_refused_are_told_in_a_closed_file_that_stays(
    copied: Path, town_spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(town_spec.parent, tmp_path / "in")
    with (tmp_path / "in" / "persons.csv").open("a") as file:
        file.write("A0101,SECRETVALUE,f,house\n")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with pytest.raises(RefusedError) as kept:
        rerun(copied, data=tmp_path / "in")
    assert kept.value.details == copied / "restricted" / "refused.txt"
    assert "SECRETVALUE" in kept.value.details.read_text()
    assert kept.value.details.stat().st_mode & 0o077 == 0
    assert list((tmp_path / "tmp").iterdir()) == []
    shutil.move(copied / "restricted" / "key", tmp_path / "key")
    shutil.rmtree(copied / "restricted")
    with pytest.raises(RefusedError) as error:
        rerun(copied, tmp_path / "in", town_spec, KeySource(file=tmp_path / "key"))
    assert "SECRETVALUE" not in str(error.value)
    assert "SECRETVALUE" in error.value.details.read_text()
    assert error.value.details.parent.stat().st_mode & 0o077 == 0
    assert [path.name.rsplit("-", 1)[0] for path in (tmp_path / "tmp").iterdir()] == ["spinewise-refused"]


def verify(root: Path) -> list[str]:
    return verify_release(release_at(root), 1, Silent())


@pytest.fixture
def downloaded(town: Path, tmp_path: Path) -> Path:
    """A copy of what is public of the release, under a name of its own; there is no restricted/."""
    shutil.copytree(town / "public", tmp_path / "downloaded" / "public")
    return tmp_path / "downloaded"


def test_a_release_verifies_without_anything_restricted(downloaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify(downloaded) == []
    assert verify(downloaded / "public") == []
    monkeypatch.chdir(downloaded / "public")
    assert release_at(Path()).root == downloaded
    assert verify(Path()) == [], "as '.' within it"
    assert check_release(Path()) == []


def test_a_spec_with_a_smaller_budget_does_not_fit_the_measurements(downloaded: Path) -> None:
    spec = json.loads(RunDirectory(downloaded).manifest.read_text())["spec"]
    spec["privacy"]["rho"] = "1"
    seal(downloaded, spec=spec)
    (problem,) = verify(downloaded)
    assert problem.startswith("public/ cannot be recomputed: ")
    assert "measurements/county/total.parquet does not match the spec: its scale is" in problem


def test_a_file_more_or_less_than_the_spec_gives_is_named(downloaded: Path) -> None:
    files = json.loads(RunDirectory(downloaded).manifest.read_text())["files"]
    (downloaded / "public" / "extra.parquet").write_bytes(b"x")
    seal(downloaded, files={**files, "extra.parquet": {"sha256": "", "bytes": 0}})
    assert verify(downloaded) == [
        "public/extra.parquet does not follow from the spec; no such file is part of the release"
    ]
    (downloaded / "public" / "extra.parquet").unlink()
    (downloaded / "public" / "microdata.parquet").unlink()
    seal(downloaded, files={name: entry for name, entry in files.items() if name != "microdata.parquet"})
    assert verify(downloaded) == ["public/microdata.parquet is missing; the spec says that it is published"]

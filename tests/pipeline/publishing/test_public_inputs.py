"""A new public input is one object in one list: everything that has to do with public inputs goes through it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from releases.small import QUICK, request_of, run, write_town

from flows.checks.validation import validate
from pipeline.errors import InputError, ReleaseError
from pipeline.execution.progress import Silent
from pipeline.inputs.geography import read_spine
from pipeline.inputs.public_input import InputScope, PublicInput
from pipeline.model.universe import Universe
from pipeline.published import open_finished
from pipeline.publishing import public_inputs
from pipeline.publishing.public_inputs import PUBLIC_INPUTS, inputs_to_measure
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.published_files import PublishedFiles
from pipeline.release.run_directory import recorded_identity
from pipeline.runs.open_public import open_listed, open_published
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from pipeline.storage.files import json_sha256, sha256_file, write_json


class HarvestInput(PublicInput[list[int]]):
    """Bushels of each year, which no release has."""

    key = "harvest"
    for_measuring: ClassVar[bool] = True

    def read(self, scope: InputScope) -> list[int]:
        found: list[int] = []
        with scope.noted():
            text = (Path(str(scope.spec.geography.file)).parent / "harvest.csv").read_text()
            if not text.replace(",", "").isdigit():
                raise InputError(f"harvest: found {text!r}; whole numbers are allowed")
            found += [int(bushels) for bushels in text.split(",")]
        return found

    def again(self, scope: InputScope, files: PublishedFiles) -> list[int]:
        path = files.unchanged(files.run.public / "harvest.json")
        try:
            found: list[int] = json.loads(path.read_bytes())
        except OSError as error:
            raise ReleaseError("harvest.json is missing") from error
        return found

    def write(self, scope: InputScope, run: RunDirectory, found: list[int]) -> None:
        write_json(run.public / "harvest.json", found, run.staging)

    def files(self, spec: ReleaseSpec, universes: Sequence[Universe], run: RunDirectory) -> tuple[Path, ...]:
        return (run.public / "harvest.json",)

    def identity(self, found: list[int]) -> Mapping[str, str]:
        return {"the harvest": json_sha256(found)}

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        return True

    def sha256(self, spec: ReleaseSpec, universe: Universe, run: RunDirectory) -> str:
        return sha256_file(run.public / "harvest.json")


@pytest.fixture
def harvest(monkeypatch: pytest.MonkeyPatch) -> HarvestInput:
    """The list with one more."""
    made_up = HarvestInput()
    monkeypatch.setattr(public_inputs, "PUBLIC_INPUTS", (*PUBLIC_INPUTS, made_up))
    return made_up


def written(folder: Path) -> Path:
    spec = write_town(folder, *QUICK)
    (folder / "harvest.csv").write_text("12,7,31")
    return spec


def test_one_entry_in_the_list_is_enough(harvest: HarvestInput, tmp_path: Path) -> None:
    spec = written(tmp_path / "town")
    released = RunDirectory(run(spec, tmp_path / "out"))
    kept = released.public / "harvest.json"
    assert json.loads(kept.read_bytes()) == [12, 7, 31]
    manifest = read_manifest(released.manifest)
    assert manifest.files["harvest.json"].sha256 == sha256_file(kept)
    (stated,) = (one for one in manifest.provenance if one.name == "harvest")
    assert (stated.source, stated.sha256) == ("public", sha256_file(kept))
    assert recorded_identity(released)["the harvest"] == json_sha256([12, 7, 31])
    assert verify_release(released, 1, Silent()) == []
    listed = open_listed(load_spec(spec), load_spec(spec).universes())
    finished = open_finished(released.root, check_hashes=True)
    again = open_published(finished, finished.universes)
    assert listed.inputs.of(harvest) == again.inputs.of(harvest) == [12, 7, 31]
    assert listed.identity()["the harvest"] == again.identity()["the harvest"] == json_sha256([12, 7, 31])
    assert inputs_to_measure(listed.spec, listed.inputs).values.keys() == {"bounds", "harvest"}

    (spec.parent / "harvest.csv").write_text("12,7,32")
    with pytest.raises(InputError, match=r"holds another run: it differs in the harvest;"):
        run(spec, tmp_path / "out")
    (spec.parent / "harvest.csv").write_text("many")
    (finding,) = validate(None, spec).findings
    assert finding.text == "harvest: found 'many'; whole numbers are allowed"
    kept.unlink()
    with pytest.raises(ReleaseError, match=r"harvest\.json is missing"):
        open_published(finished, finished.universes)
    kept.write_text("[]")
    (problem,) = verify_release(released, 1, Silent())
    assert "public/harvest.json" in problem


def test_a_validation_reads_every_public_input(tmp_path: Path) -> None:
    """Also outlines, which were read by a run alone."""
    outlines = '[report.polygons.tract]\nfile = "tracts.geojson"\ncode = "GEOID"\n\n[companions.units]'
    spec = write_town(tmp_path, ("[companions.units]", outlines))
    (tmp_path / "tracts.geojson").write_text("{}")
    facilities = tmp_path / "facilities.csv"
    facilities.write_text(facilities.read_text().replace("dorms", "homes"))
    with pytest.raises(InputError, match=r"report\.polygons\.tract"):
        public_inputs.PolygonsInput().read(open_scope(spec))
    assert [one.part for one in validate(None, spec).findings] == ["bounds", "polygons"]
    request = request_of(spec, tmp_path / "out")
    with pytest.raises(InputError, match="no column 'dorms'"):
        open_listed(request.spec, request.universes)


def open_scope(spec: Path) -> InputScope:
    stated = load_spec(spec)
    return InputScope(stated, stated.universes(), read_spine(stated.geography))

"""A new published file is one entry in one catalogue: run, verify, manifest and Data Package go through it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from releases.chosen import write_chosen
from releases.homes import write_homes
from releases.named import write_named_town
from releases.small import QUICK, run, write_town
from releases.wages import write_wages

import pipeline.publishing.steps
from features.registry import is_installed
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.metadata import products
from pipeline.metadata.contents import Column, Contents, DataFile, ProductFile
from pipeline.metadata.products import PRODUCTS, Description, Product, ReleaseScope, files_of
from pipeline.publishing.files import answer_paths, input_files, output_files
from pipeline.publishing.steps import public_steps, write_package
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest, write_manifest
from pipeline.runs.open_public import open_listed
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec
from pipeline.storage.files import write_parquet


def _ages(of: ReleaseScope) -> Iterator[ProductFile]:
    yield ProductFile(of.run.public / "ages" / "county.parquet", level="county")


def _described(_: Contents, file: ProductFile) -> DataFile:
    columns = (Column("geocode", "string", "Code"), Column("years", "number", "Mean age"))
    return DataFile("ages/county", "table", file.path, "", "ages", "county", "Ages", "Ages, by county", columns)


#: Mean ages, which no release has.
AGES = Product("ages/LEVEL.parquet", "geocode, mean age", "computed", _ages, Description((9, 0), _described))


def _write_ages(job: Job) -> None:
    """What the writer of a made-up file does, in the step of the Data Package."""
    table = pa.table({"geocode": job.spine.level("county").geocodes.tolist(), "years": [41.5, 38.25]})
    write_parquet(job.run.public / "ages" / "county.parquet", table, job.run.staging, {"kind": "ages"})
    write_package(job)


@pytest.fixture
def ages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue with one more, which is written."""
    monkeypatch.setattr(products, "PRODUCTS", (*PRODUCTS, AGES))
    monkeypatch.setattr(pipeline.publishing.steps, "write_package", _write_ages)


def resources(released: RunDirectory) -> dict[str, Any]:
    return {one["path"]: one for one in json.loads(released.package.read_bytes())["resources"]}


@pytest.mark.usefixtures("ages")
def test_one_entry_in_the_catalogue_is_enough(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "town", *QUICK)
    released = RunDirectory(run(spec, tmp_path / "out"))
    assert "ages/county.parquet" in read_manifest(released.manifest).files
    fields = resources(released)["ages/county.parquet"]["schema"]["fields"]
    assert [(one["name"], one["type"], one["title"]) for one in fields] == [
        ("geocode", "string", "Code"),
        ("years", "number", "Mean age"),
    ]
    assert verify_release(released, 1, Silent()) == []
    assert products.level_of(released, released.public / "ages" / "county.parquet", ["county", "block"]) == "county"
    run(spec, tmp_path / "out")  # its own file is none of another run

    manifest = read_manifest(released.manifest)
    (released.public / "ages" / "county.parquet").unlink()
    files = {name: entry for name, entry in manifest.files.items() if not name.startswith("ages/")}
    write_manifest(released, manifest.model_copy(update={"files": files}))
    assert "public/ages/county.parquet is missing; the spec says that it is published" in verify_release(
        released, 1, Silent()
    )


def _town(folder: Path) -> Path:
    return write_town(folder, ("unbiased = true", "unbiased = true\ndraws = 2\nmicrodata = true"))


#: With the features joins and amounts, where they are installed: their files are written, too.
LINKED = [*([write_homes] if is_installed("joins") else []), *([write_wages] if is_installed("amounts") else [])]


@pytest.mark.parametrize("write", [_town, write_named_town, *LINKED, write_chosen])
def test_the_steps_of_a_run_write_what_the_catalogue_has(write: Callable[[Path], Path], tmp_path: Path) -> None:
    """Each computed file is of one step, and no step writes another; of all others, the run has those of its spec."""
    spec = load_spec(write(tmp_path))
    side = open_listed(spec, spec.universes())
    job = side.job(RunDirectory(tmp_path / "out" / spec.name), Workers(1), Silent())
    written = [path for step in public_steps(job) for path in step.files]
    assert len(written) == len(set(written))
    assert set(written) == set(output_files(job))
    assert not set(written) & set(input_files(job))
    for universe in job.universes:
        for level in job.spine.level_names:
            assert set(answer_paths(job, universe, level)) <= set(input_files(job))
    every = ReleaseScope(job.spec, job.universes, job.run)
    known = [product for product in products.products_of(job.spec.of_features) if product.role != "statement"]
    assert set(files_of(every, *known)) == {
        *written,
        *input_files(job),
    }

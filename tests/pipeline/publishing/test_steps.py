"""A release is whole numbers that add up and keep every constraint, and it follows from its public inputs alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import QUICK, public_bytes, run, write_town

from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.steps import Step
from pipeline.execution.workers import Workers
from pipeline.publishing.files import input_files, output_files
from pipeline.publishing.steps import perform_public_steps
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.spine import read_public_spine
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.readable import unchecked


@pytest.fixture(params=["town", "topdown"])
def released(request: pytest.FixtureRequest, town: Path, tmp_path: Path) -> Path:
    """A release by each estimator."""
    if request.param == "town":
        return town
    change = ("[companions.units]", '[postprocess]\nsolver = "batched"\nestimator = "topdown"\n\n[companions.units]')
    return run(write_town(tmp_path / "in", QUICK[0], change), tmp_path / "out")


def histograms(root: Path) -> Iterator[tuple[str, ReleaseSpec, list[np.ndarray], list[np.ndarray]]]:
    """Universe, spec, and per level the geocodes' parents and the released counts."""
    directory = RunDirectory(root)
    spec = ReleaseSpec.from_public_dict(read_manifest(directory.manifest).spec)
    spine = read_public_spine(unchecked(directory.spine), spec.geography.level_names)
    for universe in spec.universes():
        folder = directory.universe(universe.name)
        counts = [
            read_histogram(unchecked(folder.histogram(level.name)), level.geocodes, universe.schema).toarray()
            for level in spine.levels
        ]
        yield universe.name, spec, [level.parents for level in spine.levels], counts


def test_levels_add_up_and_constraints_hold(released: Path) -> None:
    directory = RunDirectory(released)
    for _, _, parents, counts in histograms(released):
        for above, below, parent in zip(counts, counts[1:], parents[1:], strict=False):
            summed = np.zeros_like(above)
            np.add.at(summed, parent, below)
            assert np.array_equal(summed, above)
            assert (below >= 0).all()
    (_, spec, _, town), (_, _, _, units) = histograms(released)
    main, _ = spec.universes()
    truth = pd.read_parquet(directory.main.true_histogram("county")).groupby("geocode", observed=True)["count"].sum()
    assert town[0].sum(axis=1).tolist() == truth.tolist()
    assert (town[-1][:, main.structural_zeros] == 0).all()
    facilities = pd.read_parquet(directory.main.constraint(0))
    quarters = town[-1].reshape(-1, 3, 2, 3).sum(axis=(1, 2))
    for column, label in ((1, "dorm"), (2, "prison")):
        assert (quarters[:, column] <= 60 * facilities[label]).all()
        assert (quarters[:, column] >= facilities[label]).all()
    true_units = pd.read_parquet(directory.universe("units").true_histogram("block"))
    released_units = pd.read_parquet(directory.universe("units").histogram("block"))
    assert (
        released_units.groupby("geocode", observed=True)["count"]
        .sum()
        .equals(true_units.groupby("geocode", observed=True)["count"].sum())
    )
    assert units[0].sum() == true_units["count"].sum()


def test_tables_and_microdata_say_what_the_histograms_say(town: Path) -> None:
    (_, spec, _, counts), _ = histograms(town)
    directory = RunDirectory(town)
    detail = pd.read_parquet(directory.main.table("detail", "block"))
    labels = [
        name for name in detail.columns if name != "geocode" and not name.endswith((":moe90", ":low90", ":high90"))
    ]
    assert np.array_equal(detail[labels], counts[-1])
    assert tuple(labels) == spec.universes()[0].schema.cell_labels()
    margins = detail[[f"{label}:moe90" for label in labels]].to_numpy()
    assert (margins >= 0).all()
    assert margins.max() > 0
    total = pd.read_parquet(directory.main.table("total", "county"))
    assert (total["total:moe90"] == 0).all()  # invariant
    assert len(pd.read_parquet(directory.main.microdata)) == counts[-1].sum()


def test_public_files_follow_from_the_public_inputs(town: Path, tmp_path: Path) -> None:
    published = RunDirectory(town)
    spec = ReleaseSpec.from_public_dict(read_manifest(published.manifest).spec)
    spine = read_public_spine(unchecked(published.spine), spec.geography.level_names)
    again = RunDirectory(tmp_path / "town")
    again.staging.mkdir(parents=True)
    with Workers(1) as workers:
        job = Job(again, spec, spec.universes(), spine, workers, Silent())
        for path in input_files(job):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(published.root / path.relative_to(again.root), path)
        told = perform_public_steps(job)
        computed = output_files(job)
    expected = public_bytes(town)
    assert public_bytes(again.root) == {k: v for k, v in expected.items() if not k.endswith("manifest.json")}
    assert len(expected) == len(computed) + len(input_files(job)) + 1
    assert told == read_manifest(published.manifest).solver


def test_steps_are_tens_and_tell_public_things_only(town_spec: Path, tmp_path: Path) -> None:
    performed: list[Step] = []

    def perform(step: Step) -> dict[str, object] | None:
        performed.append(step)
        told = step.perform()
        json.dumps(told)
        assert told is None or step.stage == "estimate"
        return told

    run(town_spec, tmp_path, perform=perform)
    names = [step.name for step in performed]
    assert len(set(names)) == len(names) < 100
    assert [name for name in names if name.startswith("measure")] == [
        *("measure county", "measure tract", "measure block"),
        *("measure units county", "measure units tract", "measure units block"),
    ]
    assert names.index("charge") < names.index("measure county")
    assert names.index("check units") < names.index("charge")

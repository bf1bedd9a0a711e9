"""Tables and microdata say what the histograms say, and the steps of a run tell nothing that is not public."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from releases.small import run

from pipeline.execution.steps import Step
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.readable import unchecked


def test_tables_and_microdata_say_what_the_histograms_say(town: Path, town_spec: Path) -> None:
    directory = RunDirectory(town)
    universe = ReleaseSpec.from_public_dict(read_manifest(directory.manifest).spec).universes()[0]
    blocks = pd.read_csv(town_spec.with_name("blocks.csv"), dtype=str)["block"].to_numpy()
    counts = read_histogram(unchecked(directory.main.histogram("block")), blocks, universe.schema).toarray()
    detail = pd.read_parquet(directory.main.table("detail", "block"))
    labels = [
        name for name in detail.columns if name != "geocode" and not name.endswith((":moe90", ":low90", ":high90"))
    ]
    assert np.array_equal(detail[labels], counts)
    assert tuple(labels) == universe.schema.cell_labels()
    margins = detail[[f"{label}:moe90" for label in labels]].to_numpy()
    assert (margins >= 0).all()
    assert margins.max() > 0
    total = pd.read_parquet(directory.main.table("total", "county"))
    assert (total["total:moe90"] == 0).all()  # invariant
    assert len(pd.read_parquet(directory.main.microdata)) == counts.sum()


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

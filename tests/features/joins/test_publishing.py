"""The microdata of joined universes, from released histograms: both files of one step, and every join kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from oracles.households import drawn_town
from oracles.joined_homes import broken
from releases.one_town import write_one_town

from features.joins.keys import stated_joins
from features.joins.link import Households
from features.joins.publishing import publish_joined_records
from geography.spine import Spine
from pipeline.errors import SpecError
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.steps import Step
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import read_spine
from pipeline.model.schema import Schema
from pipeline.publishing.steps import linked_records, publications
from pipeline.release.histograms import write_histogram
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec
from postprocess.errors import SolverError


def _job(folder: Path) -> Job:
    spec = load_spec(write_one_town(folder / "in"))
    run = RunDirectory(folder / "out")
    run.staging.mkdir(parents=True)
    spine: Spine = read_spine(spec.geography)
    return Job(run, spec, spec.universes(), spine, Workers(1), Silent())


def _released(job: Job) -> tuple[sp.csr_array, sp.csr_array]:
    """The town as it was drawn, as if it had been released."""
    persons, homes = drawn_town(job.spine.n_leaves, 5)
    leaves = job.spine.leaf_level
    for universe, counts in zip(job.universes, (persons, homes), strict=True):
        target = job.folder(universe).histogram(leaves.name)
        write_histogram(target, job.run.staging, leaves.name, leaves.geocodes, universe.schema, counts)
    return persons, homes


def _cells(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    codes = [frame[a.name].astype(str).map(a.values.index).to_numpy() for a in schema.attributes]
    return np.ravel_multi_index(codes, schema.shape)


def _microdata(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step.stage == "microdata"]


def test_persons_and_their_households_are_written_in_one_step(tmp_path: Path) -> None:
    job = _job(tmp_path)
    persons, homes = _released(job)
    steps = {each.universe.name: _microdata(each.publishing()) for each in publications(job)}
    assert steps["homes"] == []
    assert steps[""][0].files == (job.run.main.microdata, job.run.universe("homes").microdata)
    steps[""][0].perform()
    people, houses = pd.read_parquet(job.run.main.microdata), pd.read_parquet(job.run.universe("homes").microdata)
    assert len(people) == persons.sum()
    assert len(houses) == homes.sum()
    first = houses.groupby("geocode", observed=True)["household"].min()
    number = people["household"] - people["geocode"].astype(str).map({str(k): v for k, v in first.items()})
    assert broken(stated_joins(job.spec).joins, persons, homes, number.fillna(-1).to_numpy().astype(int)) == []
    assert np.array_equal(_cells(people, job.universes[0].schema), np.repeat(persons.indices, persons.data))
    sizes = [str(members) if members < 5 else "5+" for members in houses["members"].tolist()]
    assert sizes == houses["size"].astype(str).tolist()
    assert people["household"].isna().tolist() == (people["quarters"] == "dorm").tolist()


def households_of(job: Job) -> list[Households]:
    return [link for link in linked_records(job, job.universes[0]) if isinstance(link, Households)]


def test_the_order_of_the_joins_of_a_spec_makes_no_difference(tmp_path: Path) -> None:
    """Nor does another run; only the public seed does."""
    job = _job(tmp_path)
    persons, _ = _released(job)
    written = []
    (link,) = households_of(job)
    for joins in (link.joins, link.joins[::-1]):
        publish_joined_records(job, [replace(link, joins=joins)], persons)
        written.append((job.run.main.microdata.read_bytes(), job.run.universe("homes").microdata.read_bytes()))
    assert written[0] == written[1]


def test_a_leaf_whose_households_cannot_be_filled_is_named(tmp_path: Path) -> None:
    job = _job(tmp_path)
    persons, _ = _released(job)
    leaf = int(np.flatnonzero(persons[:, :16].sum(axis=1))[2])
    dense = persons.toarray()
    dense[leaf, :16] = 0
    with pytest.raises(SolverError, match=f"^block {job.spine.leaf_level.geocodes[leaf]}: its persons cannot be"):
        publish_joined_records(job, households_of(job), sp.csr_array(dense))
    assert not job.run.main.microdata.exists()
    assert not job.run.universe("homes").microdata.exists()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ((('sex = ["f", "m"]', 'household = ["f", "m"]'),), "schema.attributes.household"),
        ((('tenure = ["owned", "rented"]', 'members = ["owned", "rented"]'),), "homes.schema.attributes.members"),
        ((('tenure = ["owned", "rented"]', 'household = ["owned", "rented"]'),), "homes.schema.attributes.household"),
    ],
)
def test_an_attribute_called_like_a_column_of_the_key_is_refused_by_the_spec(
    tmp_path: Path, changes: tuple[tuple[str, str], ...], key: str
) -> None:
    spec = write_one_town(tmp_path, *changes)
    with pytest.raises(SpecError, match=f"{key}: with .* the microdata have a column of that name"):
        load_spec(spec)

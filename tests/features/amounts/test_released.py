"""Amounts on the spine from end to end: sums within the clip of the released counts, means, and what is charged."""

from __future__ import annotations

import itertools
import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.command import feature_module
from releases.hashed import every_file_hashed_first
from releases.mutant import resealed, rewritten
from releases.wages import LABELS, detailed, true_units
from typer.testing import CliRunner

from auditor.check.release import examine
from auditor.program import audit
from flows.cli import app
from pipeline.errors import InputError
from pipeline.reading.release import open_release
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec

LEVELS = {"county": 1, "tract": 2, "block": 3}


@pytest.fixture(scope="module")
def spec(amounts_spec: Path) -> Path:
    return amounts_spec


@pytest.fixture(scope="module")
def release(amounts: Path) -> Path:
    return amounts


def test_what_is_summed_are_clipped_and_rounded_amounts_as_by_hand(spec: Path, release: Path) -> None:
    run_directory, universe = RunDirectory(release), load_spec(spec).universes()[1]
    codes = detailed(release, "block").index.to_numpy(dtype=str)
    counted = read_histogram(run_directory.universe("wages").true_histogram("block"), codes, universe.schema)
    by_hand = true_units(spec.parent)
    cells = [(sex, job) for sex, job in itertools.product("fm", ("none", "part", "full"))]
    expected = [[by_hand.get((str(code), sex, job), 0) for sex, job in cells] for code in codes]
    assert counted.toarray().tolist() == expected
    assert by_hand["A30", "m", "full"] == 50, "900 units are clipped to 50"
    assert (by_hand["A31", "f", "part"], by_hand["A31", "f", "full"]) == (10, 11), "halves go up, what is below down"


def test_released_sums_add_up_and_are_those_of_so_many_clipped_records(release: Path) -> None:
    for (above, length), below in zip(itertools.islice(LEVELS.items(), 2), ("tract", "block"), strict=True):
        sums = detailed(release, below)
        assert (
            sums.groupby(sums.index.str[:length]).sum().to_numpy().tolist()
            == detailed(release, above).to_numpy().tolist()
        )
    for level in LEVELS:
        sums, counts = detailed(release, level), detailed(release, level, "")
        assert ((sums >= 0) & (sums <= 50 * counts)).all(axis=None)


def test_means_are_sums_by_counts_within_the_clip_with_intervals(release: Path) -> None:
    opened = open_release(release).companion("wages")
    for level in LEVELS:
        means = opened.means("detailed", level)
        sums, counts = detailed(release, level), detailed(release, level, "")
        for label in LABELS:
            assert means[label + ":sum"].tolist() == [10 * n for n in sums[label]]
            assert means[label + ":count"].tolist() == counts[label].tolist()
            known = counts[label].to_numpy() > 0
            found = means[label + ":mean"][known].to_numpy(dtype=float)
            assert found == pytest.approx(10 * sums[label][known] / counts[label][known])
            low, high = (means[label + ":mean" + end][known].to_numpy(dtype=float) for end in (":low90", ":high90"))
            assert ((low >= 0) & (low <= found) & (found <= high) & (high <= 500)).all()
            assert means[label + ":mean"][~known].isna().all()
    with every_file_hashed_first() as seen:
        open_release(release).companion("wages").means("detailed", "block")
    assert [name for name in seen.opened if name.startswith("amounts/")]
    with pytest.raises(InputError, match="holds counts and no amounts"):
        open_release(release).means("detailed", "block")
    with pytest.raises(InputError, match="no table 'age' of wages"):
        opened.means("age", "block")


def test_noise_scale_is_that_of_a_record_that_moves_two_sums_by_the_upper_end(release: Path) -> None:
    manifest = json.loads((release / "public/manifest.json").read_text("utf-8"))
    stated = {entry["universe"]: entry for entry in manifest["privacy"]}["wages"]
    for entry in stated["noise"]:
        share = Fraction(entry["share"]) * 2
        assert Fraction(entry["scale"]) == Fraction(2 * 50**2) / (2 * share), "D = 2 high^2, in units"
    joint = manifest["joint"]
    assert [Fraction(joint["budget"]), joint["losses"]] == [4, None]


def test_a_plan_foretells_sums_and_means_in_what_the_amount_is_in(spec: Path) -> None:
    plan = feature_module("features.plan.release_plan").plan_release(spec, None, 1)
    rows = {(row.level, row.query): row for row in plan.universes[1].rows}
    counts = {(row.level, row.query): row for row in plan.universes[0].rows}
    assert len(plan.amounts) == 9
    for row in plan.amounts:
        margin, counted = rows[row.level, row.query].margin90, counts[row.level, row.query].margin90
        assert margin is not None
        assert counted is not None
        assert row.sum_margin == pytest.approx(10 * margin)
        assert row.mean_margins[100] == pytest.approx(np.hypot(10 * margin, 250 * counted) / 100)
    assert json.loads(json.dumps(plan.data()))["amounts"][0]["companion"] == "wages"


def test_query_prints_sums_and_means(release: Path) -> None:
    asked = [
        "query",
        str(release),
        "--companion",
        "wages",
        "--table",
        "total",
        "--at",
        "tract",
        "--show",
        "means",
        "--format",
        "csv",
    ]
    lines = CliRunner().invoke(app, asked).output.splitlines()
    assert lines[0].startswith("geocode,total:sum,")
    assert len(lines) == 1 + 4
    refused = CliRunner().invoke(app, [*asked[:2], "--show", "means"])
    assert "--table and --at are needed" in str(refused.exception)


def _copy(release: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(release, tmp_path / release.name))


def test_the_checker_finds_a_mean_and_an_interval_that_are_not_those_of_the_tables(
    release: Path, tmp_path: Path
) -> None:
    copy, name = _copy(release, tmp_path), "amounts/wages/total/county.parquet"

    def change(column: str, factor: float) -> None:
        def changed(own: pa.Table) -> pa.Table:
            place = own.column_names.index(column)
            values = pa.array(np.asarray(own.column(column)) * factor)
            return own.set_column(place, own.schema.field(column), values)

        rewritten(copy, name, changed)
        resealed(copy)

    for column in ("total:mean", "total:sum", "total:mean:low90", "total:sum:high90"):
        sound = pq.read_table(copy / "public" / name)
        change(column, 1.01)
        assert any("do not follow from the tables" in problem for problem in examine(copy).problems), column
        rewritten(copy, name, lambda _, sound=sound: sound)  # type: ignore[misc]
        resealed(copy)
    assert examine(copy).problems == []


def test_the_checker_and_the_second_program_refuse_a_clip_that_is_stated_lower(release: Path, tmp_path: Path) -> None:
    copy = _copy(release, tmp_path)

    def lower(content: dict[str, object]) -> None:
        content["spec"]["companions"][0][1]["between"] = ["0", "300"]  # type: ignore[index]

    resealed(copy, lower)
    assert any(
        "sums that so many records cannot have" in text or "units for" in text for text in examine(copy).problems
    )
    assert not all(found.passed for found in audit(copy))

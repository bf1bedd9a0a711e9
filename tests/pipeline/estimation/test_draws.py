"""Draws of a whole release: the same bytes whoever computes them, exact sums, invariants, zeros, nothing made up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.again import computed_again
from releases.mutant import resealed
from releases.small import QUICK, public_bytes, run, write_town

from auditor.check.release import check_release
from pipeline.errors import InputError, ReleaseError
from pipeline.estimation import draws as module
from pipeline.estimation.by_subtree import SubtreeEstimation, estimation_of
from pipeline.estimation.draws import DrawBelowTask, PublicNormals
from pipeline.execution.progress import Silent
from pipeline.execution.steps import Notes, Step, perform_here
from pipeline.execution.workers import WorkerError, Workers
from pipeline.publishing.steps import perform_public_steps
from pipeline.reading.reader import open_reader
from pipeline.reading.release import Release, open_release, reader_of
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release
from postprocess.arrays import Arrays

DRAWS = ("replicates = 3\nunbiased = true", "margins = false\nunbiased = true\ndraws = 19")
BATCHED = QUICK[1]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("draws")
    return open_release(run(write_town(folder / "in", DRAWS, BATCHED), folder / "out"))


def draws_of(root: Path) -> dict[str, bytes]:
    return {name: content for name, content in public_bytes(root).items() if "/draws/" in name}


def test_every_table_has_its_file_and_verify_gives_every_byte_again(drawn: Release) -> None:
    names = {
        path.relative_to(reader_of(drawn).run.public).as_posix()
        for path in reader_of(drawn).run.public.rglob("draws/*/*.parquet")
    }
    tables = {
        f"draws/{table.name}/{level}.parquet" for table in reader_of(drawn).universe.tables for level in table.levels
    }
    units = reader_of(drawn.companion("units")).universe
    assert names == tables | {f"companions/units/draws/{t.name}/{v}.parquet" for t in units.tables for v in t.levels}
    assert verify_release(RunDirectory(drawn.directory), 1, Silent()) == []
    assert check_release(drawn.directory) == []


def test_workers_and_estimator_do_not_show(drawn: Release, tmp_path: Path) -> None:
    """The draws are of what the measurements say, whichever way the release was made from them."""
    topdown = ("[companions.units]", '[postprocess]\nsolver = "batched"\nestimator = "topdown"\n\n[companions.units]')
    again = run(write_town(tmp_path / "in", DRAWS, topdown), tmp_path / "out", workers=2)
    assert draws_of(again) == draws_of(drawn.directory)


def test_a_run_that_stops_among_the_draws_resumes(drawn: Release, tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", DRAWS, BATCHED)

    def stopping(step: Step) -> Notes | None:
        if step.stage == "draws":
            raise KeyboardInterrupt
        return perform_here(step)

    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path / "out", perform=stopping)
    assert public_bytes(run(spec, tmp_path / "out")) == public_bytes(drawn.directory)


@pytest.mark.slow
@pytest.mark.parametrize(("most", "part", "workers", "at_cut"), [(1, 1, 1, 1 << 26), (1, 250, 2, 1)])
def test_the_cut_and_the_rounds_do_not_show(
    drawn: Release,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    part: int,
    workers: int,
    at_cut: int,
) -> None:
    """Part by part, all draws in one round over the parts or each in its own: the same bytes."""
    monkeypatch.setattr(module, "MOST_AT_CUT", at_cut)
    with computed_again(drawn.directory, tmp_path / "town", most, part, workers) as job:
        estimation = estimation_of(job, job.universes[0])
        assert isinstance(estimation, SubtreeEstimation)
        assert len(estimation.cut.parts) > 1
        perform_public_steps(job)
        assert not list(job.run.main.checkpoints.rglob("*.npz"))
    assert draws_of(tmp_path / "town") == draws_of(drawn.directory)


class Sent(Workers):
    """Hands the draws of parts over as a cluster does; `change` is what happens on the way."""

    def __init__(self, change: Callable[[Arrays], Arrays]) -> None:
        super().__init__(1)
        self.change = change
        self.parts = 0

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], done: Callable[[Any], None] | None = None
    ) -> Iterator[Any]:
        tasks = [*tasks]
        for task, result in zip(tasks, super().run(function, tasks, done), strict=True):
            if isinstance(task, DrawBelowTask):
                self.parts += 1
                yield task.result_of(self.change(task.arrays_of(result)))
            else:
                yield result


def _first(arrays: Arrays, change: Callable[[np.ndarray], np.ndarray]) -> Arrays:
    name = next(iter(arrays))
    return {**arrays, name: change(arrays[name])}


def test_what_a_cluster_sends_back_is_used_as_it_is(drawn: Release, tmp_path: Path) -> None:
    with computed_again(drawn.directory, tmp_path / "town", 1, 250) as job:
        sent = Sent(dict)
        perform_public_steps(replace(job, workers=sent))
    assert sent.parts > 1
    assert draws_of(tmp_path / "town") == draws_of(drawn.directory)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: _first(arrays, lambda array: array[:-1]),
        lambda arrays: _first(arrays, lambda array: array.astype(np.float64)),
        lambda arrays: {**arrays, "19.0-2": next(iter(arrays.values()))},
        lambda arrays: dict(list(arrays.items())[1:]),
    ],
)
def test_draws_that_are_not_of_the_part_are_refused(
    drawn: Release, tmp_path: Path, change: Callable[[Arrays], Arrays]
) -> None:
    with (
        computed_again(drawn.directory, tmp_path / "town", 1, 250) as job,
        pytest.raises(WorkerError, match=r"not those of its part \(draws\)"),
    ):
        perform_public_steps(replace(job, workers=Sent(change)))


def test_a_file_of_another_table_or_level_is_refused(drawn: Release, tmp_path: Path) -> None:
    root = tmp_path / "town"
    shutil.copytree(drawn.directory, root)
    files = open_reader(root).files
    shutil.copy(files.draws("total", "block"), files.draws("detail", "block"))
    with pytest.raises(ReleaseError, match="was changed: "):
        open_release(root).draws("detail", "block")
    shutil.copy(files.draws("total", "county"), files.draws("total", "tract"))
    resealed(root)
    with pytest.raises(ReleaseError, match="is not a file of draws of table 'detail'"):
        open_release(root).draws("detail", "block")
    with pytest.raises(ReleaseError, match="it does not have 19 draws of the level's geounits, in order"):
        open_release(root).draws("total", "tract")


def test_sums_over_areas_are_exact_and_over_answers_nearly(drawn: Release) -> None:
    levels = [drawn.draws("detail", level) for level in ("county", "tract", "block")]
    for upper, lower, length in zip(levels, levels[1:], (1, 3), strict=False):
        draw, code = (lower.index.get_level_values(name) for name in ("draw", "geocode"))
        summed = lower.groupby([draw, code.str[:length]]).sum()
        assert np.array_equal(summed.to_numpy(), upper.to_numpy())
    difference = levels[2].sum(axis=1) - drawn.draws("total", "block")["total"]
    assert 0 < difference.abs().max() < 18 * 2.5 / 256


def test_invariants_and_impossible_cells_are_exact(drawn: Release) -> None:
    released = drawn.table("total", "county")["total"]
    for _, counties in drawn.draws("total", "county").groupby(level="draw"):
        assert (counties["total"].to_numpy() == released.to_numpy()).all()
    detail = drawn.draws("detail", "block")
    assert (detail[["child * f * prison", "child * m * prison"]] == 0).all(axis=None)
    facilities = pd.read_parquet(reader_of(drawn).files.constraint(0)).set_index("geocode")
    nowhere = facilities.index[facilities["dorm"] == 0]
    dorms = detail.filter(like="dorm")
    assert (dorms.loc[pd.IndexSlice[:, nowhere], :] == 0).all(axis=None)
    units = drawn.companion("units")
    assert (units.draws("total", "block").groupby(level="geocode")["total"].nunique() == 1).all()


def test_draws_centre_on_the_unbiased_estimates_and_spread_as_they_say(drawn: Release) -> None:
    frame = pd.read_parquet(reader_of(drawn).files.estimates("tract"))
    estimates, variances = (np.stack(frame[name].tolist()) for name in ("detail", "detail:variance"))
    draws = drawn.draws("detail", "tract").to_numpy().reshape(19, *estimates.shape)
    free = variances > 0
    z = ((draws - estimates) / np.sqrt(np.where(free, variances, 1)))[:, free]
    assert abs(z.mean()) < 0.1
    assert 0.93 < z.std() < 1.07
    assert (draws < 0).any()


def test_what_is_not_measured_is_not_made_up(tmp_path: Path) -> None:
    """Prisons are not told from houses by any query below the county: their draws are NaN, those of sums are not."""
    changes = [
        ('detailed = "1/2"', '"sex * age" = "1/2"'),
        ('detail = "detailed"', 'detail = { query = "sex * quarters", levels = ["tract", "block"] }'),
        ('sex = { query = "sex * grown", levels = ["county", "tract"] }', 'sex = "sex"'),
    ]
    release = open_release(run(write_town(tmp_path / "in", DRAWS, BATCHED, *changes), tmp_path / "out"))
    assert release.draws("detail", "tract").isna().to_numpy().any()
    assert not release.draws("sex", "block").isna().to_numpy().any()


def test_the_file_says_what_it_is(drawn: Release) -> None:
    metadata = pq.read_schema(reader_of(drawn).files.draws("total", "tract")).metadata or {}
    header = json.loads(metadata[b"spinewise"])
    assert header["kind"] == "draws"
    assert header["draws"] == 19
    assert "may be negative" in header["about"]


def test_an_answer_called_draw_is_refused_before_the_run(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", DRAWS, ('status = ["occupied", "vacant"]', 'status = ["draw", "vacant"]'))
    with pytest.raises(InputError, match="'draw' cannot be the label of an answer"):
        run(spec, tmp_path / "out")


def test_numbers_depend_on_their_place_alone() -> None:
    normals = PublicNormals(3, "", 2)
    whole = normals.of(1, 0, (10, 4))
    assert np.array_equal(whole[3:7], normals.of(1, 3, (4, 4)))
    part = PublicNormals(3, "", 2, first_level=1, first_rows=(3,))
    assert np.array_equal(part.of(0, 0, (4, 4)), whole[3:7])
    others = (PublicNormals(4, "", 2), PublicNormals(3, "units", 2), PublicNormals(3, "", 1))
    assert all((other.of(1, 0, (10, 4)) != whole).all() for other in others)
    assert (normals.of(2, 0, (10, 4)) != whole).all()


def test_numbers_are_standard_normal() -> None:
    numbers = np.sort(PublicNormals(0, "", 0).of(0, 0, (200_000, 1))[:, 0])
    places = (np.arange(1, len(numbers) + 1) - 0.5) / len(numbers)
    from scipy.special import ndtr

    assert np.abs(ndtr(numbers) - places).max() < 1.95 / len(numbers) ** 0.5  # Kolmogorov, 1 in 1000
    assert np.abs(ndtr(1.02 * numbers) - places).max() > 1.95 / len(numbers) ** 0.5

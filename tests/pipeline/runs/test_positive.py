"""Answers that are drawn only where the released parent is positive: which, with what noise, and who notices others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.command import feature_module
from releases.kind_mutants import true_counts
from releases.positive_town import AGES, BLOCKS, EVERYWHERE, RACES, TOPDOWN, write_positive
from releases.small import public_bytes, request_of, run

import auditor.noise
import pipeline.confidential.measure as positive
import pipeline.estimation.whole_spine
from auditor.draws import Due
from auditor.noise import Noise
from auditor.release import Release
from pipeline.errors import InputError, ReleaseError
from pipeline.execution.steps import Silent
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.discrete_laplace import DiscreteLaplace
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.privacy.noise.streams import Stream
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.verify import verify_release
from postprocess.sums.upward import KnownSums

ATTRIBUTES = {"age": AGES, "sex": ("f", "m"), "race": RACES}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of the small state."""
    return run(write_positive(tmp_path_factory.mktemp("positive")), tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with all answers drawn."""
    return run(write_positive(tmp_path_factory.mktemp("all"), EVERYWHERE), tmp_path_factory.mktemp("everywhere"))


def cells_of(release: Path, level: str) -> dict[str, set[tuple[int, int, int]]]:
    """Of each area the cells with persons in the release."""
    found: dict[str, set[tuple[int, int, int]]] = {}
    for row in pd.read_parquet(release / "public" / "histograms" / f"{level}.parquet").itertuples():
        place = tuple(values.index(str(getattr(row, name))) for name, values in ATTRIBUTES.items())
        found.setdefault(str(row.geocode), set()).add(place)  # type: ignore[arg-type]
    return found


def audited(release: Path) -> list[Any]:
    """What the first program finds of its noise, without the key."""
    return list(feature_module("features.audit.finished").noise_findings(release))


def drawn(release: Path, level: str, query: str) -> pd.DataFrame:
    return pd.read_parquet(release / "public" / "positive" / level / f"{query}.parquet")


@pytest.mark.parametrize("query", ["detailed", "age.race"])
def test_just_what_is_positive_in_the_released_area_above_is_drawn(made: Path, query: str) -> None:
    above = cells_of(made, "county")
    rows = drawn(made, "block", query)
    assert rows["geocode"].tolist() == sorted(BLOCKS)
    some_left_out = False
    for geocode, answers, values in zip(rows["geocode"], rows["answer"], rows["value"], strict=True):
        cells = above[geocode[:2]]
        if query == "detailed":
            due = sorted((age * 2 + sex) * 6 + race for age, sex, race in cells)
            some_left_out |= len(due) < 144
        else:
            due = sorted({age * 6 + race for age, _, race in cells})
        assert answers.tolist() == due, geocode
        assert len(values) == len(due)
    assert some_left_out or query != "detailed"
    assert not (made / "public" / "measurements" / "block" / f"{query}.parquet").exists()
    assert (made / "public" / "measurements" / "state" / f"{query}.parquet").exists(), "at the top all are drawn"


@pytest.mark.parametrize("level", ["county", "block"])
def test_what_is_drawn_has_the_noise_of_its_place_among_all_answers(made: Path, everywhere: Path, level: str) -> None:
    for query in ("detailed", "age.race"):
        every = pd.read_parquet(everywhere / "public" / "measurements" / level / f"{query}.parquet")
        some = drawn(made, level, query)
        assert (some["variance"] == every["variance"]).all()
        for whole, part in zip(every["value"], some["value"].index, strict=True):
            assert whole[some["answer"][part]].tolist() == some["value"][part].tolist()


@pytest.mark.slow
def test_estimated_by_itself_a_level_is_as_if_all_were_drawn(tmp_path: Path) -> None:
    """What is not drawn says nothing below a zero: without passes and levels below, the release is the same."""
    positive = run(write_positive(tmp_path, TOPDOWN), tmp_path / "a")
    every = run(write_positive(tmp_path, TOPDOWN, EVERYWHERE), tmp_path / "b")
    for level in ("state", "county", "block"):
        name = f"public/histograms/{level}.parquet"
        assert public_bytes(positive)[name] == public_bytes(every)[name], level


def test_on_sums_the_estimates_are_those_of_all_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema of few cells, estimated as one of more than a million: the same numbers, but for ties."""
    spec = write_positive(tmp_path, TOPDOWN, ('"sex * race" = "1/4"', 'sex = "1/4"'))
    of_cells = run(spec, tmp_path / "a")
    monkeypatch.setattr(pipeline.estimation.whole_spine, "MOST_CELLS_AT_ONCE", 50)
    monkeypatch.setattr(pipeline.estimation.whole_spine, "KnownSums", partial(KnownSums, most=40))
    on_sums = run(spec, tmp_path / "b")
    assert verify_release(RunDirectory(on_sums), 1, Silent()) == []
    for level in ("county", "block"):
        names = ["geocode", *ATTRIBUTES]
        one, two = (
            pd.read_parquet(release / "public" / "histograms" / f"{level}.parquet").astype(dict.fromkeys(names, str))
            for release in (of_cells, on_sums)
        )
        both = one.merge(two, on=names, how="outer", suffixes=("_a", "_b")).fillna(0)
        apart = (both["count_a"] - both["count_b"]).abs()
        assert apart.max() <= 1
        assert apart.sum() <= 0.1 * both["count_a"].sum()


def test_the_promise_and_the_charge_are_those_of_all_answers(made: Path, everywhere: Path) -> None:
    one, other = (read_manifest(RunDirectory(release).manifest) for release in (made, everywhere))
    assert one.privacy == other.privacy
    assert one.accounts == other.accounts


def test_a_choice_by_true_counts_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_counts(monkeypatch)
    with pytest.raises(ReleaseError, match="does not have just the answers that are positive in the released level"):
        run(write_positive(tmp_path), tmp_path / "out")


def test_answers_with_another_truth_do_not_have_their_noise(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(release: Release, due: Due) -> Noise:
        added = of_positive(release, due)
        return replace(added, values=added.values + 100)

    of_positive = auditor.noise._positive
    monkeypatch.setattr(auditor.noise, "_positive", moved)
    assert any("the noise is not" in one.detail for one in audited(made))


@pytest.mark.slow
def test_in_lots_the_same_is_drawn(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positive, "ANSWERS_AT_ONCE", 300)
    cut, most = positive._lots, 0

    def counted(ends: np.ndarray[Any, Any]) -> list[int]:
        nonlocal most
        most = max(most, len(lots := cut(ends)) - 1)
        return lots

    monkeypatch.setattr(positive, "_lots", counted)
    again = run(write_positive(tmp_path), tmp_path / "out")
    assert most > 2, "several lots of a level"
    for level in ("county", "block"):
        for query in ("detailed", "age.race"):
            one, other = drawn(made, level, query), drawn(again, level, query)
            assert [values.tolist() for values in one["value"]] == [values.tolist() for values in other["value"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("publish = { margins = false }", "publish = { margins = true }")], "publish.margins is true"),
        ([("block = 3 } }", "block = 3 }, bypass = true }")], "geography.bypass is true"),
    ],
)
def test_what_there_is_not_with_it_is_refused(changes: list[tuple[str, str]], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"parent positive.*{message}"):
        request_of(write_positive(tmp_path, *changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("noise", [DiscreteGaussian(7), DiscreteLaplace(3)])  # type: ignore[arg-type]
def test_noise_at_some_positions_is_that_of_the_whole_stream(noise: NoiseSpec) -> None:
    key, sampler = bytes(range(32)), sampler_for(noise)
    positions = np.array([5, 0, 3, 3, 99_999, 2**40, 2**40 + 1])
    whole = [int(sampler.draw(key, int(position), 1)[0]) for position in positions]
    assert sampler.draw_at(key, positions).tolist() == whole
    assert Stream(key).words_at(positions[:5]).tolist() == Stream(key).words(0, 100_000)[positions[:5]].tolist()
    with pytest.raises(ValueError, match="from 0 on"):
        sampler.draw_at(key, np.array([-1]))

"""A release of an open list, from RAPPOR reports; and the intervals and errors of many surveys."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from releases.made_case import made_case
from releases.small import run
from releases.survey import Survey, write_survey
from releases.survey_of_words import write_words

from features.local.collected import UNIT, CollectedWords
from features.local.survey import survey_of
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec

NAMES = ["a0", "a1", "a2", "a3", "other"]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """The files of the case of the matrix: four words of the spec, and 20 others."""
    return write_words(tmp_path_factory.mktemp("words"), seed=2)


@pytest.fixture
def released(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Its release."""
    return RunDirectory(made_case(tmp_path_factory, "words") / "out" / "survey")


def collected_of(survey: Survey) -> CollectedWords:
    (universe,) = load_spec(survey.spec).universes()
    collected = survey_of(universe).collected
    assert isinstance(collected, CollectedWords)
    return collected


def debiased(survey: Survey, released: RunDirectory) -> np.ndarray:
    totals = np.stack(pd.read_parquet(released.main.measurement("block", "answer")).value.to_list())
    assert (totals.sum(axis=1) == UNIT * survey.truth.sum(axis=1)).all()
    return collected_of(survey).debiased(totals, survey.truth.sum(axis=1))


def counts(released: RunDirectory, level: str) -> np.ndarray:
    return pd.read_parquet(released.main.table("answer", level))[NAMES].to_numpy()


def test_counts_are_the_nearest_histograms_by_what_is_counted(survey: Survey, released: RunDirectory) -> None:
    """Words have equal weights and the rest has none: so a top area's words are their counts, and 0 where below it.

    Weighted least squares of the words of a tract's blocks by another solver; rounding moves nothing by a person.
    """
    alone, reports = debiased(survey, released), survey.truth.sum(axis=1)
    top = counts(released, "county")
    assert (np.abs(top - np.maximum(alone.reshape(2, 36, 5).sum(axis=1), 0))[:, :4] <= 1).all()
    assert np.array_equal(top[:, 4], reports.reshape(2, -1).sum(axis=1) - top[:, :4].sum(axis=1))
    alone, reports = alone[12:24], reports[12:24]
    blocks, tract = counts(released, "block")[12:24], counts(released, "tract")[1]
    some = reports > 0

    def nearest(weight_of_the_rest: float) -> np.ndarray:
        x = cp.Variable((12, 5), nonneg=True)
        off = cp.square(x[some] - alone[some]) @ np.array([1, 1, 1, 1, weight_of_the_rest])
        rules = [cp.sum(x, axis=1) == reports, cp.sum(x, axis=0) == tract]
        cp.Problem(cp.Minimize(cp.sum(cp.multiply(off, 1 / reports[some]))), rules).solve(solver=cp.CLARABEL)
        return np.asarray(x.value)

    assert np.abs(blocks - nearest(0)).max() < 1 + 1e-3
    assert np.abs(blocks - nearest(1)).max() > 1.2  # as if the rest were counted as words are


def test_intervals_hold_the_truth_and_the_rest_has_wider_ones(survey: Survey, released: RunDirectory) -> None:
    found = pd.read_parquet(released.main.table("answer", "block"))
    low, high = (found[[name + end for name in NAMES]].to_numpy() for end in (":low90", ":high90"))
    assert 0.85 < ((low <= survey.truth) & (survey.truth <= high)).mean() < 0.98
    tracts = pd.read_parquet(released.main.table("answer", "tract"))
    width = np.array([(tracts[f"{name}:high90"] - tracts[f"{name}:low90"]).mean() for name in NAMES])
    assert width[4] == pytest.approx(2 * width[:4].mean(), rel=0.15)  # four words are added up in it


# -- many surveys of each mechanism -----------------------------------------------------------------------------------


SURVEYS, BLOCKS = 6, {"block": 1, "tract": 40, "county": 120}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "n_values", "epsilon"),
    [("randomised_response", 2, "1"), ("direct_encoding", 12, "2"), ("rappor", 5, "")],
)
def test_intervals_and_errors_of_surveys(tmp_path: Path, mechanism: str, n_values: int, epsilon: str) -> None:
    covered, errors = [], []
    names = [f"a{number}" for number in range(n_values)]
    if words := mechanism == "rappor":
        names[-1] = "other"
    for seed in range(1, SURVEYS + 1):
        folder = tmp_path / f"{seed}"
        if words:
            survey = write_words(folder, n_values - 1, blocks_of_tract=40, seed=seed)
        else:
            survey = write_survey(folder, mechanism, n_values, epsilon, blocks_of_tract=40, seed=seed)
        out = RunDirectory(run(survey.spec, tmp_path / f"out{seed}"))
        (universe,) = load_spec(survey.spec).universes()
        collected, reports = survey_of(universe).collected, survey.truth.sum(axis=1)
        assert collected is not None
        totals = np.stack(pd.read_parquet(out.main.measurement("block", "answer")).value.to_list())
        alone = collected.debiased(totals, reports)
        theory = float(collected.noise_per_report) / n_values * reports.mean()
        table = pd.read_parquet(out.main.table("answer", "block"))
        low, high = (table[[name + end for name in names]].to_numpy() for end in (":low90", ":high90"))
        covered.append(((low <= survey.truth) & (survey.truth <= high))[reports > 0].mean())
        of_level = []
        for level, blocks in BLOCKS.items():
            released = pd.read_parquet(out.main.table("answer", level))[names].to_numpy()
            truth, debiased = (x.reshape(-1, blocks, n_values).sum(axis=1) for x in (survey.truth, alone))
            of_level += [((released - truth) ** 2).mean(), ((debiased - truth) ** 2).mean()]
        errors.append([*of_level, theory])
    leaf, leaf_alone, tract, tract_alone, county, county_alone, theory = np.mean(errors, axis=0)
    assert 0.88 < np.mean(covered) < 0.93
    # Standard errors, of 1,440 blocks: 3 % is three standard deviations of their estimate and more.
    assert leaf_alone**0.5 == pytest.approx(theory**0.5, rel=0.04)
    assert leaf < 0.8 * leaf_alone
    assert tract < 1.01 * tract_alone
    assert county < 1.01 * county_alone

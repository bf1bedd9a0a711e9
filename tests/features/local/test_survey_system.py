"""Many surveys of randomised answers: intervals hold 88 % to 93 %, errors are those of theory, and leaves gain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import run
from releases.survey import write_survey
from releases.survey_of_words import write_words

from features.local.survey import survey_of
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec

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

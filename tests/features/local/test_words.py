"""A release of an open list, from RAPPOR reports to what others recompute of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from releases.again import computed_again
from releases.command import feature_module, needs
from releases.small import public_bytes, run
from releases.survey import Survey
from releases.survey_of_words import write_words

from features.local.collected import UNIT, CollectedWords
from features.local.survey import survey_of
from pipeline.errors import RefusedError, SpecError
from pipeline.estimation.by_subtree import SubtreeEstimation, estimation_of
from pipeline.estimation.margins import Margins
from pipeline.model.exact import epsilon_text
from pipeline.publishing.steps import perform_public_steps
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.release_spec import load_spec
from postprocess.marginal import Marginal

NAMES = ["a0", "a1", "a2", "a3", "other"]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Four words of the spec, and 20 others."""
    return write_words(tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def released(survey: Survey, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Its release."""
    return RunDirectory(run(survey.spec, tmp_path_factory.mktemp("released")))


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


def test_counts_are_whole_add_up_and_leaves_are_nearer_than_debiased_alone(
    survey: Survey, released: RunDirectory
) -> None:
    alone = debiased(survey, released)
    blocks = counts(released, "block")
    assert blocks.dtype == np.int64
    assert (blocks >= 0).all()
    assert np.array_equal(blocks.sum(axis=1), survey.truth.sum(axis=1))
    assert np.array_equal(blocks.reshape(6, 12, 5).sum(axis=1), counts(released, "tract"))
    for level, size, most in (("block", 1, 0.85), ("tract", 12, 1.0), ("county", 36, 1.0)):
        truth, own = (x.reshape(-1, size, 5).sum(axis=1) for x in (survey.truth, alone))
        errors = [float(((x - truth) ** 2).mean()) for x in (counts(released, level), own)]
        assert errors[0] <= 1.01 * most * errors[1] + 1 / 12, level  # the last is of rounding


def test_the_top_is_the_nearest_histogram_by_what_is_counted(survey: Survey, released: RunDirectory) -> None:
    """Words have equal weights and the rest has none: so a top area's words are their counts, and 0 where below it."""
    expected = np.maximum(debiased(survey, released).reshape(2, 36, 5).sum(axis=1), 0)
    found = counts(released, "county")
    assert (np.abs(found - expected)[:, :4] <= 1).all()
    assert np.array_equal(found[:, 4], survey.truth.reshape(2, -1).sum(axis=1) - found[:, :4].sum(axis=1))


def test_blocks_are_the_nearest_histograms_by_what_is_counted(survey: Survey, released: RunDirectory) -> None:
    """Weighted least squares of the words of a tract's blocks by another solver; rounding moves nothing by a person."""
    alone, reports = debiased(survey, released)[12:24], survey.truth.sum(axis=1)[12:24]
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


def test_sums_have_the_errors_of_what_is_counted(survey: Survey, released: RunDirectory) -> None:
    odd = [block for block in survey.blocks.tolist() if int(block[-2:]) % 2]
    found = open_release(released.root).query("answer").over({"odd": odd})
    reports = survey.truth[np.isin(survey.blocks, odd)].sum()
    expected = 2 * 1.645 * (reports * float(collected_of(survey).unit_variance)) ** 0.5
    for name, times in zip(NAMES, (1, 1, 1, 1, 2), strict=True):
        width = float((found[f"{name}:high90"] - found[f"{name}:low90"]).iloc[0])
        assert width == pytest.approx(times * expected, abs=2), name


@needs("report")
def test_the_report_says_what_a_frequent_word_does_that_is_not_listed(released: RunDirectory) -> None:
    """In standard deviation 1,000 / sqrt(16 cohorts of 31 free bits, less 4 words) = 45."""
    report = released.report.read_text("utf-8")
    assert "1,000 reports of one such word typically move the count of a listed word by 45 up or down" in report


def test_a_spine_in_parts_gives_the_same_bytes(released: RunDirectory, tmp_path: Path) -> None:
    with computed_again(released.root, tmp_path / "survey", 1, 60) as job:
        assert isinstance(estimation_of(job, job.universes[0]), SubtreeEstimation)
        perform_public_steps(replace(job, status="official"))
    expected = public_bytes(released.root)
    assert public_bytes(tmp_path / "survey") == {k: v for k, v in expected.items() if not k.endswith("manifest.json")}


def test_areas_are_compared_by_their_own_reports(survey: Survey, released: RunDirectory, tmp_path: Path) -> None:
    """Some geounits of each level, and answers that are sums of words."""
    expected = debiased(survey, released)
    two = Marginal("two", (np.array([0, 0, 1, 1, 1]),))
    with computed_again(released.root, tmp_path / "survey", 1, 60) as job:
        margins = Margins(estimation_of(job, job.universes[0]))
        errors = margins.estimation.universe.source.errors()
        assert errors is not None
        for level, (blocks, rows) in enumerate(((36, slice(1, 2)), (12, slice(2, 5)), (1, slice(0, 72)))):
            of_level = expected.reshape(-1, blocks, 5).sum(axis=1)[rows]
            found = two.answer(errors.alone(*margins.stored_of(level, rows)))
            assert np.allclose(found, np.stack([of_level[:, :2].sum(axis=1), of_level[:, 2:].sum(axis=1)], axis=1))


def test_the_statement_is_of_one_report_of_several_and_of_all(survey: Survey, released: RunDirectory) -> None:
    manifest = read_manifest(released.manifest)
    (statement,) = manifest.privacy
    mechanism = collected_of(survey).mechanism
    ever = epsilon_text(Fraction(mechanism.for_ever.epsilon))  # type: ignore[union-attr]
    assert manifest.accounts[0].record.epsilon == epsilon_text(Fraction(mechanism.epsilon))
    assert f"any number of reports on the same answer has epsilon = {ever} together" in statement.words
    groups = {one.of: one.epsilon for one in manifest.accounts[0].groups}
    assert groups["any"] == ever
    assert [float(groups[str(n)]) for n in (2, 5)] == pytest.approx(
        [min(n * float(mechanism.epsilon), float(groups["any"])) for n in (2, 5)], rel=1e-3
    )


def test_the_plan_has_the_errors_of_words_and_of_their_rest(survey: Survey) -> None:
    plan_release = feature_module("features.plan.release_plan").plan_release
    for row in plan_release(survey.spec, None, 1).local:
        # Means over four words with the variance n s, and their rest with 4 n s.
        variances = row.reports * float(collected_of(survey).unit_variance) * np.array([1, 1, 1, 1, 4])
        assert row.local == pytest.approx(np.sqrt(variances).mean(), rel=0.01)


def test_bad_reports_stop_the_run_or_are_counted_as_said(survey: Survey, tmp_path: Path) -> None:
    shutil.copytree(survey.spec.parent, tmp_path / "bad")
    spec = tmp_path / "bad" / survey.spec.name
    rows = ("A0102,012345678,3,long", "A0102,0123456z,3,odd", "A0102,01234567,16,beyond", "A0102,01234567,,none",
            "NOWHERE,01234567,3,lost", "A0102,01234567,3,person-0", "A0102,01234567,3,")  # fmt: skip
    with (tmp_path / "bad" / "reports.csv").open("a") as file:
        file.write("".join(f"{row}\n" for row in rows))
    with pytest.raises(RefusedError):
        run(spec, tmp_path / "refused")
    refusal = (tmp_path / "refused" / "survey" / "restricted" / "refused.txt").read_text()
    assert "column 'cohort': a cohort that the mechanism does not have in 2 rows" in refusal
    assert "whole numbers from 0 to 15 are allowed" in refusal
    assert "person-0" not in refusal
    spec.write_text(spec.read_text().replace('form = "reports"', 'form = "reports"\nbad_reports = "count"'))
    counted = RunDirectory(run(spec, tmp_path / "counted"))
    found = json.loads(counted.reports.read_bytes())
    assert found["not used"] == {
        "geocode that is not a leaf": 1,
        "missing respondent": 1,
        "not a report of the mechanism": 0,
        "second report of a respondent": 1,
        "wrong character": 1,
        "wrong cohort": 2,
        "wrong length": 1,
    }
    assert found["used"] == survey.truth.sum()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"a3", "other"]', '"a3", "other"]\nsex = ["f", "m"]', "collect.mechanism: found rappor, and 2 attributes"),
        ('"a0", "a1", "a2", "a3", ', "", "collect.mechanism: words: found 0; from 1 to 128 can be told apart"),
        ('q = "3/4"', 'q = "1/4"', "collect.parameters.q: found 1/4; more than p"),
        ("[input]", '[collect.central]\nrelease = "register"\nrho = "1"\nlevels = { county = "1" }\n\n[input]',
         "collect.central: not with rappor"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_words_is_refused(survey: Survey, tmp_path: Path, old: str, new: str, says: str) -> None:
    text = survey.spec.read_text()
    assert text.count(old) == 1
    changed = tmp_path / "survey.toml"
    changed.write_text(text.replace(old, new))
    with pytest.raises(SpecError) as refused:
        load_spec(changed)
    assert says in str(refused.value)

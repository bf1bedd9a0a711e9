"""A release from randomised reports, from its spec to what others recompute of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.again import computed_again
from releases.command import feature_module, needs
from releases.small import public_bytes, run
from releases.survey import Survey, write_survey

from features.local.survey import survey_of
from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError, RefusedError, SpecError
from pipeline.estimation.by_subtree import SubtreeEstimation, estimation_of
from pipeline.publishing.steps import perform_public_steps
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.receipts import NOTHING_TO_CHARGE
from pipeline.spec.release_spec import load_spec


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Its files."""
    return write_survey(tmp_path_factory.mktemp("survey"))


@pytest.fixture(scope="module")
def released(survey: Survey, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Its release."""
    return RunDirectory(run(survey.spec, tmp_path_factory.mktemp("released")))


def table(run: RunDirectory, level: str) -> tuple[np.ndarray, pd.DataFrame]:
    found = pd.read_parquet(run.main.table("answer", level))
    return found[[f"a{number}" for number in range(4)]].to_numpy(), found


def test_counts_are_whole_and_add_up_to_the_reports_of_each_area(survey: Survey, released: RunDirectory) -> None:
    blocks, found = table(released, "block")
    assert found.geocode.tolist() == survey.blocks.tolist()
    assert blocks.dtype == np.int64
    assert (blocks >= 0).all()
    assert np.array_equal(blocks.sum(axis=1), survey.truth.sum(axis=1))
    tracts, _ = table(released, "tract")
    assert np.array_equal(blocks.reshape(6, 12, 4).sum(axis=1), tracts)


def test_leaves_are_nearer_to_the_truth_than_debiased_alone_and_nothing_is_farther(
    survey: Survey, released: RunDirectory
) -> None:
    (universe,) = load_spec(survey.spec).universes()
    totals = np.stack(pd.read_parquet(released.main.measurement("block", "answer")).value.to_list())
    alone = survey_of(universe).collected.debiased(totals, survey.truth.sum(axis=1))
    for level, blocks, most in (("block", 1, 0.8), ("tract", 12, 1.0), ("county", 36, 1.0)):
        truth, debiased = (x.reshape(-1, blocks, 4).sum(axis=1) for x in (survey.truth, alone))
        errors = [float(((x - truth) ** 2).mean()) for x in (table(released, level)[0], debiased)]
        assert errors[0] <= 1.01 * most * errors[1] + 1 / 12, level  # the last is of rounding


def test_intervals_hold_the_truth(survey: Survey, released: RunDirectory) -> None:
    _, found = table(released, "block")
    inside = [
        (found[f"a{n}:low90"] <= survey.truth[:, n]) & (survey.truth[:, n] <= found[f"a{n}:high90"]) for n in range(4)
    ]
    assert 0.85 < np.mean(inside) < 0.97
    assert (found.loc[0, "a0:low90"], found.loc[0, "a0:high90"]) == (0, 0)  # nobody was asked there


@needs("report")
def test_the_statement_says_what_holds_and_that_nothing_is_charged(released: RunDirectory) -> None:
    manifest = read_manifest(released.manifest)
    (statement,) = manifest.privacy
    assert (statement.framework, statement.budget, statement.noise) == ("local", "1", ())
    for words in ("no report is more than 2.7182818", "Not protected: that somebody took part", "add up"):
        assert words in statement.words
    assert manifest.charging == NOTHING_TO_CHARGE
    assert manifest.status == "official"
    assert [one.epsilon for one in manifest.accounts[0].groups] == ["2", "3", "4", "5"]
    page = released.report.read_text()
    assert "Nobody has the true answers" in page
    assert "budgets of repeated runs add up" not in page
    assert not released.accuracy.exists()
    assert not (released.restricted / "histograms").exists()


def test_there_is_no_noise_to_audit(released: RunDirectory) -> None:
    with pytest.raises(InputError, match="no noise was drawn here"):
        feature_module("features.audit.finished").audit_release(released, KeySource(), None, 1, lambda _: None)


def test_workers_and_a_second_run_give_the_same_bytes(survey: Survey, released: RunDirectory, tmp_path: Path) -> None:
    again = RunDirectory(run(survey.spec, tmp_path, workers=2))
    before, after = public_bytes(released.root), public_bytes(again.root)
    without = {name for name in before if name.endswith(("manifest.json",))}  # the fingerprint has another key
    assert {name: data for name, data in before.items() if name not in without} == {
        name: data for name, data in after.items() if name not in without
    }


def test_a_spine_in_parts_gives_the_same_bytes(released: RunDirectory, tmp_path: Path) -> None:
    with computed_again(released.root, tmp_path / "survey", 1, 60) as job:
        assert isinstance(estimation_of(job, job.universes[0]), SubtreeEstimation)
        perform_public_steps(replace(job, status="official"))
    expected = public_bytes(released.root)
    assert public_bytes(tmp_path / "survey") == {k: v for k, v in expected.items() if not k.endswith("manifest.json")}


def test_sums_of_some_leaves_have_the_errors_of_their_reports(survey: Survey, released: RunDirectory) -> None:
    """As of the women of a tract, where demographics in the clear are the lowest level: others do not count."""
    odd = [block for block in survey.blocks.tolist() if int(block[-2:]) % 2]
    groups = {tract: [block for block in odd if block[:3] == tract] for tract in sorted({block[:3] for block in odd})}
    found = open_release(released.root).query("answer").over(groups)
    truth = np.array([survey.truth[np.isin(survey.blocks, one)].sum(axis=0) for one in groups.values()])
    low, high = (found[[f"a{number}{end}" for number in range(4)]].to_numpy() for end in (":low90", ":high90"))
    assert ((low <= truth) & (truth <= high)).mean() > 0.75  # of 24
    (universe,) = load_spec(survey.spec).universes()
    reports = truth.sum(axis=1)
    width = 2 * 1.645 * np.sqrt(reports * float(survey_of(universe).collected.unit_variance) * 3 / 4)
    whole, wide = low > 0, np.broadcast_to(width[:, None], low.shape)  # not those cut off at zero
    assert whole.sum() > 8
    assert np.allclose((high - low)[whole], wide[whole], atol=1.6)
    assert not np.allclose((high - low)[whole], 1.05 * wide[whole], atol=1.6)
    assert (found["sum:low90"] == reports).all()
    assert (found["sum:high90"] == reports).all()


def test_bad_reports_stop_the_run_or_are_counted_as_said(survey: Survey, tmp_path: Path) -> None:
    shutil.copytree(survey.spec.parent, tmp_path / "bad")
    spec = tmp_path / "bad" / survey.spec.name
    with (tmp_path / "bad" / "reports.csv").open("a") as file:
        file.write("A0101,9,someone\nNOWHERE,1,other\n")
    with pytest.raises(RefusedError):
        run(spec, tmp_path / "refused")
    refusal = (tmp_path / "refused" / "survey" / "restricted" / "refused.txt").read_text()
    assert "what is no report of the mechanism in 1 row" in refusal
    assert "someone" not in refusal
    spec.write_text(spec.read_text().replace('form = "reports"', 'form = "reports"\nbad_reports = "count"'))
    counted = RunDirectory(run(spec, tmp_path / "counted"))
    found = json.loads(counted.reports.read_text())
    assert found["not used"]["not a report of the mechanism"] == found["not used"]["geocode that is not a leaf"] == 1
    assert found["used"] == survey.truth.sum()


def test_the_plan_compares_with_true_records(survey: Survey) -> None:
    planned = feature_module("features.plan.release_plan").plan_release(survey.spec, None, 1)
    by_level = {row.level: row for row in planned.local}
    assert isinstance(by_level["block"], feature_module("features.plan.local").LocalRow)
    # With the totals known, n reports have the variance n s (1 - 1/k) in each of k numbers.
    (universe,) = load_spec(survey.spec).universes()
    for row in planned.local:
        expected = float(row.reports * survey_of(universe).collected.unit_variance * 3 / 4) ** 0.5
        assert row.local == pytest.approx(expected, rel=0.01)
    assert by_level["county"].local > 4 * by_level["county"].central
    assert by_level["county"].needed == by_level["block"].needed > by_level["block"].needed_centrally


def test_a_plan_needs_the_number_of_respondents(survey: Survey, tmp_path: Path) -> None:
    shutil.copytree(survey.spec.parent, tmp_path / "survey")
    spec = tmp_path / "survey" / survey.spec.name
    spec.write_text(spec.read_text().replace("respondents = 20\n", ""))
    plan_release = feature_module("features.plan.release_plan").plan_release
    with pytest.raises(InputError, match=r"collect\.respondents: missing"):
        plan_release(spec, None, 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('framework = "local"', 'framework = "pure"\nepsilon = "1"', 'found "pure"; with [collect]'),
        ('framework = "local"', 'framework = "local"\nepsilon = "1"', "each report has spent its own epsilon"),
        ('framework = "local"', 'framework = "local"\ndataset = "d"', "privacy.dataset: not with framework"),
        ("direct_encoding", "rapor", "collect.mechanism: 'rapor' is not a mechanism; did you mean 'rappor'"),
        ("direct_encoding", "randomised_response", "for 2 values; the schema has 4 cells"),
        ('epsilon = "1"', 'epsilon = "-2"', "collect.parameters.epsilon: found '-2'"),
        ("direct_encoding", "rappor", "collect.parameters.epsilon: rappor has no such parameter"),
        ('respondent = "who"', 'cohort = "c"', "input.columns.cohort: direct_encoding has no cohorts"),
        ('respondent = "who"', 'person = "who"', "input.columns: 'person' is not a column of reports"),
        ('form = "reports"', 'form = "microdata"\nbad_reports = "count"', "input.bad_reports: only for the form"),
        ("[publish]", '[invariants]\nblock = ["answer"]\n\n[publish]', "the number of reports of each leaf is what is"),
        ("[publish]", '[strategy]\nqueries = { answer = "1" }\nlevels = { county = "0", tract = "1/2", block = "1/2" }'
         "\n\n[publish]", "strategy: not with [collect]"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_reports_is_refused(
    survey: Survey, tmp_path: Path, old: str, new: str, says: str
) -> None:
    text = survey.spec.read_text()
    assert text.count(old) == 1
    changed = tmp_path / "survey.toml"
    changed.write_text(text.replace(old, new))
    with pytest.raises(SpecError) as refused:
        load_spec(changed)
    assert says in str(refused.value)

"""A release from randomised reports: what it states, its errors of sums, its plan, and reports that cannot be used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from releases.command import feature_module
from releases.small import run
from releases.survey import Survey, write_survey
from releases.survey_of_words import write_words

from features.local.survey import survey_of
from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError, RefusedError
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.receipts import NOTHING_TO_CHARGE
from pipeline.spec.release_spec import load_spec


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """The files of the case of the matrix."""
    return write_survey(tmp_path_factory.mktemp("survey"))


@pytest.fixture
def released(made_of: Callable[[str], Path]) -> RunDirectory:
    """Its release."""
    return RunDirectory(made_of("survey") / "out" / "survey")


def test_the_statement_says_what_holds_and_that_nothing_is_charged(released: RunDirectory) -> None:
    manifest = read_manifest(released.manifest)
    (statement,) = manifest.privacy
    assert (statement.framework, statement.budget, statement.noise) == ("local", "1", ())
    assert "no report is more than 2.7182818" in statement.words
    assert manifest.charging == NOTHING_TO_CHARGE
    assert manifest.status == "official"
    assert [one.epsilon for one in manifest.accounts[0].groups] == ["2", "3", "4", "5"]
    assert not released.accuracy.exists()
    assert not (released.restricted / "histograms").exists()


def test_there_is_no_noise_to_audit(released: RunDirectory) -> None:
    with pytest.raises(InputError, match="no noise was drawn here"):
        feature_module("features.audit.finished").audit_release(released, KeySource(), None, 1, lambda _: None)


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


def test_bad_reports_stop_the_run_or_are_counted_as_said(tmp_path: Path) -> None:
    survey = write_words(tmp_path / "bad")
    rows = ("A0102,012345678,3,long", "A0102,0123456z,3,odd", "A0102,01234567,16,beyond", "A0102,01234567,,none",
            "NOWHERE,01234567,3,lost", "A0102,01234567,3,person-0", "A0102,01234567,3,")  # fmt: skip
    with survey.reports.open("a") as file:
        file.write("".join(f"{row}\n" for row in rows))
    with pytest.raises(RefusedError):
        run(survey.spec, tmp_path / "refused")
    refusal = (tmp_path / "refused" / "survey" / "restricted" / "refused.txt").read_text()
    assert "column 'cohort': a cohort that the mechanism does not have in 2 rows" in refusal
    assert "person-0" not in refusal
    text = survey.spec.read_text().replace('form = "reports"', 'form = "reports"\nbad_reports = "count"')
    survey.spec.write_text(text.replace("replicates = 4", "margins = false\nmicrodata = false"))
    counted = RunDirectory(run(survey.spec, tmp_path / "counted"))
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


def test_the_plan_compares_with_true_records(survey: Survey, tmp_path: Path) -> None:
    """With the totals known, n reports have the variance n s (1 - 1/k) in each of k numbers."""
    plan_release = feature_module("features.plan.release_plan").plan_release
    by_level = {row.level: row for row in plan_release(survey.spec, 1).local}
    (universe,) = load_spec(survey.spec).universes()
    for row in by_level.values():
        expected = float(row.reports * survey_of(universe).collected.unit_variance * 3 / 4) ** 0.5
        assert row.local == pytest.approx(expected, rel=0.01)
    assert by_level["county"].local > 4 * by_level["county"].central
    assert by_level["county"].needed == by_level["block"].needed > by_level["block"].needed_centrally
    shutil.copytree(survey.spec.parent, tmp_path / "survey")
    spec = tmp_path / "survey" / survey.spec.name
    spec.write_text(spec.read_text().replace("respondents = 20\n", ""))
    with pytest.raises(InputError, match=r"collect\.respondents: missing"):
        plan_release(spec, 1)

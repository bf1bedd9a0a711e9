"""The audit of an installation asks questions of every statistic, and notices when the answers are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.asked import asking

import features.audit.questions_asked as trial
from features.audit.questions_asked import (
    ASKED,
    WAYS,
    Question,
    installed_questions,
    question_findings,
    question_problems,
    questions,
)
from features.audit.whole_trial import own_settings
from pipeline.privacy.budget import FRAMEWORKS, NEIGHBOURS
from pipeline.questions.text import STATISTICS, parse

SUM = Question("sum wages by county", "zcdp", "change-one")


def test_every_statistic_is_asked_under_both_budgets() -> None:
    assert set(ASKED) == set(STATISTICS)
    for quick in (True, False):
        found = {(parse(one.text).statistic, one.framework) for one in questions(quick=quick)}
        assert found == {(statistic, framework) for statistic in STATISTICS for framework in FRAMEWORKS}
    full = list(questions(quick=False))
    assert {one.neighbours for one in full} == set(NEIGHBOURS)
    assert {one.way for one in full if one.text.startswith("sum")} == set(WAYS)
    assert any(parse(one.text).least for one in full)
    assert any("records_per_unit" in one.text for one in full)


def test_a_statistic_without_a_question_stops_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATISTICS, "mode", True)
    with pytest.raises(KeyError, match="mode"):
        list(questions(quick=True))


def problems(folder: Path, question: Question) -> list[str]:
    with own_settings(folder):
        asks = installed_questions()
        if asks is None:
            pytest.skip("no feature asks questions")
        return question_problems(folder, question, 1, asks)


def test_a_sound_question_passes_and_one_without_noise_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("sound", "faulty")]
    for folder in folders:
        folder.mkdir()
    assert problems(folders[0], SUM) == []
    confidential = asking("confidential")
    sound = confidential.noise_of
    monkeypatch.setattr(confidential, "noise_of", lambda *given: 0 * sound(*given))
    assert any("noise redrawn" in one for one in problems(folders[1], SUM))


def test_a_court_that_finds_nothing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the planted faults has to be found, else the trial fails."""
    monkeypatch.setattr(trial, "audit_answer", lambda *_, **__: ())
    assert problems(tmp_path, SUM) == [
        "no noise in the sum is not noticed",
        "half the noise in the sum is not noticed",
        "the noise of half the sensitivity of the sum is not noticed",
    ]


@pytest.mark.slow
def test_the_installed_program_answers_every_question_as_it_should() -> None:
    assert [one.detail for one in question_findings(quick=False, seed=2) if not one.passed] == []

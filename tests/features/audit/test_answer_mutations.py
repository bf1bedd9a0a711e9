"""Faults are planted in `ask`, one after the other, and stay there while the answer is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.how_many import turns
from releases.answer_mutants import ANSWERS
from releases.mutant import COURTS, INSTALLED, SECOND, VERIFY, Asked, Mutant

from auditor.keys import read_key
from auditor.ledger import read_ledger
from auditor.program import audit_with
from auditor.reading.findings import FormError
from features.audit.questions_asked import (
    Question,
    asked,
    installed_questions,
    opened,
    people_of,
    question_problems,
    questions,
)
from features.audit.whole_trial import own_settings
from pipeline.errors import SpinewiseError
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer

if (found := installed_questions()) is None:
    pytest.skip("no feature asks questions", allow_module_level=True)
ASKING = found


def answer_of(folder: Path, question: Question) -> Path:
    """Asked of made-up records, with a ledger and a key beside them."""
    folder.mkdir()
    opened(folder, question, 1)
    return ASKING.answered(asked(folder, question, people_of(1, question), folder / "key", ASKING))


def courts_of(root: Path, folder: Path) -> set[str]:
    """Who finds something in a finished answer."""
    caught = set()
    try:
        # As for a test key: that keys of 16 bits are found, others test, and it takes most of the time.
        given = read_key(folder / "key")[0], True, read_ledger(str(folder / "ledger.db"))
        if not all(found.passed for found in audit_with(root, *given)):
            caught.add(SECOND)
    except FormError:
        caught.add(SECOND)
    try:
        if verify_answer(RunDirectory(root)):
            caught.add(VERIFY)
    except SpinewiseError:
        caught.add(VERIFY)
    return caught


@pytest.mark.slow
@pytest.mark.parametrize("mutant", turns(ANSWERS, 3), ids=lambda mutant: mutant.name)
def test_each_fault_in_an_answer_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    assert mutant.question is not None
    question = Question(*mutant.question)
    sampler_for.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if mutant.plant is not None:
            mutant.plant(patch)
        folder = tmp_path / "asked"
        with own_settings(folder):
            root = answer_of(folder, question)
            if mutant.edit is not None:
                mutant.edit(root)
            caught = courts_of(root, folder)
        if mutant.plant is not None and INSTALLED in mutant.caught_by:
            assert question in list(questions(quick=False)), "the audit of an installation does not ask this"
            trial = tmp_path / "trial"
            trial.mkdir()
            with own_settings(trial):
                caught |= {INSTALLED} if question_problems(trial, question, 1, ASKING) else set()
    sampler_for.cache_clear()
    assert [court for court in COURTS if court in caught] == [c for c in COURTS if c in mutant.caught_by], mutant.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "question", sorted({Question(*one.question).subject: one.question for one in ANSWERS if one.question}.values())
)
def test_sound_answers_pass_everywhere(question: Asked, tmp_path: Path) -> None:
    folder = tmp_path / "asked"
    with own_settings(folder):
        assert courts_of(answer_of(folder, Question(*question)), folder) == set()


def test_there_are_thirty_faults_that_the_second_program_catches() -> None:
    assert len(ANSWERS) >= 30
    assert all(SECOND in one.caught_by for one in ANSWERS)

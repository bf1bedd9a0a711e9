"""Faults are planted in `ask`, one after the other, and stay there while who must catch them judges the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.how_many import OF_A_VERSION
from releases.answer_mutants import ANSWERS
from releases.mutant import INSTALLED, SECOND, VERIFY, Mutant

from auditor.keys import read_key
from auditor.ledger import read_ledger
from auditor.program import audit_with
from auditor.reading.findings import FormError
from features.audit.questions_asked import (
    TriedQuestion,
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
from pipeline.runs.answers import verify_answer

if (found := installed_questions()) is None:
    pytest.skip("no feature asks questions", allow_module_level=True)
ASKING = found


def _second(root: Path, folder: Path) -> bool:
    try:
        # As for a test key: that keys of 16 bits are found, others test, and it takes most of the time.
        given = read_key(folder / "key")[0], True, read_ledger(str(folder / "ledger.db"))
        return not all(found.passed for found in audit_with(root, *given))
    except FormError:
        return True


def _verify(root: Path, folder: Path) -> bool:  # noqa: ARG001
    try:
        return bool(verify_answer(RunDirectory(root)))
    except SpinewiseError:
        return True


CATCHERS = {SECOND: _second, VERIFY: _verify}


#: Of a draw, a stream, a charge and a file: quick to ask, so that each run of the tests plants some.
QUICK = ("an answer without noise", "streams that do not depend on the records", "a choice that is not charged",
         "a true number in answer.csv")  # fmt: skip


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(one, marks=[] if one.name.removeprefix("`ask`: ") in QUICK else pytest.mark.slow, id=one.name)
        for one in ANSWERS
    ],
)
def test_each_fault_in_an_answer_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    """By the audit of the installation, too, which asks the question itself: of a version."""
    assert mutant.question is not None
    question, folder = TriedQuestion(*mutant.question), tmp_path / "asked"
    folder.mkdir()
    sampler_for.cache_clear()
    with pytest.MonkeyPatch.context() as patch, own_settings(folder):
        if mutant.plant is not None:
            mutant.plant(patch)
        opened(folder, question, 1)
        root = ASKING.answered(asked(folder, question, people_of(1, question), folder / "key", ASKING))
        if mutant.edit is not None:
            mutant.edit(root)
        missed = [name for name in mutant.caught_by if name in CATCHERS and not CATCHERS[name](root, folder)]
        if INSTALLED in mutant.caught_by:
            assert question in list(questions(quick=False)), "the audit of an installation does not ask this"
            if OF_A_VERSION:
                trial = tmp_path / "trial"
                trial.mkdir()
                with own_settings(trial):
                    missed += [] if question_problems(trial, question, 1, ASKING) else [INSTALLED]
    sampler_for.cache_clear()
    assert missed == []


@pytest.mark.slow
def test_sound_answers_pass(tmp_path: Path) -> None:
    """Of each question that faults are planted in."""
    for number, question in enumerate(sorted({one.question for one in ANSWERS if one.question})):
        folder = tmp_path / str(number)
        folder.mkdir()
        with own_settings(folder):
            opened(folder, TriedQuestion(*question), 1)
            people = people_of(1, TriedQuestion(*question))
            root = ASKING.answered(asked(folder, TriedQuestion(*question), people, folder / "key", ASKING))
            assert [name for name, finds in CATCHERS.items() if finds(root, folder)] == []


def test_there_are_thirty_faults_that_the_second_program_catches() -> None:
    assert len(ANSWERS) >= 30
    assert all(SECOND in one.caught_by for one in ANSWERS)
    assert {f"`ask`: {name}" for name in QUICK} <= {one.name for one in ANSWERS}

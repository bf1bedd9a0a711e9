"""What an audit asks of made-up records, and what it looks at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from features.questions import confidential
from features.questions.answering import answered
from features.questions.kept import keep_counts
from features.questions.request import CheckedQuestion, QuestionRequest, check_question
from features.questions.work import QuestionWork
from pipeline.confidential.custody import Keyholder, KeySource
from pipeline.privacy.keys import MasterKey


class AnsweringHere:
    """This process holds records, key and ledger, for tests and audits of made-up records."""

    def __init__(self, checked: CheckedQuestion) -> None:
        self._holder = Keyholder(checked.request.key, checked.spec.privacy.key)

    def identity(self) -> str:
        """See `answering.RecordsHolder.identity`."""
        return self._holder.identity()

    def question(self, work: QuestionWork) -> Mapping[str, object]:
        """See `answering.RecordsHolder.question`."""
        return confidential.answered(work, self._holder)


class TriedQuestions:
    """Questions that are asked in this process; see `features.audit.questions_asked.AsksQuestions`."""

    def checked(self, spec: Path, text: str, key: Path, **request: Any) -> CheckedQuestion:
        """A question under a key; `request` as `QuestionRequest`."""
        return check_question(QuestionRequest(spec, text, key=KeySource(key), **request))

    def answered(self, checked: CheckedQuestion) -> Path:
        """The directory of its answer."""
        return answered(checked, AnsweringHere(checked))

    def keep_counted(self, checked: CheckedQuestion, key: MasterKey, answer: Path) -> None:
        """Put into restricted/ of an answer what would be counted of the records of another question."""
        counts, _, units = confidential.counted(checked.work, key)
        keep_counts(answer / "restricted", answer, counts, units)

"""What an audit asks of made-up records, and what it looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from features.questions import confidential
from features.questions.answering import answered
from features.questions.kept import keep_counts
from features.questions.request import CheckedQuestion, QuestionRequest, check_question
from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import RecordHolder
from pipeline.privacy.keys import MasterKey


class TriedQuestions:
    """Questions that are asked in this process, see `features.audit.questions_asked`."""

    def checked(self, spec: Path, text: str, key: Path, **request: Any) -> CheckedQuestion:
        """A question under a key; `request` as `QuestionRequest`."""
        return check_question(QuestionRequest(spec, text, key=KeySource(key), **request))

    def answered(self, checked: CheckedQuestion) -> Path:
        """The directory of its answer."""
        key = checked.request.key
        return answered(checked, RecordHolder(key, checked.spec.privacy.key))

    def keep_counted(self, checked: CheckedQuestion, key: MasterKey, answer: Path) -> None:
        """Put into restricted/ of an answer what would be counted of the records of another question."""
        counts, _, units = confidential.counted(checked.work, key)
        keep_counts(answer / "restricted", answer, counts, units)

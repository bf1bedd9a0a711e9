"""What the feature adds to a spec: the section [questions], and what an audit tries of questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from features.questions.section import QuestionsPart

if TYPE_CHECKING:
    from features.questions.audited import TriedQuestions


class QuestionsKeys(QuestionsPart):
    """The section [questions]."""

    @classmethod
    def tried_questions(cls) -> TriedQuestions:
        """See `Kind.tried_questions`."""
        from features.questions.audited import TriedQuestions

        return TriedQuestions()

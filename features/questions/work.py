"""What is asked of the records by a question: public, and sent to the measuring process."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from geography.spine import Spine
from pipeline.model.record_source import RecordSource
from pipeline.questions.plan import QuestionPlan
from pipeline.questions.resolved import Resolved
from pipeline.release.layout import RunDirectory
from postprocess.arrays import IntArray


@dataclass(frozen=True, eq=False)
class QuestionWork:
    """A question to be answered; public, but for where the records are.

    Attributes:
        run: the answer's directory; `name`: of the answer.
        plan: what is drawn.
        records: how they are read; `source_for`.
        spine: the areas.
        again: an answer that is to be drawn again; `run` is then where to.
    """

    run: RunDirectory
    name: str
    plan: QuestionPlan
    records: RecordSource
    spine: Spine
    again: RunDirectory | None = None

    @property
    def question(self) -> Resolved:
        """What is asked."""
        return self.plan.question

    @property
    def geocodes(self) -> list[str]:
        """Of the places that are told apart; "" where there are none."""
        level = self.question.level
        return [""] if level is None else list(map(str, self.spine.level(level).geocodes))

    @property
    def places(self) -> IntArray:
        """The number of the place of each leaf, `(n_leaves,)`."""
        if (level := self.question.level) is None:
            return np.zeros(self.spine.n_leaves, dtype=np.int64)
        return self.spine.leaf_ancestors(self.spine.index_of(level))

    def privacy_fingerprint(self) -> str:
        """SHA-256 over all that the noise depends on, but for records, areas and key: how the records are read too."""
        return self.plan.fingerprint(json.dumps(self.reading))

    @property
    def reading(self) -> list[object]:
        """How the records are read: else the same answer for nothing says that another reading changes no count."""
        return self.records.reading(self.question.read.names)

"""What is asked of the records by a question: public, and sent to the measuring process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

from geography.spine import Spine
from pipeline.model.record_source import RecordSource
from pipeline.privacy.budget import Framework, Neighbours
from pipeline.questions.derived import Terms
from pipeline.questions.quantiles import Ranked
from pipeline.questions.resolved import Resolved
from pipeline.questions.sensitivity import Measured
from pipeline.release.layout import RunDirectory


@dataclass(frozen=True)
class QuestionWork:
    """A question to be answered; public, but for where the records are.

    Attributes:
        run: the answer's directory.
        name: of the answer.
        dataset: the ledger's, charged.
        records: how they are read; `source_for`.
        at_once: records of one person that may change together.
        budget: rho or epsilon, exact.
        again: an answer that is to be drawn again; `run` is then where to.
    """

    run: RunDirectory
    name: str
    question: Resolved
    records: RecordSource
    spine: Spine
    dataset: str
    framework: Framework
    neighbours: Neighbours
    at_once: int
    budget: Fraction
    again: RunDirectory | None = None

    def parts(self) -> tuple[Measured | Ranked, ...]:
        """What is measured or chosen, with its mechanism; InputError where there is none for the budget."""
        return self.terms.parts(self.question, self.n_places)

    @property
    def terms(self) -> Terms:
        """On which terms it is asked."""
        return Terms(self.dataset, self.framework, self.neighbours, self.at_once, self.budget)

    @property
    def n_places(self) -> int:
        """How many places it has numbers for."""
        return 1 if self.question.level is None else len(self.spine.level(self.question.level))

    def fingerprint(self) -> str:
        """SHA-256 over the question, what it is asked of, and its budget: what an answer publishes of them."""
        return self.question.fingerprint(*self.context)

    def privacy_fingerprint(self) -> str:
        """SHA-256 over all that the noise depends on, but for records, areas and key: how the records are read too."""
        return self.question.fingerprint(json.dumps(self.reading), *self.context)

    @property
    def context(self) -> tuple[str, ...]:
        """What both fingerprints have beside the question."""
        return self.terms.context(self.question)

    @property
    def reading(self) -> list[object]:
        """How the records are read: else the same answer for nothing says that another reading changes no count."""
        return self.records.reading(self.question.read.names)

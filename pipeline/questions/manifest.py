"""What an answer says of itself: public/answer.json, its manifest."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pipeline.errors import ChangedFileError, InputError, ReleaseError
from pipeline.model.promise import Promise
from pipeline.privacy.budget import Framework, Neighbours
from pipeline.privacy.noise.mechanisms import MechanismName
from pipeline.questions.domain import Domain
from pipeline.questions.plan import QuestionPlan
from pipeline.questions.quantiles import Ranked
from pipeline.questions.resolve import resolve
from pipeline.questions.sensitivity import MeasuredPart
from pipeline.questions.stated_domain import DomainStated
from pipeline.questions.text import parse
from pipeline.release.layout import ANSWER_FILES, RunDirectory
from pipeline.release.receipts import Receipt
from pipeline.release.software import Software
from pipeline.release.stated import Digest, Positive, Stated, StatedName, read_stated
from pipeline.storage.files import sha256_file
from pipeline.storage.paths import Readable, unchecked

#: Files under public/ of an answer.
MANIFEST, MEASUREMENTS, ANSWER = ANSWER_FILES


class PartStated(Stated):
    """Numbers that were measured or chosen together, with noise and cost; see `MeasuredPart` and `Ranked`.

    Attributes:
        mechanism, scale: of the noise, with sigma^2 or b, or of a choice with its epsilon.
        budget: that it costs.
        reach: each of the numbers that a record's change moves, moves by at most so much; of a choice its losses, times
            `times`.
        centre: of a sum, units that were taken off each amount.
        numbers: in how many of them a unit is counted.
        ties: of a choice, records of one step of which the middle is taken.
        beyond: of a maximum, minimum or clip, records that at most are above or below the number.
    """

    name: Literal["count", "sum", "windows", "quantile", "clip"]
    mechanism: MechanismName
    scale: Positive
    budget: Positive
    reach: int
    centre: int = 0
    numbers: int = Field(default=1, ge=1)
    times: int = 1
    ties: int = 0
    beyond: int = 0

    @classmethod
    def of(cls, one: MeasuredPart | Ranked) -> PartStated:
        """What a manifest states of a part."""
        own: dict[str, int] = (
            {"times": one.times, "ties": one.ties, "beyond": one.beyond}
            if isinstance(one, Ranked)
            else {"centre": one.part.centre, "numbers": one.numbers}
        )
        drawn = {
            "name": one.part.name,
            "mechanism": one.mechanism.mechanism,
            "scale": str(one.mechanism.scale),
            "budget": str(one.budget),
        }
        return cls.model_validate({**drawn, "reach": one.reach, **own})


class AnswerManifest(Stated):
    """The manifest of an answer. What is asked is its question, by the words of its domain; nothing is said twice.

    Attributes:
        answer: its name; `release`: of the spec that it was asked with.
        dataset: that it was charged to.
        question: canonical text; `fingerprint`: of it, what it is asked of, and its budget.
        domain: what its words stand for.
        place: the level, or "everywhere".
        budget: that was asked for; what was charged is `cost`.
        records_per_person: that one person's change alters at most.
        geography: fingerprint of the spine.
        key_commitment, key_salt, input_fingerprint: as in the manifest of a release.
        files: name -> SHA-256.
    """

    spinewise_answer: Literal[1] = 1
    answer: StatedName
    release: StatedName
    dataset: str
    question: str
    place: str
    domain: DomainStated
    framework: Framework
    neighbours: Neighbours
    records_per_person: int = Field(ge=1)
    budget: Positive
    parts: tuple[PartStated, ...]
    fingerprint: Digest
    geography: Digest
    key_commitment: Digest
    key_salt: Digest
    input_fingerprint: Digest
    receipts: tuple[Receipt, ...]
    note: str
    files: dict[str, str]
    software: Software

    @property
    def cost(self) -> Fraction:
        """What it costs, as its parts state: the budget, or a little less where a choice cannot use all of it."""
        return sum((Fraction(part.budget) for part in self.parts), Fraction(0))

    def known(self) -> Domain:
        """The domain in which its question is looked up; SpecError where it is none."""
        return self.domain.domain(self.place, self.records_per_person)

    def plan(self) -> QuestionPlan:
        """What is drawn for its question; of units that are counted, in as many numbers as its parts state.

        Raises:
            ReleaseError: the question cannot be looked up in the domain, or its budget buys nothing.
        """
        try:
            question = resolve(parse(self.question), self.known(), whole=bool(self.domain.attributes))
            promise = Promise(self.framework, self.neighbours, Fraction(self.budget), self.records_per_person)
            numbers = max((part.numbers for part in self.parts), default=1)
            plan = QuestionPlan(question, self.dataset, promise, numbers)
            _ = plan.parts
        except (InputError, ValueError) as error:
            raise ReleaseError(f"{MANIFEST}: its question cannot be looked up in its domain: {error}") from None
        return plan


def fields_of(plan: QuestionPlan, domain: DomainStated) -> dict[str, Any]:
    """The fields of an answer's manifest that follow from its question: all but key, records, ledger and software.

    Args:
        plan: of the question.
        domain: what its words stand for.
    """
    return {
        "question": plan.question.text,
        "place": plan.question.place,
        "domain": domain,
        "dataset": plan.dataset,
        "framework": plan.promise.framework,
        "neighbours": plan.promise.neighbours,
        "records_per_person": plan.promise.records,
        "budget": str(plan.promise.budget),
        "parts": tuple(map(PartStated.of, plan.parts)),
        "fingerprint": plan.fingerprint(),
        "note": plan.note,
    }


def is_answer_file(path: Path) -> bool:
    """Whether a file is the manifest of an answer, by its name or by how it begins."""
    with path.open("rb") as file:
        return path.name == MANIFEST or b'"spinewise_answer"' in file.read(100)


def read_answer(run: RunDirectory) -> AnswerManifest:
    """The manifest of the answer in a directory; ReleaseError where it is damaged."""
    return read_answer_file(unchecked(run.public / MANIFEST))


def read_answer_file(path: Readable) -> AnswerManifest:
    """The manifest of an answer in a file; ReleaseError where it is damaged."""
    return read_stated(path, AnswerManifest, "is no manifest of an answer")


def unchanged_answer_file(path: Path, manifest: AnswerManifest) -> Readable:
    """A file of an answer that is to be read, compared with the manifest beside it.

    Raises:
        ChangedFileError: it is missing, or not the one that the manifest lists.
    """
    if not path.is_file():
        problem = "is missing; the manifest of the answer lists it"
    elif sha256_file(path) != manifest.files.get(path.name):
        problem = f"was changed: it has not the hash that {MANIFEST} states"
    else:
        return Readable(path)
    raise ChangedFileError.of(f"{path} {problem}", "answer", path.parent.parent)


def manifest_bytes(manifest: AnswerManifest) -> bytes:
    """The manifest as it is written."""
    return (json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n").encode()

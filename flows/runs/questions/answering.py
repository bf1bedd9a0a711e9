"""Answers a question: asks the measuring process, and writes what follows from its noisy numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from flows.confidential.custody import Keyholder
from flows.confidential.process import MeasuringProcess
from flows.confidential.questions import QuestionWork, answer, key_of_answer
from flows.runs.questions.request import CheckedQuestion, QuestionRequest
from pipeline.model.schema import AmountAttribute, ListedAttribute
from pipeline.questions.manifest import (
    ANSWER,
    MANIFEST,
    MEASUREMENTS,
    AmountStated,
    AnswerManifest,
    EndsStated,
    PartStated,
    RankStated,
    manifest_bytes,
)
from pipeline.questions.quantiles import Ranked
from pipeline.questions.sensitivity import Measured
from pipeline.questions.tables import answer_bytes, read_measurements
from pipeline.release.layout import RunDirectory
from pipeline.release.receipts import Receipt
from pipeline.release.run_directory import open_run
from pipeline.release.software import software
from pipeline.storage.files import sha256_file, write_bytes, write_json

#: In restricted/: where a rerun finds the spec and the records.
ASKED = "asked.json"


class Answering(Protocol):
    """Whoever holds records, key and ledger for a question."""

    def identity(self) -> str:
        """See `Keyholder.identity`."""

    def question(self, work: QuestionWork) -> Mapping[str, Any]:
        """See `questions.answer`."""


class AnsweringHere:
    """This process holds them, for tests and audits of made-up records."""

    def __init__(self, checked: CheckedQuestion) -> None:
        self._source = checked.request.key
        self._holder = Keyholder(checked.request.key, checked.spec.privacy.key)

    def identity(self) -> str:
        """See `Answering.identity`."""
        return self._holder.identity()

    def question(self, work: QuestionWork) -> Mapping[str, Any]:
        """See `Answering.question`."""
        if work.again is not None:
            return answer(work, key_of_answer(work.again, self._source.read()))
        return answer(work, self._holder.key(work.run))


def answer_question(checked: CheckedQuestion) -> Path:
    """Charge the ledger and answer a question, the records in a process of their own; returns the answer's directory.

    Raises:
        BudgetRefusedError: the dataset has not enough left; nothing was drawn.
        InputError: there is no ledger, the records cannot be counted, or the directory holds something else.
    """
    with MeasuringProcess(checked.request.key, checked.spec.privacy.key) as process:
        return answered(checked, process)


def answered(checked: CheckedQuestion, measuring: Answering) -> Path:
    """The same, with the records wherever `measuring` has them."""
    work = checked.work
    identity = {
        "the question": checked.question.text,
        "its budget, its domain, the dataset or how the records are read": work.privacy_fingerprint(),
        "the geography": work.spine.fingerprint(),
        "the key": measuring.identity(),
    }
    with open_run(work.run.root, identity) as run:
        run.refusal.unlink(missing_ok=True)
        said = measuring.question(work)
        write_json(run.restricted / ASKED, kept(checked.request, checked), run.staging, private=True)
        write_answer(run, checked, said)
    return work.run.root


def kept(request: QuestionRequest, checked: CheckedQuestion) -> dict[str, object]:
    """Where the spec and the records are, as JSON."""
    data = None if request.data is None else str(request.data.resolve())
    return {"spec": str(Path(checked.spec.source).resolve()), "data": data}


def write_answer(run: RunDirectory, checked: CheckedQuestion, said: Mapping[str, Any]) -> None:
    """Write answer.csv and the manifest, from the noisy numbers in public/ and what was said of key and records."""
    stated = _manifest(checked, said, {})
    measured = read_measurements(run.public / MEASUREMENTS, stated)
    write_bytes(run.public / ANSWER, answer_bytes(stated, measured), run.staging)
    files = {name: sha256_file(run.public / name) for name in (ANSWER, MEASUREMENTS)}
    write_bytes(run.public / MANIFEST, manifest_bytes(stated.model_copy(update={"files": files})), run.staging)


def _manifest(checked: CheckedQuestion, said: Mapping[str, Any], files: dict[str, str]) -> AnswerManifest:
    work, question = checked.work, checked.question
    return AnswerManifest.model_validate(
        {
            "answer": work.name,
            "release": checked.spec.name,
            "dataset": work.dataset,
            "question": question.text,
            "statistic": question.statistic,
            "place": question.place,
            "terms": question.terms,
            "amount": None if question.amount is None else _amount(question.amount),
            "ends": None if question.ends is None else _ends(checked, question.ends),
            "number": None if question.number is None else str(question.number),
            "least": question.least,
            "framework": work.framework,
            "neighbours": work.neighbours,
            "records_per_person": work.at_once,
            "budget": str(work.budget),
            "parts": tuple(_stated(part) for part in checked.parts),
            "fingerprint": work.fingerprint(),
            "geography": work.spine.fingerprint(),
            "key_commitment": said["commitment"],
            "key_salt": said["salt"],
            "input_fingerprint": said["fingerprint"],
            "receipts": tuple(Receipt.model_validate_json(receipt) for receipt in said["receipts"]),
            "note": checked.note,
            "files": files,
            "software": software(),
        }
    )


def _amount(amount: AmountAttribute) -> AmountStated:
    missing = None if amount.missing is None else str(amount.missing)
    low, high, unit = str(amount.low), str(amount.high), str(amount.unit)
    ends: Literal["record", "total"] = "total" if amount.total else "record"
    return AmountStated(name=amount.name, low=low, high=high, unit=unit, missing=missing, ends=ends)


def _ends(checked: CheckedQuestion, ends: ListedAttribute) -> EndsStated:
    missing = None if ends.missing is None else str(ends.missing)
    return EndsStated(name=checked.question.clipped, listed=ends.values, missing=missing)


def _stated(one: Measured | Ranked) -> PartStated | RankStated:
    return RankStated.of(one) if isinstance(one, Ranked) else PartStated.of(one)

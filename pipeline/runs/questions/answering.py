"""Answers a question: asks the measuring process, and writes what follows from its noisy numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from pipeline.confidential.custody import Keyholder
from pipeline.confidential.process import MeasuringProcess
from pipeline.confidential.questions import QuestionWork, answer, key_of_answer
from pipeline.questions.derived import derived
from pipeline.questions.manifest import ANSWER, MANIFEST, MEASUREMENTS, AnswerManifest, manifest_bytes
from pipeline.questions.tables import answer_bytes, read_measurements
from pipeline.release.layout import RunDirectory
from pipeline.release.receipts import Receipt
from pipeline.release.run_directory import open_run
from pipeline.release.software import software
from pipeline.runs.questions.request import CheckedQuestion, QuestionRequest
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
    work = checked.work
    return AnswerManifest.model_validate(
        {
            **derived(checked.question, checked.domain, work.terms, work.n_places),
            "answer": work.name,
            "release": checked.spec.name,
            "dataset": work.dataset,
            "geography": work.spine.fingerprint(),
            "key_commitment": said["commitment"],
            "key_salt": said["salt"],
            "input_fingerprint": said["fingerprint"],
            "receipts": tuple(Receipt.model_validate_json(receipt) for receipt in said["receipts"]),
            "files": files,
            "software": software(),
        }
    )

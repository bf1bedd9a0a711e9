"""Answers a question: asks the measuring process, and writes what follows from its noisy numbers; also once again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from features.questions.request import CheckedQuestion, QuestionRequest, check_question
from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import MeasuringProcess, RecordHolder
from pipeline.errors import InputError, ReleaseError
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.questions.manifest import (
    ANSWER,
    MANIFEST,
    MEASUREMENTS,
    AnswerManifest,
    fields_of,
    manifest_bytes,
    read_answer,
)
from pipeline.questions.released.combined import COMBINED, SUMMARY
from pipeline.questions.tables import answer_bytes, read_measurements
from pipeline.release.layout import RunDirectory
from pipeline.release.receipts import Receipt
from pipeline.release.run_directory import make_run_folders, open_run
from pipeline.release.software import software
from pipeline.runs.answers import combine_answer, is_combined
from pipeline.storage.files import sha256_file, temporary_folder, write_bytes, write_json
from pipeline.storage.paths import unchecked

#: In restricted/: where a rerun finds the spec and the records.
ASKED = "asked.json"


def answer_question(checked: CheckedQuestion) -> Path:
    """Charge the ledger and answer a question, the records in a process of their own; returns the answer's directory.

    Raises:
        BudgetRefusedError: the dataset has not enough left; nothing was drawn.
        InputError: there is no ledger, the records cannot be counted, or the directory holds something else.
    """
    with MeasuringProcess(checked.request.key, checked.spec.privacy.key) as process:
        return answered(checked, process)


def answered(checked: CheckedQuestion, measuring: RecordHolder) -> Path:
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
        data = None if checked.request.data is None else str(checked.request.data.resolve())
        asked = {"spec": str(Path(checked.spec.source).resolve()), "data": data}
        write_json(run.restricted / ASKED, asked, run.staging, private=True)
        write_answer(run, checked, said)
    return work.run.root


def write_answer(run: RunDirectory, checked: CheckedQuestion, said: Mapping[str, Any]) -> None:
    """Write answer.csv and the manifest, from the noisy numbers in public/ and what was said of key and records."""
    work = checked.work
    measured = read_measurements(unchecked(run.public / MEASUREMENTS), work.plan)  # just drawn: no manifest yet
    write_bytes(run.public / ANSWER, answer_bytes(work.plan, measured), run.staging)
    manifest = AnswerManifest.model_validate(
        {
            **fields_of(work.plan, checked.domain),
            "answer": work.name,
            "release": checked.spec.name,
            "geography": work.spine.fingerprint(),
            **said,
            "receipts": tuple(Receipt.model_validate_json(receipt) for receipt in said["receipts"]),
            "files": {name: sha256_file(run.public / name) for name in (ANSWER, MEASUREMENTS)},
            "software": software(),
        }
    )
    write_bytes(run.public / MANIFEST, manifest_bytes(manifest), run.staging)


def rerun_answer(
    run: RunDirectory, spec: Path | None, data: Path | None, key: KeySource, release: Path | None
) -> list[str]:
    """Draw an answer again, in a process of its own, and compare; the public files that differ.

    Args:
        run: the answer.
        spec, data, key: that it was made with; where they were, if None.
        release: that it is combined with, if it is; without it combined numbers are not compared.

    Raises:
        InputError: the spec, the records or the key are others, or the answer was never charged; nothing was drawn.
    """
    checked = again_of(run, spec, data, key)
    with MeasuringProcess(key, None) as process:
        return compared(run, checked, process, release)


def again_of(run: RunDirectory, spec: Path | None, data: Path | None, key: KeySource) -> CheckedQuestion:
    """The question of an answer, asked of the spec and the records again; InputError where it is not the same."""
    manifest = read_answer(run)
    asked = _asked(run) if spec is None else {"spec": str(spec), "data": None}
    amount, kept_data = None, asked["data"]
    with suppress(ReleaseError):  # a question that its domain does not answer is another one, which is seen below
        amount = manifest.plan().question.amount
    request = QuestionRequest(
        Path(str(asked["spec"])), manifest.question,
        **{BUDGET_NAMES[manifest.framework]: manifest.budget},
        between=None if amount is None else (str(amount.low), str(amount.high)),
        unit=None if amount is None else str(amount.unit),
        out=run.root.parent, name=manifest.answer, key=key,
        data=data or (None if kept_data is None else Path(kept_data)),
    )  # fmt: skip
    checked = check_question(request)
    own = (checked.plan.fingerprint(), checked.work.spine.fingerprint())
    if own != (manifest.fingerprint, manifest.geography):
        raise InputError(
            f"{run.root}: {checked.spec.source} now gives another question or other areas than were asked; the spec "
            "that it was asked with is needed: --spec SPEC; nothing was drawn"
        )
    return checked


def compared(
    run: RunDirectory, checked: CheckedQuestion, measuring: RecordHolder, release: Path | None = None
) -> list[str]:
    """The public files that are not the same when they are made again, in a folder that is removed at the end."""
    with temporary_folder("rerun") as folder:
        again = RunDirectory(folder / "answer")
        make_run_folders(again)
        said = measuring.question(replace(checked.work, run=again, again=run))
        write_answer(again, checked, said)
        names = [MEASUREMENTS, ANSWER, MANIFEST]
        if release is not None and is_combined(run):
            combine_answer(again, release)
            names += [COMBINED, SUMMARY]
        return [name for name in names if (again.public / name).read_bytes() != _bytes(run.public / name)]


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _asked(run: RunDirectory) -> dict[str, str | None]:
    path = run.restricted / ASKED
    try:
        content = json.loads(path.read_bytes())
        if isinstance(content["spec"], str) and isinstance(content["data"], str | None):
            return dict(content)
    except FileNotFoundError:
        raise InputError(f"{run.root}: nothing here says where its spec is; give it with --spec SPEC") from None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ReleaseError(f"{path} is damaged; give the spec with --spec SPEC")

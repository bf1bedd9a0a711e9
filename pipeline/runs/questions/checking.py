"""An answer checked by its public files alone, and drawn again from records and key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import MeasuringProcess
from pipeline.errors import InputError, ReleaseError
from pipeline.questions.manifest import ANSWER, MANIFEST, MEASUREMENTS, AnswerManifest, read_answer
from pipeline.questions.released.combined import COMBINED, SUMMARY
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import make_run_folders
from pipeline.runs.questions.answering import ASKED, Answering, write_answer
from pipeline.runs.questions.combining import combination_problems, combine_answer, is_combined
from pipeline.runs.questions.public_files import answer_problems
from pipeline.runs.questions.request import CheckedQuestion, QuestionRequest, check_question
from pipeline.storage.temporary import temporary_folder


def verify_answer(run: RunDirectory, release: Path | None = None) -> list[str]:
    """What is wrong with an answer, by its public files alone: a sentence each; empty if nothing is.

    Args:
        run: the answer.
        release: that it is combined with, if it is; without it combined numbers are not computed again.

    Raises:
        ReleaseError: the manifest cannot be read.
    """
    manifest = read_answer(run)
    problems = [*answer_problems(run.public, manifest), *_unlisted(run, manifest)]
    return problems + (combination_problems(run, manifest, release) if is_combined(run) and not problems else [])


def _unlisted(run: RunDirectory, manifest: AnswerManifest) -> list[str]:
    listed = {*manifest.files, MANIFEST, run.answer_signature.name, *((COMBINED, SUMMARY) if is_combined(run) else ())}
    found = sorted(run.public.iterdir())
    links = [f"{path.name}: is a link" for path in found if path.name in listed and path.is_symlink()]
    return [*links, *(f"{path.name}: is not listed" for path in found if path.name not in listed)]


def rerun_answer(
    run: RunDirectory, spec: Path | None, data: Path | None, key: KeySource, release: Path | None = None
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
    amount, kept_data = manifest.amount, asked["data"]
    request = QuestionRequest(
        Path(str(asked["spec"])), manifest.question,
        **{"rho" if manifest.framework == "zcdp" else "epsilon": manifest.budget},
        between=None if amount is None else (amount.low, amount.high), unit=None if amount is None else amount.unit,
        out=run.root.parent, name=manifest.answer, key=key,
        data=data or (None if kept_data is None else Path(kept_data)),
    )  # fmt: skip
    checked = check_question(request)
    own = (checked.work.fingerprint(), checked.work.spine.fingerprint())
    if own != (manifest.fingerprint, manifest.geography):
        raise InputError(
            f"{run.root}: {checked.spec.source} now gives another question or other areas than were asked; the spec "
            "that it was asked with is needed: --spec SPEC; nothing was drawn"
        )
    return checked


def compared(
    run: RunDirectory, checked: CheckedQuestion, measuring: Answering, release: Path | None = None
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

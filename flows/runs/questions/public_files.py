"""The public files of an answer: whether they are those of its manifest, and follow from what was drawn."""

from __future__ import annotations

from pathlib import Path

from flows.runs.questions.costs import cost_problems, units_problems
from pipeline.errors import ReleaseError
from pipeline.questions.manifest import ANSWER, MANIFEST, MEASUREMENTS, AnswerManifest
from pipeline.questions.tables import answer_bytes, read_measurements
from pipeline.storage.files import sha256_file


def answer_problems(folder: Path, manifest: AnswerManifest) -> list[str]:
    """What is wrong with the public files of an answer in a folder, and with its costs."""
    problems = [*_file_problems(folder, manifest), *cost_problems(manifest)]
    if problems:
        return problems
    try:
        measured = read_measurements(folder / MEASUREMENTS, manifest)
        recomputed = answer_bytes(manifest, measured)
        problems += units_problems(manifest, measured)
    except ReleaseError as error:
        return [str(error)]
    if recomputed != (folder / ANSWER).read_bytes():
        problems.append(f"{ANSWER}: does not follow from {MEASUREMENTS}")
    return problems


def _file_problems(folder: Path, manifest: AnswerManifest) -> list[str]:
    problems = []
    if sorted(manifest.files) != sorted([ANSWER, MEASUREMENTS]):
        return [f"{MANIFEST}: lists {', '.join(sorted(manifest.files))}; {ANSWER} and {MEASUREMENTS} are needed"]
    for name, stated in sorted(manifest.files.items()):
        path = folder / name
        if not path.is_file():
            problems.append(f"{name}: is missing")
        elif sha256_file(path) != stated:
            problems.append(f"{name}: was changed: it has not the hash that the manifest states")
    return problems

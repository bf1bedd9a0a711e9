"""The public files of an answer: whether they are those of its manifest, and follow from what was drawn."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from flows.runs.questions.costs import cost_problems, units_problems
from pipeline.errors import ReleaseError
from pipeline.questions.manifest import ANSWER, MANIFEST, MEASUREMENTS, AnswerManifest
from pipeline.questions.quantiles import CLIP
from pipeline.questions.tables import answer_bytes, read_measurements
from pipeline.questions.text import QuestionError, parse
from pipeline.storage.files import sha256_file


def answer_problems(folder: Path, manifest: AnswerManifest) -> list[str]:
    """What is wrong with the public files of an answer in a folder, and with its costs."""
    problems = [*_file_problems(folder, manifest), *question_problems(manifest), *cost_problems(manifest)]
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


def question_problems(manifest: AnswerManifest) -> list[str]:
    """Whether what the manifest states of its question is what the text asks."""
    try:
        asked = parse(manifest.question)
    except QuestionError as error:
        return [str(error)]
    clip = asked.statistic == CLIP
    name = None if asked.amount is None or asked.statistic == "most common" else asked.amount.text
    needed: dict[str, tuple[object, object]] = {
        "statistic": (asked.statistic, manifest.statistic),
        "number": (asked.number, None if manifest.number is None else Fraction(manifest.number)),
        "least count": (asked.least, manifest.least),
        "amount": (None if clip else name, None if manifest.amount is None else manifest.amount.name),
        "amount of the clip": (name if clip else None, None if manifest.ends is None else manifest.ends.name),
        "ends": (
            ", ".join(map(str, asked.among)),
            "" if manifest.ends is None else ", ".join(manifest.ends.listed),
        ),
    }
    problems = [
        f"{what}: stated is {stated or 'none'}, and its question has {found or 'none'}"
        for what, (found, stated) in needed.items()
        if stated != found
    ]
    if manifest.ends is not None and (rank := manifest.rank) is not None:
        listed = len(manifest.ends.listed)
        if (rank.candidates, rank.first) != (listed, 0):
            problems.append(
                f"{rank.name}: {rank.candidates} ends from number {rank.first} on are stated, and listed are {listed} "
                "from number 0 on"
            )
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

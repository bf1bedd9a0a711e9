"""The public files of an answer: whether they are those of its manifest, and follow from what was drawn."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

from pipeline.errors import InputError, ReleaseError
from pipeline.published import open_finished
from pipeline.questions.derived import Terms, derived
from pipeline.questions.manifest import ANSWER, MANIFEST, MEASUREMENTS, AnswerManifest, manifest_bytes, read_answer
from pipeline.questions.quantiles import CLIP
from pipeline.questions.released.combined import COMBINED, SUMMARY
from pipeline.questions.resolved import EVERYWHERE
from pipeline.questions.stated_domain import compared_by_order, looked_up, stated_domain
from pipeline.questions.tables import Measurements, answer_bytes, read_measurements
from pipeline.questions.text import QuestionError, parse
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.costs import cost_problems, units_problems
from pipeline.storage.files import sha256_file
from pipeline.storage.readable import unchecked

#: Fields of an answer's manifest that no public file implies, so that their form is all that is compared; all but
#: "release" and "software" are compared by an audit with the key and the ledger, and the areas with those of a release.
FORM_ALONE: Final = (
    "answer", "release", "geography", "key_salt", "key_commitment", "input_fingerprint",
    "receipts (ledger, number, hash)", "software",
)  # fmt: skip


def form_alone(manifest: AnswerManifest, release: Path | None = None) -> tuple[str, ...]:
    """Fields of an answer of which the form is all that is compared, with the release given beside it, if one is."""
    recodes = {one.name for one in manifest.domain.recodes} if manifest.domain is not None else set()
    labels = ("domain.recodes (labels that are compared by order)",)
    return (
        *(field for field in FORM_ALONE if field != "geography" or release is None),
        *(labels if recodes & compared_by_order(parse(manifest.question)) else ()),
    )


def verify_answer(run: RunDirectory, release: Path | None = None) -> list[str]:
    """What is wrong with an answer, by its public files alone: a sentence each; empty if nothing is.

    Args:
        run: the answer.
        release: that it is combined with, or of the same areas; without it combined numbers are not computed again.

    Raises:
        ReleaseError: the manifest cannot be read.
    """
    from pipeline.runs.questions.combining import combination_problems, is_combined  # with what estimates

    manifest, combined = read_answer(run), is_combined(run)
    problems = [*answer_problems(run.public, manifest), *_unlisted(run, manifest, combined)]
    if problems or not combined:
        return problems + ([] if problems or release is None else _areas_problems(manifest, release))
    return combination_problems(run, manifest, release)


def _areas_problems(manifest: AnswerManifest, release: Path) -> list[str]:
    if open_finished(release, check_hashes=True).spine.fingerprint() == manifest.geography:
        return []
    return [f"{MANIFEST}: geography: is not that of the areas of {release}"]


def _unlisted(run: RunDirectory, manifest: AnswerManifest, combined: bool) -> list[str]:
    listed = {*manifest.files, MANIFEST, run.answer_signature.name, *((COMBINED, SUMMARY) if combined else ())}
    found = sorted(run.public.iterdir())
    links = [f"{path.name}: is a link" for path in found if path.name in listed and path.is_symlink()]
    return [*links, *(f"{path.name}: is not listed" for path in found if path.name not in listed)]


def answer_problems(folder: Path, manifest: AnswerManifest, *, of_release: bool = False) -> list[str]:
    """What is wrong with the public files of an answer in a folder, and with its costs.

    All of answer.json is computed again from its question, domain, budget and noisy numbers, and compared byte by byte.
    Stated, and not computed, are the fields of `FORM_ALONE`: these are bound by a signature, by the ledger and by
    `rerun`.

    Args:
        folder: with the files.
        manifest: of the answer, as it was read from them.
        of_release: the question is looked up in the schema of a release, too, so that it need not state its domain.
    """
    problems = [*_file_problems(folder, manifest), *question_problems(manifest), *cost_problems(manifest)]
    if problems:
        return problems
    try:
        measured = read_measurements(unchecked(folder / MEASUREMENTS), manifest)  # just hashed
        recomputed = answer_bytes(manifest, measured)
        problems += units_problems(manifest, measured)
        if manifest.domain is not None or not of_release:
            problems += _rebuilt_problems(folder, manifest, measured)
    except ReleaseError as error:
        return [str(error)]
    if recomputed != (folder / ANSWER).read_bytes():
        problems.append(f"{ANSWER}: does not follow from {MEASUREMENTS}")
    return problems


def _rebuilt_problems(folder: Path, manifest: AnswerManifest, measured: Measurements) -> list[str]:
    """Whether the manifest is, byte by byte, what follows from its question and what it states beside."""
    if manifest.domain is None:
        return [
            f"{MANIFEST}: states no domain, as answers of earlier versions do: whether its question is the one that "
            "was asked cannot be computed; asked again, which costs nothing, it states it"
        ]
    people, budget = manifest.records_per_person, Fraction(manifest.budget)
    terms = Terms(manifest.dataset, manifest.framework, manifest.neighbours, people, budget)
    try:
        asked = parse(manifest.question)
        question = looked_up(asked, manifest.domain, manifest.place, people)
        known = manifest.domain.domain(manifest.place, people)
        places = _places(manifest, measured)
        fields = derived(question, stated_domain(asked, question, known), terms, len(places))
    except (InputError, ValueError) as error:
        return [f"{MANIFEST}: its question cannot be looked up in its domain: {error}"]
    labels = question.labels()
    if [*measured.keys] != [(*place, *label) for place in places for label in labels]:
        return [f"{MEASUREMENTS}: its rows are not the places and groups of the question"]
    files = {name: sha256_file(folder / name) for name in (ANSWER, MEASUREMENTS)}
    again = manifest.model_copy(update={**fields, "files": files})
    if differing := [name for name in AnswerManifest.model_fields if getattr(again, name) != getattr(manifest, name)]:
        return [f"{MANIFEST}: {name}: is not what its question and domain give" for name in differing]
    if manifest_bytes(again) != (folder / MANIFEST).read_bytes():
        return [f"{MANIFEST}: is not written as this program writes it: it has other bytes than what it states has"]
    return []


def _places(manifest: AnswerManifest, measured: Measurements) -> list[tuple[str, ...]]:
    """The keys of the places that it has numbers for, in their order."""
    if manifest.place == EVERYWHERE:
        return [()]
    return [(code,) for code in dict.fromkeys(key[0] for key in measured.keys)]


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

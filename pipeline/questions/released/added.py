"""An answer as a published spec states it, where a version of a release is made with it; or why it cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.errors import InputError
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease
from pipeline.questions.manifest import MEASUREMENTS, AnswerManifest
from pipeline.questions.released.cells import NoSumOfCellsError, sums_of_answer
from pipeline.questions.resolved import QuestionAxis
from pipeline.release.layout import query_file_name
from pipeline.spec.fields import PUBLIC
from pipeline.spec.update import AddedSection
from postprocess.arrays import BoolArray


def added_section(manifest: AnswerManifest, sha256: str, release: PublishedRelease) -> AddedSection:
    """What the spec of a version of `release` states of an answer.

    Args:
        manifest: of the answer.
        sha256: of its file.
        release: any version of the release.

    Raises:
        NoSumOfCellsError: the answer's numbers are no sums of the release's counts.
        InputError: it was asked of another dataset, ledger, geography or schema, under another framework, of other
            neighbours or persons, or it cannot be told apart from a query of the release.
    """
    _refuse_other_promise(manifest, release)
    try:
        sums = sums_of_answer(manifest, release)
    except NoSumOfCellsError as error:
        raise NoSumOfCellsError(
            f"{error}; a version is made with counts of areas of a level, by attributes and recodes of the schema"
        ) from None
    axes = {axis.attribute.name: axis for axis in sums.question.axes}
    schema = release.universes[0].schema
    distinguished = [axes[name] for name in schema.names if name in axes and axes[name].labels]
    beyond = [axes[name] for name in schema.names if name in axes and not axes[name].labels]
    level = release.universes[0].strategy.level(sums.level)
    if query_file_name(manifest.answer) in {query_file_name(one.query.name) for one in level.queries}:
        raise InputError(f"the answer {manifest.answer!r} is called like a query that the release has measured")
    (part,) = manifest.parts
    stated: dict[str, Any] = {
        "name": manifest.answer,
        "sha256": sha256,
        "question": manifest.question,
        "level": sums.level,
        "by": [
            [
                axis.term,
                {
                    "attribute": axis.attribute.name,
                    "groups": [
                        [label, _values(axis, axis.keep & (axis.group == n))] for n, label in enumerate(axis.labels)
                    ],
                },
            ]
            for axis in distinguished
        ],
        "where": [[axis.attribute.name, _values(axis, axis.keep)] for axis in beyond if not axis.keep.all()],
        "mechanism": part.mechanism,
        "scale": part.scale,
    }
    return AddedSection.model_validate(stated, context=PUBLIC)


def _refuse_other_promise(manifest: AnswerManifest, release: PublishedRelease) -> None:
    """Refuse an answer whose budget cannot be added to the release's."""
    universe, receipts = release.universes[0], release.manifest.receipts
    if not receipts:
        raise InputError("the release was charged to no ledger: nobody knows what it and answers cost together")
    compared = {
        "dataset": (manifest.dataset, universe.dataset),
        **promises(manifest, universe),
        "ledger": (
            ", ".join(sorted({one.ledger for one in manifest.receipts})),
            ", ".join(sorted({one.ledger for one in receipts if one.dataset == universe.dataset})),
        ),
    }
    for what, (own, theirs) in compared.items():
        if own != theirs:
            raise InputError(f"{what}: the answer has {own}, and the release {theirs} ({release.run.root})")
    if universe.bypass:
        raise InputError(
            "the release measures areas without siblings once (bypass): it can be combined with answers by "
            "`spinewise ask --release`, and not be made anew"
        )


def _values(axis: QuestionAxis, mask: BoolArray) -> list[str]:
    return [value for value, kept in zip(axis.attribute.values, mask, strict=True) if kept]


def refuse_drawn_twice(manifests: Sequence[AnswerManifest]) -> None:
    """Refuse an answer that is there already, under whatever name: the same noise says nothing more.

    Raises:
        InputError: two are one.
    """
    for number, one in enumerate(manifests):
        for other in manifests[:number]:
            same = (one.fingerprint, one.files.get(MEASUREMENTS)) == (other.fingerprint, other.files.get(MEASUREMENTS))
            charges = {(receipt.ledger, receipt.number) for receipt in one.receipts}
            if same or charges & {(receipt.ledger, receipt.number) for receipt in other.receipts}:
                raise InputError(f"{one.answer}: it is the answer {other.answer!r}, which is used already")


def promises(answer: AnswerManifest, release: Universe) -> dict[str, tuple[object, object]]:
    """Framework, neighbours and records of a person, of an answer and of a release's own universe, by name."""
    return {
        "framework": (answer.framework, release.framework),
        "neighbours": (answer.neighbours, release.neighbours),
        "records of a person": (answer.records_per_person, release.unit.records),
    }

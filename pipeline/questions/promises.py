"""What the promises of an answer and of a release have to have in common, so that their costs add up."""

from __future__ import annotations

from pipeline.model.universe import Universe
from pipeline.questions.manifest import AnswerManifest


def promises(answer: AnswerManifest, release: Universe) -> dict[str, tuple[object, object]]:
    """Framework, neighbours and records of a person, of an answer and of a release's own universe, by name."""
    return {
        "framework": (answer.framework, release.framework),
        "neighbours": (answer.neighbours, release.neighbours),
        "records of a person": (answer.records_per_person, release.unit.records),
    }

"""Whether the ends of amounts that questions chose were paid for where the release was: one ledger counts both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.privacy.ledger.events import ANSWER, Event
from pipeline.release.receipts import Receipt
from pipeline.spec.release_spec import ReleaseSpec

__all__ = ["chosen_elsewhere", "chosen_uncharged", "question_of"]

#: What ends the query of a charge for an answer, beside the question: see `pipeline.privacy.ledger.events`.
_OF_SEVERAL: Final = re.compile(
    r"( \(each by up to [0-9]+\))?( \([0-9]+ (records a person|numbers of a unit)\))?$", re.ASCII
)


def question_of(charged: Event) -> str:
    """The part and the question that a charge for an answer is of, such as "clip: clip wages among 1, 2"."""
    return _OF_SEVERAL.sub("", charged.query)


def chosen_elsewhere(spec: ReleaseSpec, receipts: Sequence[Receipt]) -> Iterator[str]:
    """Each end whose cost is in another ledger than the release's own, or in another dataset, by its receipts."""
    charged = {receipt.dataset: receipt.ledger for receipt in receipts}
    for name, section in spec.companions.items():
        if (chosen := section.chosen) is None or charged.get(chosen.dataset) == chosen.ledger:
            continue
        own = charged.get(chosen.dataset)
        found = f"the ledger {own[:12]}" if own is not None else f"no receipt for the dataset {chosen.dataset!r}"
        yield (
            f"companions.{name}.between: the answer {chosen.answer.name} that chose the upper end was charged to the "
            f"ledger {chosen.ledger[:12]}, the release has {found}; one ledger counts both"
        )


def chosen_uncharged(spec: ReleaseSpec, ledger: str, events: Sequence[Event]) -> Iterator[str]:
    """Each end that says it was charged to this ledger, which has no charge for its question."""
    asked = {
        (event.dataset, question_of(event).partition(": ")[2])
        for event in events
        if event.kind == "charge" and event.release.startswith(ANSWER)
    }
    for name, section in spec.companions.items():
        chosen = section.chosen
        if chosen is not None and chosen.ledger == ledger and (chosen.dataset, chosen.question) not in asked:
            yield (
                f"companions.{name}.between: the ledger has no charge to {chosen.dataset!r} for the question that "
                f"chose the upper end, {chosen.question!r}"
            )

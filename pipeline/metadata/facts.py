"""What every description of a release says first: whether it may be published, at what epsilon, and who says so."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.model.about import About
from pipeline.model.texts.message import marked
from pipeline.privacy.accounting.statement_models import Statement

#: Of the epsilon of a release that promises nothing in one number.
NOT_STATED = marked("not stated")


def release_facts(name: str, about: About, status: str, joint: Statement | None) -> dict[str, str]:
    """Status, epsilon, source, and the citation where one is stated, in this order.

    Args:
        name: of the release.
        about: what it says of itself.
        status: as the manifest states it.
        joint: the statement that the release's one epsilon is of; None where there is none.
    """
    source = [about.title or name, about.publisher, about.reference_date]
    found = {
        "status": status,
        "epsilon": NOT_STATED if joint is None else joint.epsilon,
        "source": ", ".join(part for part in source if part),
    }
    return found | ({"citation": about.citation} if about.citation else {})


def fact_lines(facts: Mapping[str, str]) -> str:
    """The facts as text, one a line."""
    return "".join(f"{key}: {text}\n" for key, text in facts.items())

"""What every description of a release says: whether it may be published, at what epsilon, by whom, on which terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.model.about import About
from pipeline.model.texts.message import marked
from pipeline.privacy.accounting.statement_models import Statement

#: SPDX identifier in small letters -> identifier, title, address.
_KNOWN = {
    name.lower(): (name, title, address)
    for name, title, address in (
        ("CC-BY-4.0", "Creative Commons Attribution 4.0", "https://creativecommons.org/licenses/by/4.0/"),
        ("CC-BY-SA-4.0", "Creative Commons Attribution Share-Alike 4.0",
         "https://creativecommons.org/licenses/by-sa/4.0/"),
        ("CC0-1.0", "Creative Commons Zero 1.0", "https://creativecommons.org/publicdomain/zero/1.0/"),
        ("ODC-BY-1.0", "Open Data Commons Attribution 1.0", "https://opendatacommons.org/licenses/by/1-0/"),
        ("ODbL-1.0", "Open Data Commons Open Database License 1.0", "https://opendatacommons.org/licenses/odbl/1-0/"),
        ("PDDL-1.0", "Open Data Commons Public Domain Dedication 1.0",
         "https://opendatacommons.org/licenses/pddl/1-0/"),
        ("OGL-UK-3.0", "Open Government Licence 3.0 (United Kingdom)",
         "https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/"),
        ("etalab-2.0", "Etalab Open Licence 2.0",
         "https://github.com/DISIC/politique-de-contribution-open-source/blob/master/LICENSE"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Licence:
    """Terms of use.

    Attributes:
        text: as the publisher states them.
        name: SPDX identifier, "" where the text is none that is known.
        title: for people.
        address: of the terms, "" where it is not known.
    """

    text: str
    name: str
    title: str
    address: str


def licence_of(text: str) -> Licence | None:
    """The terms that a text names; None for "".

    >>> licence_of("cc-by-4.0").address
    'https://creativecommons.org/licenses/by/4.0/'
    """
    if not text:
        return None
    name, title, address = _KNOWN.get(text.strip().lower(), ("", text, ""))
    return Licence(text, name, title, text if is_address(text) else address)


def is_address(text: str) -> bool:
    """Whether a text is an address of the web, and nothing else."""
    return text.startswith(("https://", "http://")) and " " not in text


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

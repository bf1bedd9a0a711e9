"""What the user states of the reading of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pipeline.errors import InputError

Form = Literal["microdata", "long", "wide"]


@dataclass(frozen=True)
class Asked:
    """What the user states about the reading: nothing, or some of it.

    Attributes:
        form: what a row is.
        count: the column of counts.
        counts: the columns of counts.
        people: how many people there are.
        tolerance: how far from that the number may be, in people.
    """

    form: Form | None = None
    count: str | None = None
    counts: tuple[str, ...] = ()
    people: int | None = None
    tolerance: int = 0

    def fits(self, people: int) -> bool:
        """Whether the user states that there are about so many people."""
        return self.people is not None and abs(people - self.people) <= self.tolerance


def parse_tolerance(text: str | None, people: int | None) -> int:
    """The people of `--tolerance 100` or `--tolerance 0.1%`.

    Raises:
        InputError: it is neither, or there is no --people.
    """
    if text is None:
        return 0
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)", text.strip())
    if match is None or people is None or (not match[2] and not match[1].isdigit()):
        raise InputError(
            f"--tolerance: found {text!r}; a number of people, or a percentage such as 0.1%, is needed beside --people"
        )
    return int(float(match[1]) / 100 * people) if match[2] else int(match[1])

"""Exact disclosures: numbers that a release publishes without noise, which no budget covers.

A dataset declares what may be exact (`Subject`); a run that discloses it (`Exact`) is recorded, and anything else is
refused. A name alone does not say what is disclosed: "total at county" is another set of numbers over other counties.
So each declaration stands for one meaning (`Exact.content`), which the first run that uses it fixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pipeline.errors import InputError

#: Answers published as they are; cells, or groups of cells for which there are facilities, that are stated as public;
#: public inputs that were made from the records.
Way = Literal["invariant", "zeros", "bounds", "inputs"]

#: A SHA-256 as text.
HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def inputs_of(universe: str, accepted: Iterable[str]) -> list[str]:
    """The public inputs of a universe among those of a release, which are called "companions.NAME.INPUT" there."""
    own = f"companions.{universe}." if universe else ""
    return [name for one in accepted if one.startswith(own) and "." not in (name := one.removeprefix(own))]


@dataclass(frozen=True, order=True)
class Subject:
    """What may be exact, as an operator declares it.

    Attributes:
        way: `invariant`; `zeros`, the structural zeros of a spec; `bounds`, the groups of cells that it bounds;
            `inputs`, a public input that was made from the records.
        level: of an invariant; "" otherwise.
        query: of an invariant; the bounds' name, or the input's; "" for zeros.
    """

    way: Way
    level: str = ""
    query: str = ""

    def __post_init__(self) -> None:
        named = {"invariant": (True, True), "zeros": (False, False)}.get(self.way, (False, True))
        if self.way not in get_args(Way) or named != (bool(self.level), bool(self.query)):
            raise ValueError(f"nothing exact is called {self.way!r}, {self.level!r}, {self.query!r}")

    @classmethod
    def parse(cls, text: str) -> Subject:
        """The subject of "LEVEL:QUERY", "bounds:NAME", "inputs:NAME" or "zeros".

        >>> Subject.parse("county: votingage*race")
        Subject(way='invariant', level='county', query='votingage * race')

        Raises:
            InputError: it is none of these.
        """
        level, colon, query = (part.strip() for part in text.partition(":"))
        if not colon and level == "zeros":
            return cls("zeros")
        if not level or not query:
            raise InputError(
                f"--exact: found {text!r}; allowed are LEVEL:QUERY for an invariant, zeros for structural zeros, "
                "bounds:NAME for the bounds of that name, and inputs:NAME for a public input made from the records"
            )
        if level == "bounds" or level == "inputs":
            return cls("bounds" if level == "bounds" else "inputs", "", query)
        return cls("invariant", level, " * ".join(term.strip() for term in query.split("*")))

    def __str__(self) -> str:
        """As `parse` reads it."""
        if self.way == "zeros":
            return "zeros"
        return f"{self.level or self.way}:{self.query}"


@dataclass(frozen=True, order=True)
class Exact:
    """An exact disclosure of a run.

    Attributes:
        subject: what it is called.
        universe: whose; "" is the release's own.
        content: SHA-256 in hexadecimal over all that says which numbers these are; nothing confidential.
        count: how many numbers, for the record.
    """

    subject: Subject
    universe: str
    content: str
    count: int

    def __post_init__(self) -> None:
        if not HEX.fullmatch(self.content):
            raise ValueError("the content of an exact disclosure is 64 hex digits")

    def __str__(self) -> str:
        return f"{self.subject}{' of ' + self.universe if self.universe else ''}"


def undeclared(declared: Sequence[Subject], before: Iterable[Exact], asked: Iterable[Exact]) -> list[Exact]:
    """Which of the disclosures asked for no declaration covers.

    Args:
        declared: each stands for one meaning; the same may be declared several times.
        before: what was disclosed of the dataset so far, which has used declarations up.
        asked: what a run is going to disclose.
    """
    used: dict[Subject, set[tuple[str, str]]] = {}
    for exact in before:
        used.setdefault(exact.subject, set()).add((exact.universe, exact.content))
    refused = []
    for exact in asked:
        meanings = used.setdefault(exact.subject, set())
        meaning = (exact.universe, exact.content)
        if meaning in meanings:
            continue
        if len(meanings) >= declared.count(exact.subject):
            refused.append(exact)
            continue
        meanings.add(meaning)
    return refused


def way_of(text: str) -> Way:
    """The text as a way; ValueError if it is none."""
    for way in get_args(Way):
        if text == way:
            return way
    raise ValueError(f"states the way {text!r}, which is none")

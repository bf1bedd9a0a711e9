"""Of each respondent one report: the one with the least number of a secret drawing, whatever the order of the rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import NamedTuple

from pipeline.errors import InputError

#: Bytes of the key of a drawing.
_LEAST_KEY, _MOST_KEY = 16, 64


class GoodReport(NamedTuple):
    """A report that could be used.

    Attributes:
        row: its number.
        sent: all that says what was sent, and from where: its area, its text, its cohort.
    """

    row: int
    sent: tuple[str, ...]


class OneOfEach:
    """Chooses one report of each respondent, all of that respondent's rows with the same chance.

    Each row gets a number, the hash, keyed with a secret, of who sent what, and of how many rows above say the same;
    the least number wins. So the choice is the same in whatever order and chunks rows are read, since rows that say the
    same are as good as each other. And it follows no report: with n rows of a respondent each is chosen with
    probability 1 / n. Were only different reports drawn from, a rare one would be chosen too often; and were the hash
    not secret, whoever computes it would know that the reports with lesser numbers had not been sent.
    """

    def __init__(self, key: bytes) -> None:
        """Draw with this secret.

        Raises:
            InputError: the key has fewer than 16 bytes or more than 64.
        """
        if not _LEAST_KEY <= len(key) <= _MOST_KEY:
            raise InputError(f"key: found {len(key)} bytes; {_LEAST_KEY} to {_MOST_KEY} are needed")
        self._key = key
        self._first: dict[str, GoodReport] = {}
        self._more: dict[str, list[GoodReport]] = {}

    def add(self, who: str, report: GoodReport) -> bool:
        """Whether this is the first row of the respondent; rows are given as they stand."""
        if who not in self._first:
            self._first[who] = report
            return True
        self._more.setdefault(who, []).append(report)
        return False

    def exchanged(self) -> list[tuple[GoodReport, GoodReport]]:
        """The first report of a respondent, and the one that is used in its place; of those for whom they differ."""
        pairs = ((self._first[who], self._drawn(who, [self._first[who], *more])) for who, more in self._more.items())
        return [(first, drawn) for first, drawn in pairs if first != drawn]

    def _drawn(self, who: str, reports: list[GoodReport]) -> GoodReport:
        alike: Counter[tuple[str, ...]] = Counter()
        numbers = []
        for report in reports:
            numbers.append((self._number(who, *report.sent, str(alike[report.sent])), report.sent))
            alike[report.sent] += 1
        return reports[numbers.index(min(numbers))]

    def _number(self, *parts: str) -> bytes:
        hashed = hashlib.blake2b(key=self._key, digest_size=32, person=b"spinewise one 1")
        for part in (text.encode() for text in parts):
            hashed.update(len(part).to_bytes(8, "big") + part)
        return hashed.digest()

"""RAPPOR: texts of an open list, in Bloom filters with a permanent and an instantaneous response."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from features.local.collect.bits import IntArray, RandomBytes, events, uniform_below
from features.local.collect.mechanism import LocalMechanism, RatioBound, check_probability, check_whole_number
from features.local.collect.reports import Decoded, Reports, read_bits, with_cohorts, write_bits
from pipeline.errors import InputError

#: States the hash; another one would need another name, since device and reader have to agree.
HASH = "spinewise bloom 1"


def positions(text: str, cohort: int, n_bits: int, n_hashes: int) -> tuple[int, ...]:
    """The bits that a text sets in a cohort: `n_hashes` different ones, ascending.

    SHA-256 of the name of the hash, the cohort, a counter and the text (UTF-8), apart by zero bytes, gives four numbers
    of 64 bits, big-endian; each is taken modulo `n_bits`, and the first `n_hashes` different ones are the positions.
    The remainder favours low positions by less than n_bits / 2^64. Since all filters have as many ones, the number of
    ones shows nothing, and two texts differ in 2 x n_hashes bits at most.
    """
    found: dict[int, None] = {}
    counter = 0
    while len(found) < n_hashes:
        message = b"\0".join((HASH.encode(), str(cohort).encode(), str(counter).encode(), text.encode()))
        digest = hashlib.sha256(message).digest()
        for start in range(0, 32, 8):
            if len(found) < n_hashes:
                found[int.from_bytes(digest[start : start + 8], "big") % n_bits] = None
        counter += 1
    return tuple(sorted(found))


@dataclass(frozen=True)
class Rappor(LocalMechanism):
    """A text sets `hashes` of `bits` bits; each bit is randomised twice.

    The permanent response of a bit is 1 with probability f/2, 0 with f/2, and the bit itself with 1 - f. It is drawn
    once for each text and never again. Each report has an instantaneous response of it: 1 with probability q where the
    permanent one is 1, and with p where it is 0. So a report has a 1 with probability
    q* = q (1 - f/2) + p f/2 where the text sets the bit, and p* = p (1 - f/2) + q f/2 elsewhere.

    Two texts differ in h bits of the one and h of the other, h = `hashes`, which gives the bounds
    for one report (q* (1 - p*) / (p* (1 - q*)))^h, and for ever ((1 - f/2) / (f/2))^(2h).
    Source: Erlingsson, Pihur and Korolova 2014, sections 2 and 3.

    A respondent belongs to one of the cohorts, at random and for ever; cohorts hash differently. The cohort is sent
    along and says nothing about the text. The first column of a report is its cohort, the others are its bits.

    Attributes:
        bits: of the filter, from 2 x hashes.
        hashes: bits that a text sets.
        cohorts: number of cohorts.
        f: from 0 (no permanent response, nothing is bounded for ever) to less than 1.
        p, q: from 0 to 1, p less than q.
    """

    name: ClassVar[str] = "rappor"

    bits: int
    hashes: int
    cohorts: int
    f: Fraction
    p: Fraction
    q: Fraction

    def __post_init__(self) -> None:
        check_whole_number("hashes", self.hashes, 1, 16)
        check_whole_number("bits", self.bits, 2 * self.hashes, 4096)
        check_whole_number("cohorts", self.cohorts, 1, 4096)
        for key in ("f", "p", "q"):
            check_probability(key, getattr(self, key), Fraction(0), Fraction(1), ends=True)
        if self.f == 1:
            raise InputError("f: found 1; less than 1 is needed, or reports say nothing")
        if not self.p < self.q:
            raise InputError(f"q: found {self.q}; more than p, which is {self.p}, is needed")
        if self.p_star == 0 or self.q_star == 1:
            raise InputError("f: found 0; more than 0 is needed where p is 0 or q is 1, or a report tells the truth")

    @property
    def q_star(self) -> Fraction:
        """Probability that a bit is 1 in a report if the text sets it."""
        return self.q * (1 - self.f / 2) + self.p * self.f / 2

    @property
    def p_star(self) -> Fraction:
        """Probability that a bit is 1 in a report if the text does not set it."""
        return self.p * (1 - self.f / 2) + self.q * self.f / 2

    @property
    def bound(self) -> RatioBound:
        """The bound of one report."""
        q, p = self.q_star, self.p_star
        return RatioBound((q * (1 - p) / (p * (1 - q))) ** self.hashes)

    @property
    def for_ever(self) -> RatioBound | None:
        """Of all reports on one text together: that of the permanent response; None if f is 0."""
        return RatioBound(((2 - self.f) / self.f) ** (2 * self.hashes)) if self.f else None

    @property
    def n_cohorts(self) -> int:
        """Number of cohorts."""
        return self.cohorts

    @property
    def report_length(self) -> int:
        """Hexadecimal digits of the bits; the cohort is sent beside them."""
        return -(-self.bits // 4)

    def filters(self, texts: Sequence[str]) -> IntArray:
        """(cohorts, n_texts, hashes): the positions of every text in every cohort."""
        each = [[positions(one, cohort, self.bits, self.hashes) for one in texts] for cohort in range(self.cohorts)]
        return np.array(each, dtype=np.int64).reshape(self.cohorts, len(texts), self.hashes)

    def randomise(self, values: Sequence[str], source: RandomBytes) -> Reports:
        """One report for each text, each of a new respondent: cohort, permanent and instantaneous response."""
        drawn = uniform_below(self.cohorts, len(values), source)
        return self.report(self.permanent(values, drawn, source), source)

    def permanent(self, values: Sequence[str], cohorts: IntArray, source: RandomBytes) -> Reports:
        """(n, 1 + bits): cohort and permanent response of each text.

        Args:
            values: n texts.
            cohorts: (n,) of the respondents.
            source: of random bytes; for a respondent who reports again, a keyed one.
        """
        reports = np.zeros((len(values), 1 + self.bits), dtype=np.uint16)
        reports[:, 0] = cohorts
        known: dict[tuple[str, int], tuple[int, ...]] = {}
        for row, key in enumerate(zip(values, cohorts.tolist(), strict=True)):
            if key not in known:
                known[key] = positions(key[0], key[1], self.bits, self.hashes)
            reports[row, [1 + place for place in known[key]]] = 1
        if self.f:
            reports[:, 1:] = events(reports[:, 1:] > 0, 1 - self.f / 2, self.f / 2, source)
        return reports

    def report(self, permanent: Reports, source: RandomBytes) -> Reports:
        """(n, 1 + bits): an instantaneous response of each permanent one."""
        bits = events(permanent[:, 1:] > 0, self.q, self.p, source)
        return np.hstack([permanent[:, :1], bits.astype(np.uint16)])

    def encode(self, reports: Reports) -> list[str]:
        """The bits, in hexadecimal digits; the cohort is `reports[:, 0]`."""
        return write_bits(reports[:, 1:])

    def decode(self, texts: Sequence[str], cohorts: Sequence[str] | None = None) -> Decoded:
        """Reports from texts and their cohorts.

        Raises:
            InputError: there are no cohorts, or not as many as texts.
        """
        if cohorts is None or len(cohorts) != len(texts):
            raise InputError("cohorts: rappor needs one for each report")
        return with_cohorts(read_bits(texts, self.bits), cohorts, self.cohorts)

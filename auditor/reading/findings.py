"""What the second program finds: the checks of everybody with their first few problems, and the lines of an audit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from auditor.reading.values import BoolArray


class FormError(Exception):
    """Something of a release, an answer or a ledger is missing, or cannot be understood; the text is for the user."""


@contextmanager
def understood(subject: str) -> Iterator[None]:
    """Whatever is missing or out of place in what somebody else wrote becomes a FormError about the subject."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FormError(f"{subject} cannot be understood: {reason}") from error


_EXACT: Final = re.compile(r"-?[0-9]{1,400}(/[0-9]{1,400})?", re.ASCII)


def exact(stated: object) -> Fraction:
    """A number of a spec, as releases write it; ValueError for another text: it could stand for one of any length."""
    if not _EXACT.fullmatch(str(stated)):
        raise ValueError(f"found {str(stated)[:40]!r}; a whole number or a fraction of two is needed")
    return Fraction(str(stated))


#: Problems of one check that are reported one by one.
SHOWN = 3


class Check:
    """One property of one file; it holds if no problem is added.

    Args:
        place: the file that is checked, as sentences name it.
        kind: what the problems are, in the plural.
    """

    def __init__(self, place: str, kind: str) -> None:
        self._place = place
        self._kind = kind
        self._sentences: list[str] = []
        self._count = 0

    def add(self, mask: BoolArray, sentence: Callable[[Any], str]) -> None:
        """Add the places where `mask` is true; `sentence(index)` is called for those that are shown.

        Args:
            mask: `(n,)` or `(n, m)`; the index of a place is a number or a tuple of numbers.
            sentence: from the index of a place to a sentence that describes the problem there.
        """
        count = int(np.count_nonzero(mask))
        if count and len(self._sentences) < SHOWN:
            places = zip(
                *(positions[: SHOWN - len(self._sentences)].tolist() for positions in np.nonzero(mask)), strict=True
            )
            self._sentences += [f"{self._place}: {sentence(at if len(at) > 1 else at[0])}" for at in places]
        self._count += count

    def fail(self, sentence: str) -> None:
        """Add one problem, as a whole sentence."""
        self._sentences.append(sentence)
        self._count += 1

    @property
    def sentences(self) -> list[str]:
        """A sentence for each problem that is shown, and one for all others."""
        if (more := self._count - len(self._sentences)) == 0:
            return self._sentences
        return [*self._sentences, f"{self._place}: and {more:,} more {self._kind}"]

    @property
    def told(self) -> list[str]:
        """The same in one sentence, without a number of what is checked."""
        return [f"{self._count:,} {self._kind}: {self._place}" if self._place else self._sentences[0]][: self._count]


class Findings:
    """All checks, in the order in which they began.

    Attributes:
        changed: a sentence for each file that is not the one that the manifest lists; whatever was found of it is not
            found of the release.
    """

    def __init__(self) -> None:
        self._checks: list[Check] = []
        self.changed: list[str] = []

    def check(self, place: str, kind: str) -> Check:
        """Begin a check; see `Check`."""
        self._checks.append(Check(place, kind))
        return self._checks[-1]

    @contextmanager
    def noting_errors(self) -> Iterator[None]:
        """An error that the block raises on purpose becomes a problem."""
        try:
            yield
        except FormError as error:
            self.check("", "").fail(str(error))

    @property
    def n_checks(self) -> int:
        """The number of checks made so far."""
        return len(self._checks)

    @property
    def problems(self) -> list[str]:
        """One sentence each; empty if every check holds."""
        return [sentence for check in self._checks for sentence in check.sentences]

    @property
    def told(self) -> list[str]:
        """What a finding may say of records: which checks do not hold, and of how many numbers."""
        return [sentence for check in self._checks for sentence in check.told]


def surplus(actual: int, required: int) -> str:
    """Such as "found 12, required 11, 1 too many"."""
    many = f"{actual - required:,} too many" if actual > required else f"{required - actual:,} too few"
    return f"found {actual:,}, required {required:,}, {many}"


#: Probability at which a test may reject what is right.
ALPHA: Final = 1e-6
_SHOWN: Final = 5


@dataclass(frozen=True)
class Found:
    """One thing that was checked.

    Attributes:
        check: what; `subject`: of what.
        value, limit: the number that decides, such as a p value, and what it was compared with; None if there is none.
        detail: what is wrong, or how far the check reaches.
    """

    check: str
    subject: str
    passed: bool
    value: float | None = None
    limit: float | None = None
    detail: str = ""


def holds(check: str, subject: str, problems: Iterable[str], *, well: str = "") -> Found:
    """A finding of something that holds or does not."""
    listed = list(problems)
    more = f"; and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return Found(check, subject, not listed, detail="; ".join(listed[:_SHOWN]) + more if listed else well)

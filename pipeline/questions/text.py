"""The text of a question: read word by word, checked for its form, and written in one canonical way.

    count by tract, sex where age >= 65 and race in "two or more", asian
    sum wages by county
    mean wages by county, sex
    median wages by county
    quantile 1/4 wages by county
    max wages by county
    clip wages among 20000, 40000, 60000, 80000 above 1/100
    most common 3 diagnosis by county
    count by tract, sex having count >= 50
    count units by county where diagnosis = asthma

What the words mean is looked up by `pipeline.questions.resolve`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from pipeline.errors import InputError
from pipeline.model.exact import parse_exact

#: What can be asked; True where it is of an amount or, the most common, of an attribute.
STATISTICS: Final = {
    "count": False, "count units": False, "sum": True, "mean": True, "median": True, "quantile": True,
    "max": True, "min": True, "most common": True,
    "clip": True,
}  # fmt: skip
_COUNTS: Final = ("count", "count units")
#: Of a quantile's fraction the denominator, and of the most common values how many.
LARGEST_DENOMINATOR: Final = 1000
#: Ends that a clip may be chosen among.
MOST_ENDS: Final = 100
#: Of an end: how far from 0, and the places after its decimal point; what is shown, stated and read again is the same.
LARGEST_END: Final = 10**15
END_PLACES: Final = 6
#: Records that may be wanted above it.
MOST_ABOVE: Final = 10**12
MOST_COMMON: Final = 1000
#: Characters of a question; the ledger records it, and finds it by an index.
LONGEST: Final = 500

_OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=", "in")
_TOKEN = re.compile(r"\s+|(?P<quoted>\"[^\"]*\"|'[^']*')|(?P<sign>[<>!]=|[=<>,])|(?P<bare>[^\s\"'<>=!,]+)")
_BARE = re.compile(r"[^\s\"'<>=!,]+")
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_FIRST_WORDS: Final = tuple(dict.fromkeys(name.split()[0] for name in STATISTICS))
#: No name is where these are read, and columns that are called so need no quotes, as ever.
_NOT_RESERVED: Final = frozenset({"max", "min", "clip"})
_RESERVED: Final = frozenset({"by", "where", "and", "in", "having", "common", *_FIRST_WORDS} - _NOT_RESERVED)


class QuestionError(InputError):
    """The question cannot be asked; the message names the word, its position, and what is allowed."""


@dataclass(frozen=True)
class Word:
    """One word of a question.

    Attributes:
        text: without its quotes.
        position: of its first character, from 1; 0 where it was not written by a user.
        quoted: whether it is in quotes, and so never a word of the language.
    """

    text: str
    position: int = 0
    quoted: bool = False

    def refused(self, what: str) -> QuestionError:
        """The error that this word makes."""
        place = f"question, character {self.position}" if self.position else "question"
        return QuestionError(f"{place}: found {self.text!r}; {what}")


@dataclass(frozen=True)
class Condition:
    """One comparison; the records for which all of a question's hold are counted.

    Attributes:
        name: of an attribute, a recode or an amount.
        operator: one of = != < <= > >= in.
        values: one, but for "in".
    """

    name: Word
    operator: str
    values: tuple[Word, ...]

    def __str__(self) -> str:
        return f"{_written(self.name)} {self.operator} {', '.join(map(_written, self.values))}"


@dataclass(frozen=True)
class Asked:
    """A question as it is written.

    Attributes:
        statistic: one of `STATISTICS`.
        amount: the column that the statistic is of, an amount or an attribute; None for a count.
        by: what the answer has one number for each of: names of a level, attributes or recodes.
        where: all must hold.
        number: of a quantile its fraction, of the most common values how many; of a clip the share of the records that
            at most are to be above it, below 1, or their number; else None.
        least: the least count of a group that is listed; None where all are.
        among: the ends that a clip is chosen among, rising.
    """

    statistic: str
    amount: Word | None = None
    by: tuple[Word, ...] = ()
    where: tuple[Condition, ...] = ()
    number: Fraction | None = None
    least: int | None = None
    among: tuple[Fraction, ...] = ()

    def __str__(self) -> str:
        """The canonical text; it reads as the same question again."""
        number = [] if self.number is None else [str(self.number)]
        ends = [f"among {', '.join(map(str, self.among))}"] if self.among else []
        if self.among and number:
            number, ends = [], [*ends, "above", *number]
        parts = [self.statistic, *number, *([] if self.amount is None else [_written(self.amount)]), *ends]
        if self.by:
            parts.append(f"by {', '.join(map(_written, self.by))}")
        if self.where:
            parts.append(f"where {' and '.join(map(str, self.where))}")
        if self.least is not None:
            parts.append(f"having count >= {self.least}")
        return " ".join(parts)


def parse(text: str) -> Asked:
    """The question that a text states.

    >>> str(parse("count  by tract,sex where age>=65"))
    'count by tract, sex where age >= 65'

    Raises:
        QuestionError: it is none; one sentence that names the first word that does not fit.
    """
    if len(text) > LONGEST:
        raise QuestionError(f"question: found {len(text):,} characters; at most {LONGEST:,} are allowed")
    asked = _Reader(_words(text), len(text) + 1).question()
    if (found := len(str(asked))) > LONGEST:
        raise QuestionError(f"question: found {found:,} characters with its blanks; at most {LONGEST:,} are allowed")
    return asked


def _written(word: Word) -> str:
    plain = _BARE.fullmatch(word.text) and word.text.lower() not in _RESERVED
    quote = "'" if '"' in word.text else '"'
    return word.text if plain else f"{quote}{word.text}{quote}"


def _words(text: str) -> list[Word]:
    words, start = [], 0
    while start < len(text):
        found = _TOKEN.match(text, start)
        if found is None:
            raise QuestionError(
                f"question, character {start + 1}: found {text[start]!r}; allowed are names, values, commas, the signs "
                "= != < <= > >=, and values in quotes, which must be closed"
            )
        if (quoted := found["quoted"]) is not None:
            words.append(Word(quoted[1:-1], start + 1, quoted=True))
        elif found[0].strip():
            words.append(Word(found[0], start + 1))
        start = found.end()
    return words


class _Reader:
    """Takes a question's words one after the other."""

    def __init__(self, words: Sequence[Word], end: int) -> None:
        self._words = list(words)
        self._end = end

    def question(self) -> Asked:
        *names, last = STATISTICS
        allowed = f"a question begins with {', '.join(names)} or {last}"
        first = self._next(allowed)
        if first.quoted or first.text not in _FIRST_WORDS:
            raise first.refused(allowed)
        statistic, number = self._statistic(first)
        what = f"the {'attribute' if statistic == 'most common' else 'amount'} to be taken the {statistic} of"
        amount = self._name(what) if STATISTICS[statistic] else None
        if statistic == "clip":
            return self._clip(amount)
        by = self._list("a level, an attribute or a recode") if self._take("by") else ()
        where = self._conditions() if self._take("where") else ()
        least = self._least() if statistic in _COUNTS and self._take("having") else None
        if self._words:
            raise self._words[0].refused(_what_follows(statistic, by=by, where=where, least=least))
        return Asked(statistic, amount, by, where, number, least)

    def _statistic(self, first: Word) -> tuple[str, Fraction | None]:
        """What is asked, and its number; one half of all is the median, whichever way it is written."""
        if first.text == "most":
            if not self._take("common"):
                raise first.refused('"common" must follow, as in: most common 3 diagnosis by county')
            return "most common", self._how_many()
        if first.text == "count" and self._take("units"):
            return "count units", None
        if first.text != "quantile":
            return first.text, None
        word = self._next("the fraction of the quantile is needed, such as 1/4 or 0.25")
        try:
            number = parse_exact(word.text)
        except ValueError:
            number = Fraction(0)
        if word.quoted or not 0 < number < 1 or number.denominator > LARGEST_DENOMINATOR:
            raise word.refused(
                "a quantile needs a fraction above 0 and below 1, with a denominator of at most "
                f"{LARGEST_DENOMINATOR}, such as 1/4 or 0.25"
            )
        return ("median", None) if number == Fraction(1, 2) else ("quantile", number)

    def _clip(self, amount: Word | None) -> Asked:
        """What follows the amount of a clip: the ends to choose among, how many may be above, and conditions."""
        word = self._next("among is needed, and then the ends to choose among")
        if word.quoted or word.text != "among":
            raise word.refused("among is needed here, as in: clip wages among 20000, 40000, 60000")
        words = self._list("an end, such as 20000")
        ends: list[Fraction] = []
        for word in words:
            end = _number(word)
            if end is None or (ends and end <= ends[-1]):
                raise word.refused(
                    "the ends to choose among are rising numbers without separators, such as 20000, 40000"
                )
            if abs(end) > LARGEST_END or (end * 10**END_PLACES).denominator != 1:
                raise word.refused(
                    f"an end to choose among is a decimal number from -{LARGEST_END} to {LARGEST_END}, with at most "
                    f"{END_PLACES} decimals"
                )
            ends.append(end)
        if not 2 <= len(ends) <= MOST_ENDS:
            raise words[0].refused(f"from 2 to {MOST_ENDS} ends can be chosen among")
        above = self._above() if self._take("above") else None
        where = self._conditions() if self._take("where") else ()
        if self._words:
            allowed = 'the end, "and"' if where else 'a comma in a list, "above", "where"'
            raise self._words[0].refused(f"allowed here are {allowed}, or the end; a clip is one for all records")
        return Asked("clip", amount, (), where, above, None, tuple(ends))

    def _above(self) -> Fraction:
        word = self._next("a share such as 1/100, or a number of records, is needed")
        number = _number(word) or Fraction(0)
        share = 0 < number < 1 and number.denominator <= LARGEST_DENOMINATOR
        if not share and not (number.denominator == 1 and 1 <= number <= MOST_ABOVE):
            raise word.refused(
                f"a share of the records below 1, with a denominator of at most {LARGEST_DENOMINATOR}, or a whole "
                "number of records is needed, that at most are to be above the clip"
            )
        return number

    def _how_many(self) -> Fraction:
        if not self._words or self._words[0].quoted or not _WHOLE.fullmatch(self._words[0].text):
            return Fraction(1)
        word = self._words.pop(0)
        if not 1 <= int(word.text) <= MOST_COMMON:
            raise word.refused(f"from 1 to {MOST_COMMON:,} of the most common values can be asked for")
        return Fraction(int(word.text))

    def _least(self) -> int:
        for needed in ("count", ">="):
            word = self._next('"having" is followed by count >= and a whole number')
            if word.quoted or word.text != needed:
                raise word.refused(f'{needed} is needed here: "having" is followed by count >= and a whole number')
        word = self._next("a whole number is needed")
        if word.quoted or not _WHOLE.fullmatch(word.text) or int(word.text) < 1:
            raise word.refused("a whole number above 0 is needed, of at most 15 digits")
        return int(word.text)

    def _conditions(self) -> tuple[Condition, ...]:
        conditions = [self._condition()]
        while self._take("and"):
            conditions.append(self._condition())
        return tuple(conditions)

    def _condition(self) -> Condition:
        name = self._name("an attribute, a recode or an amount to compare")
        operator = self._next(f"one of {' '.join(_OPERATORS)} is needed")
        if operator.quoted or operator.text not in _OPERATORS:
            raise operator.refused(f"allowed are {' '.join(_OPERATORS)}")
        values = self._list("a value") if operator.text == "in" else (self._name("a value"),)
        return Condition(name, operator.text, values)

    def _list(self, what: str) -> tuple[Word, ...]:
        words = [self._name(what)]
        while self._take(","):
            words.append(self._name(what))
        return tuple(words)

    def _name(self, what: str) -> Word:
        word = self._next(f"{what} is needed")
        if not word.quoted and (word.text in _RESERVED or not _BARE.fullmatch(word.text)):
            raise word.refused(f"{what} is needed here (in quotes, if it is called so)")
        if not word.text.strip():
            raise word.refused(f"{what} is needed, which is not empty")
        return word

    def _next(self, needed: str) -> Word:
        if not self._words:
            raise QuestionError(f"question, character {self._end}: found the end; {needed}")
        return self._words.pop(0)

    def _take(self, text: str) -> bool:
        if self._words and not self._words[0].quoted and self._words[0].text == text:
            self._words.pop(0)
            return True
        return False


def _what_follows(statistic: str, *, by: tuple[Word, ...], where: tuple[Condition, ...], least: int | None) -> str:
    """What could stand where a word does not fit."""
    if least is not None:
        return "the question ends with its least count"
    allowed = [] if by or where else ['"by"']
    allowed.append('"and" with a further condition' if where else '"where"')
    if statistic in _COUNTS:
        allowed.append('"having"')
    return f"allowed here are {', '.join(allowed)}, a comma in a list, or the end"


def _number(word: Word) -> Fraction | None:
    """The number that a word states; None where it is none, or in quotes."""
    try:
        return None if word.quoted else parse_exact(word.text)
    except ValueError:
        return None

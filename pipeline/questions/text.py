"""The text of a question: read word by word, checked for its form, and written in one canonical way.

    count by tract, sex where age >= 65 and race in "two or more", asian
    sum wages by county
    mean wages by county, sex

What the words mean is looked up by `pipeline.questions.resolve`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.errors import InputError

__all__ = ["LONGEST", "STATISTICS", "Asked", "Condition", "QuestionError", "Word", "parse"]

#: What can be asked; True where it is of an amount.
STATISTICS: Final = {"count": False, "sum": True, "mean": True}
#: Characters of a question; the ledger records it, and finds it by an index.
LONGEST: Final = 500

_OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=", "in")
_TOKEN = re.compile(r"\s+|(?P<quoted>\"[^\"]*\"|'[^']*')|(?P<sign>[<>!]=|[=<>,])|(?P<bare>[^\s\"'<>=!,]+)")
_BARE = re.compile(r"[^\s\"'<>=!,]+")
_RESERVED: Final = frozenset({"by", "where", "and", "in", *STATISTICS})


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
        amount: the column that is summed; None for a count.
        by: what the answer has one number for each of: names of a level, attributes or recodes.
        where: all must hold.
    """

    statistic: str
    amount: Word | None = None
    by: tuple[Word, ...] = ()
    where: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        """The canonical text; it reads as the same question again."""
        parts = [self.statistic, *([] if self.amount is None else [_written(self.amount)])]
        if self.by:
            parts.append(f"by {', '.join(map(_written, self.by))}")
        if self.where:
            parts.append(f"where {' and '.join(map(str, self.where))}")
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
        first = self._next("a question begins with " + _listed(tuple(STATISTICS)))
        if first.quoted or first.text not in STATISTICS:
            raise first.refused(f"a question begins with {_listed(tuple(STATISTICS))}")
        amount = self._name(f"the amount to be taken the {first.text} of") if STATISTICS[first.text] else None
        by: tuple[Word, ...] = ()
        where: tuple[Condition, ...] = ()
        if self._take("by"):
            by = self._list("a level, an attribute or a recode")
        if self._take("where"):
            where = self._conditions()
        if self._words:
            follows = '"by"' if not (by or where) else '"where"' if not where else '"and" with a further condition'
            further = "" if follows.startswith('"and"') else ', "where"' if follows == '"by"' else ""
            raise self._words[0].refused(f"allowed here are {follows}{further}, a comma in a list, or the end")
        return Asked(first.text, amount, by, where)

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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" or {names[-1]}"

"""How the numbers of a column are written: thousands separators, signs of footnotes, marks in place of a number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from features.imports.tables.profile import Column
from pipeline.errors import InputError

#: Thousands separators, as messages call them; every kind of space is one, and so is every apostrophe.
SEPARATORS = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
_SPACES = str.maketrans({**dict.fromkeys("\u00a0\u2009\u202f\u2007\u2008\u200a", " "), "\u2019": "'", "\u02bc": "'"})
#: What offices write where there is no number, in small letters: suppressed, not available, not applicable.
MARKS = frozenset(
    [
        "*",
        "**",
        "***",
        ".",
        "..",
        "...",
        "…",
        ":",
        ":c",
        ":u",
        ":n",
        "-",
        "--",
        "–",
        "—",
        "_",
        "/",
        "//",
        "#",
        "##",
        "c",
        "x",
        "z",
        "s",
        "f",
        "u",
        "w",
        "d",
        "n",
        "p",
        "q",
        "r",
        "na",
        "n/a",
        "n.a.",
        "n.d.",
        "nd",
        "n.v.",
        "k.a.",
        "#n/a",
        "#na",
        "null",
        "none",
        "nan",
        "nil",
        "nr",
        "n.r.",
        "(d)",
        "(s)",
        "(x)",
        "(na)",
        "(c)",
        "(z)",
        "d)",
        "[c]",
        "[x]",
        "[z]",
        "[u]",
        "[low]",
        "[s]",
        "s.",
        "ss",
        "c*",
        "(*)",
        "suppressed",
        "confidential",
        "geheim",
        "secret",
        "missing",
        "unknown",
        "?",
        "??",
        "†",
        "‡",
        "!",
    ]
)
#: A bound in place of a number: <5, under 10, 1-4.
_BOUND = re.compile(r"(?:[<≤>≥~]|<=|>=|under |unter |less than |fewer than )\s*[0-9]{1,4}")
#: A sign of a footnote, or the letters of a flag, behind a number.
FOOTNOTE = re.compile(
    r"(?<=[0-9])\s*(?:\(\s*[0-9]{1,2}\s*\)|\[[0-9a-z]{1,3}\]|[¹²³⁰⁴-⁹*†‡§#]+|(?:\s+[a-z]{1,3}))$", re.IGNORECASE
)
_PLAIN = re.compile(r"\+?([0-9]{1,15})(?:[.,]0*)?", re.ASCII)
_FRACTION = re.compile(r"[+-]?(?:[0-9]+[.,][0-9]+|[.,][0-9]+|[0-9]+(?:[.,][0-9]+)?[eE][+-]?[0-9]+)", re.ASCII)
_NEGATIVE = re.compile(r"[-−]\s?[0-9]{1,3}(?:[0-9]*|(?:[., '][0-9]{3})*)(?:[.,]0*)?", re.ASCII)
_ACCOUNTING = re.compile(r"\([0-9][0-9., ']*\)", re.ASCII)
_GROUPED = {
    separator: re.compile(
        rf"\+?([1-9][0-9]{{0,2}}(?:{re.escape(separator)}[0-9]{{3}})+)"
        rf"(?:[{re.escape('.,'.replace(separator, ''))}]0*)?",
        re.ASCII,
    )
    for separator in SEPARATORS
}

Kind = Literal["number", "mark", "percent", "fraction", "negative", "other"]


@dataclass(frozen=True)
class Cells:
    """The distinct texts of a column, each as what it is.

    Attributes:
        column: its name.
        thousands: the separator of thousands, "" where there is none.
        numbers: text -> whole number from 0 on.
        footnoted: texts that have a number and a sign of a footnote behind it.
        wrong: kind -> texts that are no whole numbers from 0 on; "" among the marks is an empty field.
        unsure: a text that may be a number in thousands or one with a fraction; "" where none is.
    """

    column: str
    thousands: str
    numbers: Mapping[str, int]
    footnoted: tuple[str, ...] = ()
    wrong: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)
    unsure: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        """The texts that stand in place of a number; "" is an empty field."""
        return self.wrong.get("mark", ())

    def is_plain(self, decimal: str) -> bool:
        """Whether a reader of whole numbers with this decimal mark reads every number as this does."""
        if self.thousands or self.footnoted:
            return False
        plain = re.compile(rf"[0-9]+(?:{re.escape(decimal)}0*)?", re.ASCII)
        return all(map(plain.fullmatch, self.numbers))

    def number(self, text: str) -> int | None:
        """The whole number that a text of this column states, if it is one."""
        kind, number = _parsed(text, self.thousands)
        return number if kind == "number" else None


def read_cells(column: Column, *, named: bool, thousands: str | None = None) -> Cells:
    """What the distinct texts of a column are.

    Args:
        column: as it was profiled.
        named: whether its name says that it holds counts: then numbers that are all grouped are so by thousands.
        thousands: the separator that the user states; recognised where it is None.
    """
    separator, unsure = (thousands, "") if thousands is not None else _separator(column.values, named=named)
    numbers: dict[str, int] = {}
    footnoted: list[str] = []
    wrong: dict[Kind, list[str]] = {}
    for text in column.values:
        kind, number = _parsed(text, separator)
        if kind == "number":
            numbers[text] = number
            if FOOTNOTE.search(_tidy(text)):
                footnoted.append(text)
        else:
            wrong.setdefault(kind, []).append(text)
    if column.n_missing:
        wrong.setdefault("mark", []).insert(0, "")
    texts = {kind: tuple(some) for kind, some in wrong.items()}
    return Cells(column.name, separator, numbers, tuple(footnoted), texts, unsure)


def _tidy(text: str) -> str:
    tidy = text.translate(_SPACES).strip()
    return tidy[1:] if tidy[:1] == "'" and tidy[1:2].isdigit() else tidy  # as spreadsheets mark a number that is text


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _separator(texts: Iterable[str], *, named: bool) -> tuple[str, str]:
    """The separator of thousands in a column, and a text that leaves it open.

    Two groups (1.234.567), spaces and apostrophes show it. So do numbers of which just those from 1,000 on are grouped.
    """
    bare = [FOOTNOTE.sub("", _tidy(text)) for text in texts]
    grouped = {separator: [text for text in bare if form.fullmatch(text)] for separator, form in _GROUPED.items()}
    found = {separator: some for separator, some in grouped.items() if some}
    if not found:
        return "", ""
    if len(found) > 1:
        return "", next(iter(next(iter(found.values()))))
    ((separator, some),) = found.items()
    if separator in " '" or any(text.count(separator) > 1 for text in some):
        return separator, ""
    rest = [text for text in bare if text not in set(some)]
    if any(_FRACTION.fullmatch(text) and separator in text for text in rest):
        return "", ""
    whole = [text for text in rest if _is_plain(text)]
    if any(len(text) > 3 for text in whole) or (not whole and not named):
        return "", some[0]
    return separator, ""


def _parsed(text: str, thousands: str) -> tuple[Kind, int]:
    """The kind of a text, and its number where it is one."""
    tidy = _tidy(text)
    if not tidy or tidy.lower() in MARKS or _BOUND.fullmatch(tidy.lower()):
        return "mark", 0
    bare = FOOTNOTE.sub("", tidy)
    if thousands and (match := _GROUPED[thousands].fullmatch(bare)):
        return "number", int(match[1].replace(thousands, ""))
    if match := _PLAIN.fullmatch(bare):
        return "number", int(match[1])
    if bare.endswith("%") or bare.startswith("%"):
        return "percent", 0
    if _NEGATIVE.fullmatch(bare) or _ACCOUNTING.fullmatch(bare):
        return "negative", 0
    if _FRACTION.fullmatch(bare) or any(form.fullmatch(bare) for form in _GROUPED.values()):
        return "fraction", 0
    return "other", 0


#: What --marks can say of a mark: nobody; not known, so that nobody is counted there; what the table's totals leave.
MEANINGS = ("0", "missing", "margins")


def parse_marks(text: str | None) -> dict[str, str]:
    """The marks of `--marks "*=missing,..=0"` and what they mean; `empty` is an empty field.

    Raises:
        InputError: the text is not of that form.
    """
    meanings: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        mark, _, meaning = part.rpartition("=")
        if not mark.strip() or meaning.strip() not in MEANINGS:
            raise InputError(
                f"--marks: found {part!r}; a mark with what it means is needed, such as *=0 (nobody), *=missing (not "
                "known: nobody is counted there) or *=margins (what the totals of the table leave for it); an empty "
                "field is empty=..."
            )
        meanings["" if mark.strip() == "empty" else mark.strip()] = meaning.strip()
    return meanings

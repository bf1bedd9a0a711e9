"""Public lists of values that have a name, such as five-year bands of age."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: The last age that is mapped.
OLDEST: Final = 130
_OPEN_AGE = re.compile(
    r"(?:over|>=|≥)?\s*([0-9]{1,3})\s*(?:years?|jahre|ans|anos|años|anni)?\s*"
    r"(?:\+|plus|and (?:over|older|above)|or (?:over|older|more)|und (?:älter|mehr)|et plus|y más|ou mais|e oltre)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class StockList:
    """Values, and the texts of files that stand for them.

    Attributes:
        values: in order.
        mapped: text of a file, folded -> value; a value stands for itself, too.
        open_from: ages from here on, such as "90+", are in the last value; None where these are no ages.
    """

    values: tuple[str, ...]
    mapped: Mapping[str, str]
    open_from: int | None = None


def _ages(firsts: Sequence[int]) -> StockList:
    """Bands that begin at these ages; the last one is open."""
    bounds = [*firsts, OLDEST + 1]
    labels = [str(low) if high == low + 1 else f"{low}-{high - 1}" for low, high in pairwise(firsts)]
    labels.append(f"{firsts[-1]}+")
    mapped = {
        str(age): label for label, (low, high) in zip(labels, pairwise(bounds), strict=True) for age in range(low, high)
    }
    return StockList(tuple(labels), mapped, firsts[-1])


def _sex() -> StockList:
    texts = {
        "female": ("female", "f", "w", "women", "woman", "weiblich", "femme", "mujer", "2"),
        "male": ("male", "m", "men", "man", "männlich", "homme", "hombre", "1"),
    }
    return StockList(tuple(texts), {text: value for value, some in texts.items() for text in some})


_LISTS: Final[Mapping[str, Callable[[], StockList]]] = {
    "ages single": lambda: _ages(range(101)),
    "ages five-year": lambda: _ages(range(0, 101, 5)),
    "ages ten-year": lambda: _ages(range(0, 101, 10)),
    "ages broad": lambda: _ages((0, 5, 18, 25, 45, 65, 85)),
    "ages voting": lambda: _ages((0, 18)),
    "sex": _sex,
}
#: Names of the lists, as a file of --schema gives them.
STOCK_LISTS: Final = tuple(_LISTS)


def stock_list(name: str) -> StockList | None:
    """The list of that name; codes of sex are those of ISO/IEC 5218, 1 male and 2 female."""
    return None if name not in _LISTS else _LISTS[name]()


def value_in_stock(text: str, stock: StockList) -> str | None:
    """The value that a text of a file stands for, None where the list does not have it."""
    if text in stock.values:
        return text
    if (value := stock.mapped.get(text.casefold())) is not None:
        return value
    age = _OPEN_AGE.fullmatch(text)
    if stock.open_from is not None and age is not None and int(age[1]) >= stock.open_from:
        return stock.mapped[str(stock.open_from)]
    return None

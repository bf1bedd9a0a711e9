"""The attributes of a wide schema, and sets of them, by number. No array has all of them as its axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from geography.errors import InputError

#: Numbers of attributes, each once, in ascending order.
Clique = tuple[int, ...]


@dataclass(frozen=True)
class Domain:
    """Attributes and how many values each has.

    Attributes:
        names: of the attributes.
        sizes: number of values of each.

    >>> domain = Domain(("age", "sex"), (3, 2))
    >>> domain.size((0, 1)), domain.text((0, 1))
    (6, 'age x sex')
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes) or len(set(self.names)) != len(self.names) or min(self.sizes) < 1:
            raise ValueError(f"a domain has attributes of different names with a value at least, got {self}")

    def clique(self, names: Sequence[str]) -> Clique:
        """The attributes of these names.

        Raises:
            InputError: a name is unknown or is there twice.
        """
        for name in names:
            if name not in self.names:
                raise InputError(f"cliques: found the attribute {name!r}; the schema has {', '.join(self.names)}")
        if len(set(names)) != len(names) or not names:
            raise InputError(f"cliques: found {list(names)}; a clique has attributes, each once")
        return tuple(sorted(self.names.index(name) for name in names))

    def named(self, attributes: Clique) -> tuple[str, ...]:
        """The names of attributes."""
        return tuple(self.names[attribute] for attribute in attributes)

    def shape(self, attributes: Clique) -> tuple[int, ...]:
        """Number of values of each."""
        return tuple(self.sizes[attribute] for attribute in attributes)

    def size(self, attributes: Iterable[int]) -> int:
        """Number of cells of their table; 1 without attributes."""
        return math.prod(self.sizes[attribute] for attribute in attributes)

    def text(self, attributes: Clique) -> str:
        """The attributes' names in messages; `total` without any."""
        return " x ".join(self.named(attributes)) or "total"

    def query(self, attributes: Clique) -> str:
        """The attributes' names as a query of a spec; `total` without any."""
        return " * ".join(self.named(attributes)) or "total"


def subsets(attributes: Clique) -> list[Clique]:
    """All sets of some of the attributes, small ones first."""
    return [chosen for size in range(len(attributes) + 1) for chosen in combinations(attributes, size)]

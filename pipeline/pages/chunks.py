"""The report's data: packed texts by number, in the page while they fit, else in files of their own beside it.

A file is a script, `report/NUMBER.js`, so that a page that was opened from a disk can load it, too. `decode.js` does so
when its number is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

#: Characters of all tables, names and outlines in the page.
LARGEST = 3_000_000

#: Writes the file of a number; its text is whole.
Write = Callable[[int, str], None]


def nowhere(number: int, text: str) -> None:
    """Writes nothing: for a page without what is beside it."""


@dataclass
class Chunks:
    """What is in the page, by number, and how much there is.

    Attributes:
        write: of what does not fit.
        in_page: number -> packed text.
        size: characters in the page that count for `LARGEST`.
        beside: how many are in files.
    """

    write: Write = nowhere
    in_page: dict[int, str] = field(default_factory=dict)
    size: int = 0
    beside: int = 0

    def fit(self, *texts: str) -> bool:
        """Whether the page has room for these."""
        return self.size + sum(map(len, texts)) <= LARGEST

    def add(self, text: str) -> int:
        """The number of a text: in the page if it fits, else in a file."""
        if not self.fit(text):
            return self.add_beside([text])
        self.size += len(text)
        return self.add_in_page(text)

    def add_in_page(self, text: str) -> int:
        """The number of a text that has a limit of its own."""
        number = self._next()
        self.in_page[number] = text
        return number

    def add_beside(self, texts: Iterable[str]) -> int:
        """The number of the first of some texts in files; those of the others follow."""
        first = self._next()
        for number, text in enumerate(texts, first):
            self.write(number, f'held({number},"{text}")\n')
            self.beside += 1
        return first

    def _next(self) -> int:
        return len(self.in_page) + self.beside

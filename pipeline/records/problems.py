"""Problems of the records: collected over the whole file, then reported in one message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.errors import RecordsError
from pipeline.model.memory_table import Source
from postprocess.arrays import IntArray

#: How many row numbers, and how many distinct values, a message shows.
SHOWN = 5
#: How many allowed values a message spells out.
ALLOWED_SHOWN = 12
#: Longest value that a message shows whole.
LONGEST = 60


def quote(value: str) -> str:
    """`value` in quotes, cut where it is too long to read."""
    return repr(value) if len(value) <= LONGEST else f"{value[:LONGEST]!r}... ({len(value):,} characters)"


def list_allowed(values: Sequence[str]) -> str:
    """The allowed values in quotes, with the middle left out where there are many."""
    if len(values) <= ALLOWED_SHOWN:
        return ", ".join(map(quote, values))
    head = ", ".join(map(quote, values[: ALLOWED_SHOWN - 2]))
    return f"{head}, ... {quote(values[-1])} ({len(values):,} values)"


def _and_more(items: Iterable[str], more: bool) -> str:
    return ", ".join(items) + (", ..." if more else "")


@dataclass
class Mistake:
    """One kind of mistake in one place of the file, in however many rows."""

    where: str
    what: str
    allowed: str
    n_rows: int = 0
    first_rows: list[int] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    more_found: bool = False

    def message(self, line_of_row: dict[int, int]) -> str:
        """One line of text; `line_of_row` is empty for files without lines."""
        more = self.n_rows > len(self.first_rows)
        rows = _and_more((f"{row:,}" for row in self.first_rows), more)
        place = f"row{'s' if self.n_rows > 1 else ''} {rows}"
        if lines := [f"{line_of_row[row]:,}" for row in self.first_rows if row in line_of_row]:
            place += f"; line{'s' if self.n_rows > 1 else ''} {_and_more(lines, more)}"
        text = f"{self.where}: {self.what} in {self.n_rows:,} row{'s' if self.n_rows > 1 else ''} ({place})"
        if self.found:
            text += f": found {_and_more(map(quote, self.found), self.more_found)}"
        return f"{text}; {self.allowed}"


class MistakeLog:
    """Collects the mistakes in one file; rows are numbered from 1, the header of a CSV file not counted.

    Args:
        file: the file, or the table in memory, that is read.
        find_lines: gives the line of each row that a message names, for files that have lines.
    """

    def __init__(self, file: Source, find_lines: Callable[[Sequence[int]], dict[int, int]] | None = None) -> None:
        self.file = file
        self._find_lines = find_lines
        self._mistakes: dict[tuple[str, str], Mistake] = {}

    def add(
        self,
        where: str,
        description: str,
        rows: IntArray,
        values: Iterable[str],
        allowed: str | Callable[[], str],
    ) -> None:
        """Note that `rows` (n,), numbered from 1 and increasing, have the mistake; nothing where there are none.

        Args:
            where: the place, such as `column 'race'`.
            description: the mistake, such as `a value outside the schema`.
            rows: the rows of this chunk.
            values: distinct values found there, in order of appearance; may be cut after SHOWN + 1.
            allowed: the end of the message; a function where it is costly to make.
        """
        if not rows.size:
            return
        mistake = self._mistakes.get((where, description))
        if mistake is None:
            mistake = Mistake(where, description, allowed if isinstance(allowed, str) else allowed())
            self._mistakes[where, description] = mistake
        mistake.n_rows += int(rows.size)
        mistake.first_rows += rows[: SHOWN - len(mistake.first_rows)].tolist()
        for value in values:
            if value in mistake.found:
                continue
            if len(mistake.found) == SHOWN:
                mistake.more_found = True
                break
            mistake.found.append(value)

    @property
    def mistakes(self) -> list[Mistake]:
        """What was noted, in order of first appearance."""
        return list(self._mistakes.values())

    def lines(self) -> dict[int, int]:
        """The line of each row that a mistake shows; empty for files without lines, and where there is no mistake."""
        if self._find_lines is None or not self._mistakes:
            return {}
        return self._find_lines([row for mistake in self.mistakes for row in mistake.first_rows])

    def raise_if_any(self) -> None:
        """Raise all mistakes that were noted as one error.

        Raises:
            RecordsError: a mistake was noted; the message lists all of them.
        """
        mistakes = self.mistakes
        if not mistakes:
            return
        line_of_row = self.lines()
        messages = [mistake.message(line_of_row) for mistake in mistakes]
        if len(messages) == 1:
            raise RecordsError(f"{self.file}, {messages[0]}")
        raise RecordsError(f"{self.file}: {len(messages)} problems\n" + "\n".join(f"  {text}" for text in messages))

"""Tables of results on the standard output."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table


def output_console(width: int = 140) -> Console:
    """The console on stdout, where text is shown as it is; at least so many columns where it is no terminal."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = max(console.width, width)
    return console


def table_of(texts: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    """A table without lines whose columns are texts, each on one line, and then numbers, to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in texts:
        table.add_column(title, no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="right")
    return table

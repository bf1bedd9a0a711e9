"""What `spinewise query` is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

#: Rows that are printed as text.
MOST_ROWS = 50


class Show(StrEnum):
    """What is shown of the numbers of a query."""

    counts = "counts"
    shares = "shares"
    median = "median"
    cumulative = "cumulative"
    ranks = "ranks"
    difference = "difference"
    means = "means"
    household_sizes = "household-sizes"


class Form(StrEnum):
    """How numbers are printed."""

    text = "text"
    csv = "csv"
    json = "json"
    markdown = "markdown"


@dataclass(frozen=True)
class QueryOptions:
    """What to query, and how to print it; see the options of the command."""

    question: str | None
    where: tuple[str, ...]
    at: str | None
    area: tuple[str, ...]
    areas: Path | None
    table: str | None
    show: Show
    form: Form
    tidy: bool = False

    @property
    def most(self) -> int:
        """The most rows that are printed."""
        return MOST_ROWS if self.form is Form.text else 10**9

    @property
    def is_text(self) -> bool:
        """Whether the output is for people; then numbers that are certain are marked."""
        return self.form in (Form.text, Form.markdown) and not self.tidy


def check(options: QueryOptions) -> None:
    """Refuse options that contradict each other."""
    from pipeline.errors import InputError

    question, table = options.question, options.table
    # --area picks from --areas
    given = (("--at", options.at), ("--area", options.area and not options.areas), ("--areas", options.areas))
    places = [name for name, value in given if value]
    if options.tidy and options.form is Form.text:
        raise InputError("--tidy: one row a number is for --format csv, json or markdown")
    if options.show is Show.household_sizes:
        _check_household_sizes(options, places)
        return
    if options.show is Show.means and table is None:
        raise InputError("--show means: those of a table as they were published; --table and --at are needed")
    as_published = table is not None and options.show in (Show.cumulative, Show.means)
    if question is None and options.show is not Show.counts and not as_published:
        raise InputError(f"--show {options.show}: a query is needed, such as a published attribute's name")
    if table is not None and question is not None:
        raise InputError(f"found the query {question!r} and --table {table}; one of the two is allowed")
    if table is not None and (options.at is None or options.where or options.area or options.areas):
        raise InputError(
            "--table shows a table as it was published: it requires --at LEVEL, and no other choice; for single areas "
            "leave --table out and name the attributes"
        )
    if question is None and table is None and (places or options.where):
        raise InputError(f"found {', '.join(places or ['--where'])} and no query; name one, or a table by --table")
    if question is not None and len(places) != 1:
        raise InputError(f"found {' and '.join(places) or 'no areas'}; one of --at, --area and --areas is needed")


def _check_household_sizes(options: QueryOptions, places: Sequence[str]) -> None:
    from pipeline.errors import InputError

    others = (
        ("a query", options.question),
        ("--table", options.table),
        ("--where", options.where),
    )
    if given := [name for name, value in others if value]:
        raise InputError(f"found --show household-sizes and {given[0]}; one of the two is allowed")
    if len(places) != 1:
        found = " and ".join(places) or "no areas"
        raise InputError(f"--show household-sizes: found {found}; one of --at, --area and --areas is needed")

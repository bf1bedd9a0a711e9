"""What `spinewise query` is asked for, and numbers of a release as text, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from pipeline.reading.reader import Reader


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


class OutputForm(StrEnum):
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
    form: OutputForm
    tidy: bool = False

    @property
    def most(self) -> int:
        """The most rows that are printed."""
        return MOST_ROWS if self.form is OutputForm.text else 10**9

    @property
    def is_text(self) -> bool:
        """Whether the output is for people; then numbers that are certain are marked."""
        return self.form in (OutputForm.text, OutputForm.markdown) and not self.tidy


def check(options: QueryOptions) -> None:
    """Refuse options that contradict each other."""
    from pipeline.errors import InputError

    question, table = options.question, options.table
    # --area picks from --areas
    given = (("--at", options.at), ("--area", options.area and not options.areas), ("--areas", options.areas))
    places = [name for name, value in given if value]
    if options.tidy and options.form is OutputForm.text:
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


#: Stand for as many decimals as an average, or a share, needs.
_AVERAGE, _SHARE = "average", "share"
#: Decimals of a percentage at most, as in the report.
_MOST_DECIMALS = 4
#: What stands in brackets.
_INTERVALS = "In brackets: 90 % intervals, nine in ten of which contain the true number"
_RANKS = "In brackets: the ranks that each may have, right for all of a column at once in 90 % of cases."


def show_derived(opened: Reader, numbers: pd.DataFrame, options: QueryOptions, compared: Sequence[str] = ()) -> None:
    """Print derived numbers, each with its interval in brackets; of a difference, `compared` are the two areas."""
    if not options.is_text:
        show_counts(opened, numbers, None, options)
        return
    if options.show is Show.difference:
        _show_difference(opened, numbers, options, compared)
        return
    from pipeline.release.tables import INTERVAL_SUFFIXES

    labels = [name for name in numbers.columns if not name.endswith(INTERVAL_SUFFIXES)]
    form = _SHARE if options.show is Show.shares else "{}" if options.show is Show.median else "{:,.0f}"
    if options.show is Show.median:
        titles = _titles(opened, options)
        numbers = numbers.map(lambda value: titles.get(value, value))
    forms = dict.fromkeys(labels, form) | ({"average": _AVERAGE} if options.show is Show.household_sizes else {})
    cells = [
        [_with_interval(forms[label], row, label) for label in labels]
        for _, row in numbers.head(options.most).iterrows()
    ]
    legend = _RANKS if options.show is Show.ranks else f"{_INTERVALS}."
    _print_table(opened, numbers, labels, cells, legend, options)


def larger_of(first: str, second: str, low: float, high: float) -> str:
    """Which of two areas is larger, by the ends of the interval of their difference; NaN where it is unknown."""
    return first if low > 0 else second if high < 0 else "equal" if low == high == 0 else "cannot tell"


def _show_difference(opened: Reader, numbers: pd.DataFrame, options: QueryOptions, areas: Sequence[str]) -> None:
    """Print the numbers of two areas, their difference with its interval, and which of the two is larger."""
    import pandas as pd

    from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX

    names = _names_of_codes(opened, areas) or [""] * len(areas)
    first, second = (name or area for name, area in zip(names, areas, strict=True))
    cells = []
    for _, row in numbers.head(options.most).iterrows():
        low, high = row["difference" + LOW_SUFFIX], row["difference" + HIGH_SUFFIX]
        difference = _with_interval("{:+,.0f}", row, "difference")
        larger = larger_of(first, second, *((math.nan, math.nan) if pd.isna(low) else (low, high)))
        cells.append([f"{row['first']:,.0f}", f"{row['second']:,.0f}", difference, larger])
    legend = f'{_INTERVALS}. "Cannot tell": the interval contains 0.'
    titled = numbers.rename(index=_titles(opened, options))
    _print_table(opened, titled, [first, second, "difference", "larger"], cells, legend, options)


def _a_number_a_line(
    heads: Sequence[str], areas: Sequence[Sequence[str]], labels: Sequence[str], cells: Sequence[Sequence[str]]
) -> Table:
    """The same for a narrow terminal: an area, and below it each label with its number; no digit is cut off."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(" ".join(heads), overflow="fold")
    table.add_column("number with its interval", justify="right", no_wrap=True)
    for area, line in zip(areas, cells, strict=False):
        if len(labels) == 1:
            table.add_row(" ".join(area), line[0])
            continue
        table.add_row(" ".join(area), "")
        for label, cell in zip(labels, line, strict=True):
            table.add_row(f"  {label}", cell)
    return table


def _print_table(
    opened: Reader,
    numbers: pd.DataFrame,
    labels: Sequence[str],
    cells: Sequence[Sequence[str]],
    legend: str,
    options: QueryOptions,
) -> None:
    """Print the first rows of numbers as a table, how many are left, what the intervals mean, and the status.

    Args:
        labels: of the columns after the areas, for each of which `cells` has one for each of the first areas.
    """
    from pipeline.execution.console import output_console, table_of

    names: list[str] = []
    if options.at is not None and options.at in opened.named_levels:
        names = opened.names(options.at).reindex(numbers.index).tolist()
    elif options.area and options.areas is None and numbers.index.name == "area":
        names = _names_of_codes(opened, [str(code) for code in numbers.index])
    titles = _titles(opened, options)
    heads = [str(numbers.index.name), *(["name"] if names else [])]
    areas = [[str(code), *names[number : number + 1]] for number, code in enumerate(numbers.index)]
    titled = [titles.get(label, label) for label in labels]
    below = [*_remarks(opened, options), legend]
    if (status := opened.manifest.status) != "official":
        below.append(status)
    if options.form is OutputForm.markdown:
        rows = [[*area, *line] for area, line in zip(areas, cells, strict=False)]
        right = [number >= len(heads) for number in range(len(heads) + len(titled))]
        typer.echo("\n".join([*_markdown([*heads, *titled], rows, right), "", *below]))
        return
    console, table = output_console(1000), table_of(heads)
    for label in titled:
        table.add_column(label, justify="right", no_wrap=True)
    for area, line in zip(areas, cells, strict=False):
        table.add_row(*area, *line)
    if console.measure(table, options=console.options.update(max_width=100_000)).maximum > console.width:
        table = _a_number_a_line(heads, areas, titled, cells)
    console.print(table)
    if len(numbers) > len(cells):
        console.print(f"and {len(numbers) - len(cells):,} more; --format csv prints all")
    for line in below:
        console.print(line)


def _remarks(opened: Reader, options: QueryOptions) -> list[str]:
    """What is said of the numbers, and of the microdata of the attributes that are shown or are conditions."""
    from pipeline.model.query import terms_of

    said = [] if options.show is Show.means else [opened.universe.measure.remark]
    if (together := opened.universe.together) is None or not opened.spec.publish.microdata:
        return list(filter(None, said))
    shown = [table.query.terms for table in opened.universe.tables if table.name == options.table]
    conditions = (text.partition("=")[0].strip() for text in options.where)
    terms = {*terms_of(options.question or "total"), *conditions, *(term for terms in shown for term in terms)}
    return list(filter(None, [*said, together.remark(terms)]))


def _names_of_codes(opened: Reader, asked: Sequence[str]) -> list[str]:
    """The names of areas that were asked for by their codes, "" for others; nothing where none has a name."""
    names = [""] * len(asked)
    for level in opened.named_levels:
        named = opened.names(level)
        names = [
            name or (str(named[code]) if code in named.index else "") for name, code in zip(names, asked, strict=True)
        ]
    return names if any(names) else []


def _with_interval(form: str, row: pd.Series[Any], label: str) -> str:
    """A number and its interval as text."""
    import pandas as pd

    from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX

    if form == _AVERAGE:
        from pipeline.release.tables import decimals_of

        if pd.isna(row[label]):
            return "no households"
        ends = [
            None if pd.isna(end) else float(end) for end in (row.get(label + LOW_SUFFIX), row.get(label + HIGH_SUFFIX))
        ]
        form = f"{{:.{decimals_of(*ends)}f}}"
    if form == _SHARE:
        form = f"{{:.{_decimals_of_share(row[label + HIGH_SUFFIX] - row[label + LOW_SUFFIX])}f}} %"
    if label + LOW_SUFFIX not in row:
        return form.format(row[label])
    value, low, high = (
        "unknown" if pd.isna(end) else form.format(end)
        for end in (row[label], row[label + LOW_SUFFIX], row[label + HIGH_SUFFIX])
    )
    return f"{value} ({low} to {high})"


def _decimals_of_share(width: float) -> int:
    """Decimals that show two digits of the width of an interval in percent, and one at least."""
    if not 0 < width < math.inf:
        return 1
    return min(_MOST_DECIMALS, max(1, 1 - math.floor(math.log10(width))))


def show_counts(opened: Reader, numbers: pd.DataFrame, exact: pd.DataFrame | None, options: QueryOptions) -> None:
    """Print counts with their intervals; those that are `exact` say so."""
    if not options.is_text:
        show_frame(opened, _one_a_row(opened, numbers, options) if options.tidy else numbers, options)
        return
    from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX, is_count

    labels = [name for name in numbers.columns if is_count(name)]
    certain = repeat((False,) * len(labels)) if exact is None else exact[labels].head(options.most).to_numpy().tolist()
    cells = [
        [
            _cell(row[label], (row.get(label + LOW_SUFFIX), row.get(label + HIGH_SUFFIX)), exact=is_certain)
            for label, is_certain in zip(labels, sure, strict=True)
        ]
        for (_, row), sure in zip(numbers.head(options.most).iterrows(), certain, strict=False)
    ]
    legend = f"{_INTERVALS}. Only numbers marked exact are certain."
    legend = next((table.note for table in opened.linked_tables if table.name == options.table), legend)
    _print_table(opened, numbers, labels, cells, legend, options)


def show_frame(opened: Reader, numbers: pd.DataFrame, options: QueryOptions) -> None:
    """Print all rows as a program or a page takes them, with the names of their areas."""
    frame = _with_names(opened, numbers, options)
    if frame.index.name in frame.columns:  # a value or an attribute is called like what the rows are of
        frame = frame.rename_axis(f"{frame.index.name} of the row")
    if options.form is OutputForm.csv:
        typer.echo(frame.to_csv(lineterminator="\n"), nl=False)
        return
    if options.form is OutputForm.json:
        typer.echo(frame.reset_index().to_json(orient="records", indent=2, force_ascii=False))
        return
    frame = frame.reset_index()
    rows = [[_plain(value) for value in row] for row in frame.astype(object).to_numpy().tolist()]
    typer.echo("\n".join(_markdown([str(name) for name in frame.columns], rows, numbers=(False,) * len(frame.columns))))


def _plain(value: Any) -> str:
    """A value of a frame as text: nothing where there is none, and no decimals of a whole number."""
    import pandas as pd

    if pd.isna(value):
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _one_a_row(opened: Reader, numbers: pd.DataFrame, options: QueryOptions) -> pd.DataFrame:
    """One row a number: what it is of, a column a term of the query where it has terms, its value, low and high."""
    import numpy as np
    import pandas as pd

    from pipeline.reading.release import AREA_NAME, TIDY_NUMBERS, tidy_heads
    from pipeline.release.tables import HIGH_SUFFIX, INTERVAL_SUFFIXES, LOW_SUFFIX

    labels = [name for name in numbers.columns if not name.endswith(INTERVAL_SUFFIXES)]
    if options.question is not None and options.show is Show.counts and len(labels) > 1:
        labels = labels[:-1]  # the sum, which the others add up to
    terms, parts = _said_of(opened, labels, options)

    def flat(suffix: str) -> list[object]:
        wanted = [numbers.get(label + suffix, pd.Series(np.nan, numbers.index)) for label in labels]
        return [value for row in zip(*wanted, strict=True) for value in row]

    others = (str(numbers.index.name), *([AREA_NAME] if options.at in opened.named_levels else []), *TIDY_NUMBERS)
    heads = tidy_heads(terms, others)
    columns: dict[str, list[object]] = {
        head: [*(part[place] for part in parts)] * len(numbers) for place, head in enumerate(heads)
    }
    columns |= dict(zip(TIDY_NUMBERS, (flat(""), flat(LOW_SUFFIX), flat(HIGH_SUFFIX)), strict=True))
    return pd.DataFrame(columns, index=numbers.index.repeat(len(labels)))


def _said_of(
    opened: Reader, labels: Sequence[str], options: QueryOptions
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """What numbers are of: terms, and of each label the value of each term.

    Labels have the terms in the schema's order, whatever the order in which they were asked for.
    """
    alone = [[label] for label in labels]
    if options.show is Show.difference:
        return ["figure"], alone
    if options.question is None:
        return ["number"], alone
    from pipeline.reading.release import Release

    query = Release(opened).query(options.question).query
    values = zip(*(query.labels_of(term).tolist() for term in query.terms), strict=True)
    of_label = dict(zip(query.answer_labels(), values, strict=False))
    if query.terms and all(label in of_label for label in labels):
        return query.terms, [of_label[label] for label in labels]
    # Cumulative numbers are "up to" a value, and "total" has no terms.
    return ["number"] if len(query.terms) > 1 else query.terms or [query.name], alone


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> list[str]:
    """The lines of a table in Markdown; columns of `numbers` are set to the right."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"

    return [line(heads), line(["---:" if right else "---" for right in numbers]), *map(line, rows)]


def _with_names(opened: Reader, numbers: pd.DataFrame, options: QueryOptions) -> pd.DataFrame:
    """The numbers with the names of their areas, where the level has some."""
    from pipeline.model.area_names import as_cell
    from pipeline.reading.release import AREA_NAME

    if options.at is None or options.at not in opened.named_levels:
        return numbers
    names = opened.names(options.at).reindex(numbers.index).tolist()
    column = AREA_NAME if options.tidy or AREA_NAME not in numbers else "area name"
    rest = numbers.drop(columns=AREA_NAME, errors="ignore") if options.tidy else numbers.copy()
    rest.insert(0, column, [as_cell(name) if options.form is OutputForm.csv else name for name in names])
    return rest


def _titles(opened: Reader, options: QueryOptions) -> dict[str, str]:
    """Column of the numbers -> its label for people."""
    if options.show is Show.household_sizes or options.table in [one.name for one in opened.linked_tables]:
        return {}
    if options.table is not None:
        query = next(table.query for table in opened.universe.tables if table.name == options.table)
    else:
        from pipeline.reading.release import Release

        query = Release(opened).query(str(options.question)).query
    titles = opened.labels.columns(query)
    return _cumulative(titles) if options.show is Show.cumulative else titles


def _cumulative(titles: Mapping[str, str]) -> dict[str, str]:
    """The same of columns in which one of the values is "up to" it."""
    found = {}
    for name, title in titles.items():
        names, words = name.split(" * "), title.split(" * ")
        for place in range(len(names) if len(names) == len(words) else 0):
            one, other = (
                " * ".join([*parts[:place], f"up to {parts[place]}", *parts[place + 1 :]]) for parts in (names, words)
            )
            found[one] = other
    return found


def _cell(count: float, ends: tuple[float | None, float | None], *, exact: bool) -> str:
    import pandas as pd

    low, high = ends
    if exact:
        return f"{count:,.0f} exact"
    if low is None or high is None:
        return f"{count:,.0f}"
    return f"{count:,.0f} (unknown)" if pd.isna(low) else f"{count:,.0f} ({low:,.0f} to {high:,.0f})"

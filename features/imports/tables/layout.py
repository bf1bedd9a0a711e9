"""Where a table stands on a sheet or in a text file: titles above it, its header of one or more rows, notes below."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from features.imports.tables.cells import FOOTNOTE, MARKS
from features.imports.tables.count_names import named_count
from pipeline.errors import InputError

#: Rows at the beginning, and at the end, that are looked at.
HEAD_ROWS, TAIL_ROWS = 300, 60
_MOST_HEADER_ROWS = 5
_DIGIT = re.compile(r"[+-]?[(<]?[0-9][0-9., '\u00a0\u2009\u202f]*[%)]?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NOTE = re.compile(
    r"^([_=\-–—]{3,}|\(?[0-9a-z]\)|\(?[0-9]{1,2}[.)]\s|[*†‡#©¹²³]|\(|-\s|source|note|footnote|quelle|fuente|fonte|bron|kilde|zdroj|"
    r"hinweis|anmerkung|nota|remarque|copyright|©|last updated|updated|stand:|extracted|generated|this table|data )",
    re.IGNORECASE,
)

_A_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
#: How spreadsheets call what a pivot table adds up, in its first cell: Sum of persons.
_CAPTION = re.compile(
    r"(sum|count|number|summe|anzahl|somme|nombre|suma|cuenta|recuento|somma|conteggio|som|aantal|summa|antal|soma|"
    r"contagem|liczba|součet|počet)\s(of|von|de|di|van|av|af|z|-)\s.*",
    re.IGNORECASE,
)

_IN_THOUSANDS = re.compile(
    r"\b(in|en|x) (1[ .,']?000s?|thousands?|tausend|millions?|milliers|miles|migliaia|duizend\w*|tusen\w*)\b|"
    r"(?<![0-9])'000s?|\b000s\b|^\(?(thousands?|tausend|tsd\.?|milliers|millions?)\)?$"
)

Row = Sequence[str]


@dataclass(frozen=True)
class Layout:
    """Which rows of a sheet are what; rows are numbered from 1, as a spreadsheet does.

    Attributes:
        names: of the columns.
        columns: the place of each on the sheet, from 0.
        header: the first and the last row of the header.
        first: row of the first record.
        last: row of the last record; None where the table goes to the end.
        upper: rows of the header above the last one, with merged cells carried on: one name for each column and row.
        messages: what lies around the table.
        units: a sentence on a title or a row of units that says that the numbers are in thousands; "" where none does.
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    header: tuple[int, int]
    first: int
    last: int | None = None
    messages: tuple[str, ...] = ()
    units: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether the table begins in the first row, has a header of one row, and goes to the end."""
        return self.header == (1, 1) and self.first == 2 and self.last is None

    def records(self, rows: Iterable[Row]) -> Iterator[tuple[int, list[str]]]:
        """Of all rows those that are records and not empty, each with its number."""
        for number, row in enumerate(rows, 1):
            if number < self.first:
                continue
            if self.last is not None and number > self.last:
                return
            cells = [row[i].strip() if i < len(row) else "" for i in self.columns]
            if any(cells):
                yield number, cells


def is_numberish(text: str) -> bool:
    """Whether a cell holds a number, or a mark in place of one."""
    tidy = text.strip()
    if not tidy:
        return False
    return _is_number(tidy) or tidy.lower() in MARKS


def _is_number(text: str) -> bool:
    return _DIGIT.fullmatch(FOOTNOTE.sub("", text)) is not None


def find_layout(
    head: Sequence[Row], tail: Sequence[tuple[int, Row]], place: str, header_rows: tuple[int, int] | None = None
) -> Layout:
    """The layout of a table by its first and its last rows.

    Args:
        head: the first rows.
        tail: the last rows with their numbers; they may be among the first.
        place: the file, for messages.
        header_rows: the rows of the header, where the user states them.

    Raises:
        InputError: no table is found, or two columns have one name.
    """
    filled = [sum(1 for cell in row if cell.strip()) for row in head]
    typical = median([n for n in filled if n >= 2] or [max(filled, default=0)])
    if not typical:
        raise InputError(f"{place}: no row below the names of the columns; at least one record is needed")
    if header_rows is None:
        start = _start(head, filled, typical)
        numeric = _numeric_columns(head[start + 1 :])
        end = _header_end(head, start, numeric)
    else:
        start, end = header_rows[0] - 1, header_rows[1] - 1
        if end >= len(head):
            raise InputError(f"{place}: --header-rows: found {end + 1}; the table has {len(head)} rows")
        numeric = _numeric_columns(head[end + 1 :])
    below = [i for i in range(end + 1, len(head)) if filled[i]]
    numbered = len(below) > 1 and _numbers_columns(head[below[0]])
    first = below[numbered] if below else None
    if first is None:
        raise InputError(f"{place}: no row below the names of the columns; at least one record is needed")
    last, notes = _end(tail, first + 1, typical, numeric, head[first:])
    width = max(len(row) for row in (*head[start : end + 1], *head[first:]))
    columns = [
        i
        for i in range(width)
        if any(_at(row, i) for row in head[start : end + 1]) or any(_at(row, i) for row in head[first:])
    ]
    names = _names(head[start : end + 1], columns, place)
    messages = []
    if titles := [row for row, n in zip(head[:start], filled, strict=False) if n]:
        messages.append(f"{len(titles)} {'row stands' if len(titles) == 1 else 'rows stand'} above the table's header")
    if end > start:
        messages.append(f"rows {start + 1} to {end + 1} are the header: names are joined by _")
    elif start:
        messages.append(f"row {start + 1} is the header")
    if numbered:
        messages.append(f"row {below[0] + 1} numbers the columns, and is left out")
    if notes:
        messages.append(f"{notes} {'row' if notes == 1 else 'rows'} of notes below the table are left out")
    units = _units(head[: end + 1])
    return Layout(tuple(names), tuple(columns), (start + 1, end + 1), first + 1, last, tuple(messages), units)


def _numbers_columns(row: Row) -> bool:
    """Whether a row numbers the columns: 1, 2, 3, ..., as the forms of some offices do below the header."""
    cells = [cell.strip().strip("()[]") for cell in row if cell.strip()]
    return len(cells) > 2 and cells == [str(number) for number in range(1, len(cells) + 1)]


def _units(rows: Sequence[Row]) -> str:
    """What a title or the header says of thousands, with its row; of names of columns alone the columns say it."""
    for number, row in enumerate(rows, 1):
        for cell in row:
            if _IN_THOUSANDS.search(cell.lower()):
                return f"row {number} says {cell.strip()!r}"
    return ""


def parse_header_rows(text: str | None) -> tuple[int, int] | None:
    """The rows of `--header-rows 5` or `5:6`.

    Raises:
        InputError: the text is neither.
    """
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,3})(?:[:-]([1-9][0-9]{0,3}))?", text.strip())
    rows = (int(match[1]), int(match[2] or match[1])) if match else (2, 1)
    if rows[0] > rows[1] or rows[1] - rows[0] >= _MOST_HEADER_ROWS:
        raise InputError(f"--header-rows: found {text!r}; a row, or the first and the last one, is needed: 5 or 5:6")
    return rows


def _at(row: Row, i: int) -> str:
    return row[i].strip() if i < len(row) else ""


def _blocks(filled: Sequence[int]) -> list[tuple[int, int]]:
    """Stretches of rows that are not empty, first and end."""
    blocks: list[tuple[int, int]] = []
    for i, n in enumerate(filled):
        if not n:
            continue
        if blocks and blocks[-1][1] == i:
            blocks[-1] = (blocks[-1][0], i + 1)
        else:
            blocks.append((i, i + 1))
    return blocks


def _start(head: Sequence[Row], filled: Sequence[int], typical: float) -> int:
    """The row in which the header begins."""
    blocks = _blocks(filled)
    number = max(range(len(blocks)), key=lambda i: (blocks[i][1] - blocks[i][0], -i))
    start, end = blocks[number]
    numeric = _numeric_columns(head[start + 1 : end])
    if number and numeric and all(is_numberish(_at(head[start], i)) for i in numeric):
        # An empty row may stand between header and records.
        before = blocks[number - 1][1] - 1
        if filled[before] >= typical - 1 and not any(is_numberish(_at(head[before], i)) for i in numeric):
            start = before
            while start > blocks[number - 1][0] and not _is_title(head, filled, start - 1, typical):
                start -= 1
            return start
    while start + 1 < end and _is_title(head, filled, start, typical):
        start += 1
    return start


def _is_title(head: Sequence[Row], filled: Sequence[int], i: int, typical: float) -> bool:
    """Whether a row before the records is a title: few cells, from the first on, and no header of several rows."""
    if filled[i] >= typical / 2 and filled[i] >= 2:
        return False
    if typical < 2:
        return False
    first = _at(head[i], 0)
    below = next((row for row, n in zip(head[i + 1 :], filled[i + 1 :], strict=False) if n), ())
    return bool(first) and (filled[i] == 1 or bool(_at(below, 0)))


def _numeric_columns(rows: Sequence[Row]) -> list[int]:
    """The columns of which most cells are numbers."""
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    rows = rows[len(rows) // 3 :]
    width = max((len(row) for row in rows), default=0)
    numeric = []
    for i in range(width):
        cells = [_at(row, i) for row in rows if _at(row, i)]
        if cells and sum(map(is_numberish, cells)) >= 0.6 * len(cells):
            numeric.append(i)
    return numeric


def _header_end(head: Sequence[Row], start: int, numeric: Sequence[int]) -> int:
    """The last row of the header that begins in row `start`."""
    end = start
    while end + 1 < min(len(head), start + _MOST_HEADER_ROWS):
        row = head[end + 1]
        width = max(len(row), len(head[start]))
        below = head[end + 2 :]
        if not any(cell.strip() for cell in row) or not below or not numeric:
            break
        names = [" ".join(parts) for parts in zip(*_carried(head[start : end + 1], width), strict=True)]
        used = [i for i in range(width) if any(_at(other, i) for other in (*head[start : end + 2], *below))]
        complete = all(_at(head[end], i) for i in used) and len({names[i] for i in used}) == len(used)
        labels = [i for i in used if i not in numeric]
        # A cell that is merged over several rows may be written in each of them.
        bare_labels = all(_at(row, i) in ("", _at(head[end], i)) for i in labels)
        filled = [_at(row, i) for i in numeric if i in used and _at(row, i)]
        # Letters such as F and M are names beside other names, and marks where there is nothing else.
        texts = not any(map(_is_number, filled)) and not all(map(is_numberish, filled))
        if (_holds_years(row, used) and (len(set(_filled(row))) == 1 or _holds_units(below[0], used))) or (
            (texts and (bare_labels or any(_unlike(row, below, i) for i in labels)))
            or (not all(_at(head[end], i) for i in numeric) and _names_all(row, used, numeric))
            or (
                not complete
                and bare_labels
                and labels
                and (all(_at(row, i) for i in numeric) or all(_at(row, i) for i in labels))
            )
        ):
            end += 1
        else:
            break
    return end


def _filled(row: Row) -> list[str]:
    return [cell.strip() for cell in row if cell.strip()]


def _holds_years(row: Row, used: Sequence[int]) -> bool:
    """Whether a row names no area, and says of which year each of several columns is."""
    return not _at(row, used[0]) and len(_filled(row)) > 1 and all(map(_A_YEAR.fullmatch, _filled(row)))


def _holds_units(row: Row, used: Sequence[int]) -> bool:
    """Whether a row names no area, and has texts in place of numbers: [person]."""
    return not _at(row, used[0]) and bool(_filled(row)) and not any(map(is_numberish, _filled(row)))


def _names_all(row: Row, used: Sequence[int], numeric: Sequence[int]) -> bool:
    """Whether each column has a name of its own in a row; letters such as F and M are names there, and no marks."""
    names = [_at(row, i) for i in used]
    texts = all(_at(row, i).isalpha() or not is_numberish(_at(row, i)) for i in numeric)
    return all(names) and len(set(names)) == len(names) and texts


def _unlike(row: Row, below: Sequence[Row], i: int) -> bool:
    """Whether a cell has a form that hardly any of those below it has, as the description of a code has."""
    shapes = [_shape(_at(other, i)) for other in below if _at(other, i)]
    return bool(shapes) and bool(_at(row, i)) and shapes.count(_shape(_at(row, i))) < 0.1 * len(shapes)


def _shape(text: str) -> str:
    """The form of a text: runs of letters and of digits as one sign each."""
    return re.sub(r"[^\W\d]+", "a", re.sub(r"[0-9]+", "9", text))


def _carried(rows: Sequence[Row], width: int) -> list[list[str]]:
    """Rows of a header; in all but the last, an empty cell has what stands to its left, as merged cells have.

    A cell is not carried beyond the end of the merged one above it.
    """
    carried: list[list[str]] = []
    for number, row in enumerate(rows):
        cells = [_at(row, i) for i in range(width)]
        if number < len(rows) - 1:
            for i in range(1, width):
                same_above = all(above[i] == above[i - 1] for above in carried)
                if not cells[i] and cells[i - 1] and same_above and any(_at(below, i) for below in rows[number + 1 :]):
                    cells[i] = cells[i - 1]
        carried.append(cells)
    return carried


def _names(rows: Sequence[Row], columns: Sequence[int], place: str) -> list[str]:
    """One name for each column."""
    carried = _without_caption(_carried(rows, max(columns) + 1))
    if len(carried) > 1:
        shown = [row for row in carried if not _says_nothing(row, columns, carried)]
        carried = shown or carried[:1]
    names = []
    for i in columns:
        parts = list(dict.fromkeys(" ".join(row[i].split()) for row in carried if row[i]))
        names.append("_".join(parts) or f"column_{i + 1}")
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise InputError(f"{place}: two columns are named {twice[0]!r}; name them apart")
    return names


def _without_caption(rows: list[list[str]]) -> list[list[str]]:
    """The rows of a header without what the first cell of a pivot table says of all its numbers: Sum of persons."""
    caption = rows[0][0]
    if len(rows) < 2 or not rows[-1][0] or not (_CAPTION.fullmatch(caption) or named_count(caption)):
        return rows
    end = next((i for i, cell in enumerate(rows[0]) if cell != caption), 0)
    return [["" if i < end and cell == caption else cell for i, cell in enumerate(row)] for row in rows]


def _says_nothing(row: Sequence[str], columns: Sequence[int], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a row of the header holds units only, where another names every column."""
    others = [other for other in rows if other is not row]
    full = any(all(other[i] for i in columns) and len({other[i] for i in columns}) == len(columns) for other in others)
    return full and len({row[i] for i in columns if row[i]}) <= 2


def _end(
    tail: Sequence[tuple[int, Row]], first: int, typical: float, numeric: Sequence[int], body: Sequence[Row]
) -> tuple[int | None, int]:
    """The row of the last record, None where no notes follow; and the number of rows of notes."""
    notes = 0
    last: int | None = None
    waiting = 0
    for number, row in reversed([item for item in tail if item[0] >= first]):
        cells = [cell.strip() for cell in row if cell.strip()]
        if not cells:
            if waiting:
                last, notes, waiting = number - 1, notes + waiting, 0
            continue
        if not _may_be_note(row, cells, typical, numeric):
            break
        if _is_note(cells[0], body):
            last, notes, waiting = number - 1, notes + waiting + 1, 0
        else:
            waiting += 1
    return last, notes


def _may_be_note(row: Row, cells: Sequence[str], typical: float, numeric: Sequence[int]) -> bool:
    if typical < 2 or len(cells) >= max(2, typical):
        return False
    if len(cells) == 2 and cells[0].lower() in MARKS and not is_numberish(cells[1]):
        return True  # a line of the legend: what a mark means
    if any(is_numberish(_at(row, i)) for i in numeric):
        return False
    return len(cells) == 1 or len(cells) <= typical / 2


def _is_note(text: str, body: Sequence[Row]) -> bool:
    """Whether the only text of a row is a note, and not an area without numbers."""
    if _NOTE.match(text) or len(text.split()) > 5 or text.endswith("."):
        return True
    return text.lower() in MARKS and not any(text == _at(row, 0) for row in body)

"""Run as a program: a sheet of a workbook as lines of JSON, in a process whose time and memory are limited.

Its arguments are the file, and the sheet or nothing. The first line lists the sheets, each other one is a row of texts.
Nothing of the project is imported, so that little is there besides the library.
"""

from __future__ import annotations

import datetime
import json
import resource
import sys

_SECONDS, _BYTES = 8, 450_000_000


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return str(value)


def main(path: str, sheet: str | None) -> None:
    """Write the rows to the standard output."""
    import python_calamine

    with open("/proc/self/statm", encoding="ascii") as file:
        here = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (here + _BYTES, here + _BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    try:
        book = python_calamine.load_workbook(path)
        print(json.dumps(book.sheet_names))
        if sheet is not None or len(book.sheet_names) == 1:
            rows = book.get_sheet_by_name(sheet or book.sheet_names[0])
            blank = [[""] * 1] * (rows.start[0] if rows.start else 0)
            for row in blank:
                print(json.dumps(row))
            for row in rows.iter_rows():
                print(json.dumps([_text(value) for value in row]))
    except MemoryError:
        sys.exit(9)
    except BaseException as error:  # the library's own errors have no common class
        print(f"{type(error).__name__}: {error}"[:300], file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)

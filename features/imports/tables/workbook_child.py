"""Run as a program: a sheet of a workbook as lines of JSON, in a process whose time and memory are limited.

Its arguments are the file, and the sheet or nothing. The first line lists the sheets, each other one is a row of texts.
Nothing of the project is imported, so that little is there besides the library.
"""

from __future__ import annotations

import datetime
import json
import resource
import sys
from pathlib import Path

#: Seconds of CPU, bytes of memory besides the library's own, and bytes that are written.
_SECONDS, _BYTES, _WRITTEN = 8, 450_000_000, 2_000_000_000


def _limit() -> None:
    here = 0
    if (own := Path("/proc/self/statm")).is_file():  # elsewhere the limit counts what the library itself takes
        here = int(own.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    for kind, most in (
        (resource.RLIMIT_AS, here + _BYTES),
        (resource.RLIMIT_CPU, _SECONDS),
        (resource.RLIMIT_FSIZE, _WRITTEN),
    ):
        resource.setrlimit(kind, (most, most))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return str(value)


def _write(row: list[str]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")


def main(path: str, sheet: str | None) -> int:
    """Write the rows to the standard output; the exit status is 3 for a file that is damaged, 9 for one too large."""
    import python_calamine

    _limit()
    try:
        book = python_calamine.load_workbook(path)
        _write(book.sheet_names)
        if sheet is not None or len(book.sheet_names) == 1:
            for row in book.get_sheet_by_name(sheet or book.sheet_names[0]).iter_rows():
                _write([_text(value) for value in row])
    except MemoryError:
        return 9
    except BaseException as error:  # the library's own errors, and its panics, have no class in common
        sys.stderr.write(f"{type(error).__name__}: {error}"[:300])
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))

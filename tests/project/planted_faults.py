"""Writes the table of planted faults into docs/testplan.md; run it with `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "testplan.md"
START, END = "<!-- planted faults -->\n\n", "\n\n<!-- end of planted faults -->"


def table() -> str:
    """Each fault, and what catches it."""
    from releases.mutant import COURTS
    from releases.mutants import PLANTED

    rows = [f"| planted fault | {' | '.join(COURTS)} |", "|---" * (len(COURTS) + 1) + "|"]
    for mutant in PLANTED:
        marks = " | ".join("caught" if court in mutant.caught_by else "" for court in COURTS)
        rows.append(f"| {mutant.name} | {marks} |")
    return "\n".join(rows)


def parts(page: str) -> tuple[str, str, str]:
    """The page before the table, the table, and the page after it."""
    before, _, rest = page.partition(START)
    shown, _, after = rest.partition(END)
    return before, shown, after


if __name__ == "__main__":
    sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]
    first, _, last = parts(PAGE.read_text("utf-8"))
    PAGE.write_text(f"{first}{START}{table()}{END}{last}", encoding="utf-8")

"""Writes the table of planted faults into docs/testplan.md; run it with `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "testplan.md"
START, END = "<!-- planted faults -->\n\n", "\n\n<!-- end of planted faults -->"


def table() -> str:
    """The faults by what catches them, those that the fewest programs catch first."""
    from releases.mutant import COURTS
    from releases.mutants import PLANTED

    faults: dict[tuple[str, ...], list[str]] = {}
    for mutant in PLANTED:
        caught_by = tuple(court for court in COURTS if court in mutant.caught_by)
        faults.setdefault(caught_by, []).append(mutant.name)
    rows = ["| caught by | planted faults |", "|---|---|"]
    for caught_by in sorted(faults, key=lambda one: (len(one), [COURTS.index(court) for court in one])):
        rows.append(f"| {', '.join(caught_by)} | {'; '.join(faults[caught_by])} |")
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

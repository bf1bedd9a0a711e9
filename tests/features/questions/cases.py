"""Small answers, and a release that is updated with some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matrix.case import KEY, Case, Command, Refusal, opened, run_of, write_key
from releases.asked import write_workers
from releases.updated import DETAILED, PUBLISH, QUESTIONS

#: A question of each statistic, with its budget.
_ASKED = (
    ("count by tract, sex, age where age in 18-64, 65+", "1/2"),
    ("sum wages by county", "1/4"),
    ("mean wages where sex = f", "1/4"),
    ("median wages by sex", "1/4"),
    ("max wages", "1/4"),
    ("clip wages among 20000, 40000, 60000 above 1/100", "1/4"),
)


def _charged(folder: Path) -> None:
    """Made-up workers, and a key that is always the same and no test key."""
    write_workers(folder / "in", PUBLISH, DETAILED)
    write_key(folder)


def _ask(questions: Sequence[tuple[str, str]]) -> list[Command]:
    more = ("--key", f"file:{KEY}", "--out", "answers")
    return [
        ("--quiet", "ask", "in/release.toml", text, "--rho", rho, "--name", f"q{number}", *more)
        for number, (text, rho) in enumerate(questions)
    ]


_USED = [word for number in range(len(QUESTIONS)) for word in ("--with", f"answers/q{number}")]
CASES: Final[Sequence[Case]] = (
    Case(
        "answers",
        _charged,
        (opened("workers", "9"), *_ask(_ASKED)),
        tuple(f"answers/q{number}" for number in range(len(_ASKED))),
        charged=True,
        full=True,
    ),
    Case(
        "updated",
        _charged,
        (
            opened("workers", "9"),
            run_of("in/release.toml", "out", "--key", f"file:{KEY}"),
            *_ask(QUESTIONS),
            ("--quiet", "update", "out/work", *_USED, "--out", "updated", "--workers", "1"),
        ),
        ("out/work", "updated/work"),
        charged=True,
    ),
)
REFUSALS: Final[Sequence[Refusal]] = ()

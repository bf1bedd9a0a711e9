"""Small answers to every kind of question, and a release that is updated with some."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matrix.case import KEY, Case, Command, Refusal, opened, run_of, write_key
from releases.asked import PURE, TOTAL, UNITS, write_workers
from releases.updated import DETAILED, PUBLISH, QUESTIONS, key_of

from auditor.keys import read_key
from auditor.ledger import read_ledger
from auditor.program import audit_with
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import verify_answer

#: A question of each statistic, with its budget.
_ASKED = (
    ("count by tract, sex, age where age in 18-64, 65+", "1/2"),
    ("sum wages by county", "1/4"),
    ("mean wages where sex = f", "1/4"),
    ("median wages by sex", "1/4"),
    ("max wages", "1/4"),
    ("clip wages among 20000, 40000, 60000 above 1/100", "1/4"),
)
_UNDER_EPSILON = (
    "count by tract, sex where age >= 18",
    "sum wages by county",
    "mean wages by county",
    "median wages by sex",
    "max wages by sex",
    "most common 2 age by county",
    "clip wages among 20000, 40000, 60000 above 1/10",
)
#: Of people with several records; and where the ends of wages are those of a person's total.
_OF_UNITS = (
    "count by county having count >= 9",
    "count units by tract",
    "count units by county, records_per_unit where age != 0-17",
    "sum wages by county",
    "quantile 1/4 wages where wages < 40000",
    "min wages by sex",
    "most common 2 age by county",
    "clip wages among 20000, 40000 where sex in f",
)
_OF_TOTALS = ("sum wages by county", "mean wages by sex")


def _charged(folder: Path) -> None:
    """Made-up workers, and a key that is always the same and no test key."""
    write_workers(folder / "in", PUBLISH, DETAILED)
    write_key(folder)


def _under_epsilon(folder: Path) -> None:
    write_workers(folder / "pure", PURE, n=100)
    write_key(folder)


def _of_units(folder: Path) -> None:
    write_workers(folder / "in", UNITS, n=100)
    write_workers(folder / "totals", UNITS, TOTAL, n=100)
    for number in range(len(_OF_UNITS)):
        key_of(folder, number)  # units and records read otherwise are under another key
    write_key(folder)


def _ask(questions: Sequence[tuple[str, str]], spec: str = "in", name: str = "q", key: str = KEY) -> list[Command]:
    """`key` may have the number of the question in it."""
    words = ("--quiet", "ask", f"{spec}/release.toml", "--out", "answers", "--epsilon" if spec == "pure" else "--rho")
    return [
        (*words, budget, text, "--name", f"{name}{number}", "--key", f"file:{key.format(number)}")
        for number, (text, budget) in enumerate(questions)
    ]


def _answers(n: int, name: str = "q") -> tuple[str, ...]:
    return tuple(f"answers/{name}{number}" for number in range(n))


def _each_is_sound(folder: Path) -> None:
    """Not the last one alone: verified, and drawn again by the second program; what is kept is for its owner only."""
    ledger = read_ledger(str(folder / "ledger.sqlite"))
    for root in sorted((folder / "answers").iterdir()):
        own = folder / root.name.replace("q", "key-")
        secret, _ = read_key(own if own.exists() else folder / KEY)
        assert verify_answer(RunDirectory(root)) == [], root.name
        # As for a test key, else a search for weak keys takes most of the time.
        found = list(audit_with(root, secret, True, ledger))
        assert len(found) > 5
        assert [one for one in found if not one.passed] == [], root.name
        assert stat.S_IMODE((root / "restricted").stat().st_mode) == 0o700
        kept = [path for path in (root / "restricted").glob("*.*") if path.is_file()]
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept} == {path.name: 0o600 for path in kept}
        assert {"question.json", "areas.parquet", "counts.parquet", "run.json"} <= {path.name for path in kept}


_USED = [word for number in range(len(QUESTIONS)) for word in ("--with", f"answers/q{number}")]
CASES: Final[Sequence[Case]] = (
    Case(
        "answers",
        _charged,
        (opened("workers", "9"), *_ask(_ASKED)),
        _answers(len(_ASKED)),
        _each_is_sound,
        charged=True,
        full=True,
        without={"killed again and again": "an answer is made in one step"},
    ),
    Case(
        "answers_pure",
        _under_epsilon,
        (
            ("ledger", "open", "workers", "--epsilon", "99", "--population", "made up"),
            *_ask([(text, "4") for text in _UNDER_EPSILON], "pure"),
        ),
        _answers(len(_UNDER_EPSILON)),
        _each_is_sound,
        charged=True,
    ),
    Case(
        "answers_units",
        _of_units,
        (
            (*opened("workers", "9"), "--unit", "worker"),
            *_ask([(text, "1/4") for text in _OF_UNITS], key="key-{}"),
            *_ask([(text, "1/4") for text in _OF_TOTALS], "totals", "total"),
        ),
        (*_answers(len(_OF_UNITS)), *_answers(len(_OF_TOTALS), "total")),
        _each_is_sound,
        charged=True,
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
        without={"second program": "is a version of noise drawn before"},
    ),
)
#: They are in this folder's tests, in-process: a row here would ask all questions of its case before.
REFUSALS: Final[Sequence[Refusal]] = ()

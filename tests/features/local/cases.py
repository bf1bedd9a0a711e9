"""Small releases of reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from matrix.case import KEY, Case, Refusal, opened, run_of, write_key
from releases.mixed import write_mixed
from releases.survey import write_survey
from releases.survey_of_words import write_words


def _survey(name: str, write: Callable[[Path], object], *, full: bool = False) -> Case:
    """A release from reports, whose key is always the same."""

    def written(folder: Path) -> None:
        write(folder)
        write_key(folder)

    return Case(name, written, (run_of("survey.toml", "out", "--key", f"file:{KEY}"),), ("out/survey",), full=full)


def _mixed(folder: Path) -> None:
    (folder / "in").mkdir()
    write_mixed(folder / "in", dataset="people")
    write_key(folder)


CASES: Final[Sequence[Case]] = (
    _survey("survey", lambda folder: write_survey(folder, "direct_encoding", 4, "1"), full=True),
    _survey("unary", lambda folder: write_survey(folder, "unary_encoding", 5, "1")),
    # Its rare words that are not listed move no count: intervals are those of the listed words alone.
    _survey("words", lambda folder: write_words(folder, seed=2)),
    Case(
        "mixed",
        _mixed,
        (
            opened("people", "1"),
            run_of("in/register/register.toml", "in/register/out", "--key", f"file:{KEY}"),
            run_of("in/survey.toml", "out", "--key", f"file:{KEY}"),
        ),
        ("in/register/out/register", "out/survey"),
        charged=True,
    ),
)
REFUSALS: Final[Sequence[Refusal]] = ()

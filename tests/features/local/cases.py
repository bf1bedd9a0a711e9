"""Small releases of reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pandas as pd
from matrix.case import KEY, Case, Refusal, opened, run_of, write_key
from releases.mixed import write_mixed
from releases.survey import Survey, write_survey, write_words

from features.local.survey import survey_of
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec

#: No noise of ours is in the counts of reports, so that there is none to be drawn again.
_DRAWN_ELSEWHERE: Final = {
    "second program": "no noise was added here",
    "audit": "no noise was drawn here that could be audited",
    "export --format nmf": "has no noisy counts, but totals of reports",
}


def _survey(name: str, write: Callable[[Path], Survey], *, full: bool = False) -> Case:
    """A release from reports, whose key is always the same."""

    def written(folder: Path) -> None:
        write(folder)
        write_key(folder)

    def expect(folder: Path) -> None:
        with TemporaryDirectory() as place:
            _expect(RunDirectory(folder / "out" / "survey"), write(Path(place) / "again"))

    run = run_of("survey.toml", "out", "--key", f"file:{KEY}")
    return Case(name, written, (run,), ("out/survey",), expect, full=full, without=_DRAWN_ELSEWHERE)


def _expect(released: RunDirectory, survey: Survey) -> None:
    """Counts are whole and those of each area's reports; intervals hold the truth.

    Leaves are nearer to the truth than reports debiased alone, and no level is farther from it.
    """
    (universe,) = load_spec(survey.spec).universes()
    names = list(universe.schema.attributes[0].values)
    reports = survey.truth.sum(axis=1)
    tables = {level: pd.read_parquet(released.main.table("answer", level)) for level in ("block", "tract", "county")}
    counts = {level: table[names].to_numpy() for level, table in tables.items()}
    assert tables["block"].geocode.tolist() == survey.blocks.tolist()
    assert counts["block"].dtype == np.int64
    assert (counts["block"] >= 0).all()
    assert np.array_equal(counts["block"].sum(axis=1), reports)
    assert np.array_equal(counts["block"].reshape(6, 12, -1).sum(axis=1), counts["tract"])
    low, high = (tables["block"][[name + end for name in names]].to_numpy() for end in (":low90", ":high90"))
    assert 0.85 < ((low <= survey.truth) & (survey.truth <= high)).mean() < 0.98
    assert (low[0].tolist(), high[0].tolist()) == ([0] * len(names), [0] * len(names))  # nobody was asked there
    totals = np.stack(pd.read_parquet(released.main.measurement("block", "answer")).value.to_list())
    alone = survey_of(universe).collected.debiased(totals, reports)
    for level, blocks, most in (("block", 1, 0.85), ("tract", 12, 1.0), ("county", 36, 1.0)):
        truth, debiased = (x.reshape(-1, blocks, len(names)).sum(axis=1) for x in (survey.truth, alone))
        errors = [float(((x - truth) ** 2).mean()) for x in (counts[level], debiased)]
        assert errors[0] <= 1.01 * most * errors[1] + 1 / 12, level  # the last is of rounding


def _mixed(folder: Path) -> None:
    write_mixed(folder / "in", dataset="people")
    write_key(folder)


def _expect_mixed(folder: Path) -> None:
    with TemporaryDirectory() as place:
        _expect(RunDirectory(folder / "out" / "survey"), write_mixed(Path(place) / "again").survey)


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
        _expect_mixed,
        charged=True,
        without=_DRAWN_ELSEWHERE,
    ),
)


REFUSALS: Final[Sequence[Refusal]] = (
    Refusal("survey", ("direct_encoding", "rapor"), ("collect.mechanism", "'rapor'", "rappor")),
    Refusal("survey", ('"local"', '"local"\ndataset = "d"'), ("privacy.dataset", "local")),
)

"""Reports that cannot be used are found, with row and reason, and never used; the message names no respondent."""

from __future__ import annotations

import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.survey_of_words import rappor

from features.local.collect.listed import ListedMechanism
from features.local.collect.respondent import mechanism_of
from features.local.collected import CollectedAnswers, CollectedWords
from features.local.confidential import count_reports
from features.local.survey import survey_of
from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.errors import RecordsError
from pipeline.inputs.geography import read_spine
from pipeline.model.record_source import RecordSource
from pipeline.spec.release_spec import load_spec

KEY = bytes(range(32))
ROWS = [
    ("A1", "03", "id-ann"),
    ("A1", "11", "id-ben"),
    ("A2", "3", "id-cem"),  # wrong length
    ("A2", "0x", "id-dot"),  # wrong character
    ("A2", "12", "id-eve"),  # not one of twelve
    ("Z9", "03", "id-fay"),  # nowhere
    ("A1", "03", "id-ann"),  # again
    ("A1", "00", ""),  # nobody
    ("A2", "07", "id-cem"),  # the first of hers that can be used
    ("", "07", "id-gus"),
]


@pytest.fixture
def spine() -> Spine:
    """Three blocks of a county."""
    return spine_from_prefixes(np.array(["A1", "A2", "A3"]), {"county": 1, "block": 2})


@pytest.fixture
def twelve() -> CollectedAnswers:
    """One of twelve values."""
    mechanism = mechanism_of("direct_encoding", {"values": "12", "epsilon": "1"})
    assert isinstance(mechanism, ListedMechanism)
    return CollectedAnswers(mechanism)


def written(path: Path) -> RecordSource:
    pd.DataFrame(ROWS, columns=["block", "report", "who"]).to_csv(path, index=False)
    return RecordSource(path, "reports", "block", columns={"respondent": "who"}, bad_reports="refuse")


def test_only_good_reports_are_counted(tmp_path: Path, spine: Spine, twelve: CollectedAnswers) -> None:
    found = count_reports(written(tmp_path / "r.csv"), twelve, spine, KEY)
    expected = np.zeros((3, 12), dtype=np.int64)
    expected[0, 3] = expected[0, 11] = expected[1, 7] = 1
    assert np.array_equal(found.totals, expected)
    assert found.reports.tolist() == [2, 1, 0]
    assert found.unused == {
        "geocode that is not a leaf": 2,
        "wrong length": 1,
        "wrong character": 1,
        "not a report of the mechanism": 1,
        "missing respondent": 1,
        "second report of a respondent": 1,
    }
    assert found.reports.sum() + sum(found.unused.values()) == len(ROWS)


def test_a_refusal_names_rows_and_what_is_allowed_and_no_respondent(
    tmp_path: Path, spine: Spine, twelve: CollectedAnswers
) -> None:
    with pytest.raises(RecordsError) as refused:
        count_reports(written(tmp_path / "r.csv"), twelve, spine, KEY).log.raise_if_any()
    message = str(refused.value)
    for part in (
        "column 'report': a report of the wrong length in 1 row (row 3; line 4): found '3'; a report of",
        "a respondent with a report above in 1 row (row 7; line 8); one report of each respondent is",
        "a missing respondent in 1 row (row 8; line 9)",
        "a geocode that is not a leaf of the spine in 1 row (row 6; line 7): found 'Z9'",
    ):
        assert part in message
    assert not any(who in message for *_, who in ROWS if who)


def test_without_respondents_every_good_report_counts(tmp_path: Path, spine: Spine, twelve: CollectedAnswers) -> None:
    source = replace(written(tmp_path / "r.csv"), columns={})
    found = count_reports(source, twelve, spine, KEY)
    assert found.reports.tolist() == [4, 1, 0]
    assert found.unused["second report of a respondent"] == found.unused["missing respondent"] == 0


def test_the_order_of_rows_does_not_matter(tmp_path: Path, spine: Spine, twelve: CollectedAnswers) -> None:
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(
        {
            "block": rng.choice(["A1", "A2", "A3"], 900),
            "report": [f"{number:02d}" for number in rng.integers(0, 12, 900)],
            "who": [f"id-{number}" for number in rng.integers(0, 300, 900)],
        }
    )
    found = []
    for order in (rows, rows.sort_values("report"), rows.sample(frac=1, random_state=3)):
        order.to_parquet(tmp_path / "r.parquet")
        source = RecordSource(tmp_path / "r.parquet", "reports", "block", columns={"respondent": "who"})
        found += [count_reports(source, twelve, spine, KEY, chunk_rows=size) for size in (1000, 7)]
    assert all(np.array_equal(found[0].totals, other.totals) for other in found)
    assert all(np.array_equal(found[0].reports, other.reports) for other in found)
    assert found[0].totals.sum() == found[0].reports.sum() == rows.who.nunique()
    assert all(np.array_equal(one.totals.sum(axis=1), one.reports) for one in found)
    # The first row of each, sorted by reports, are others: the test can tell.
    first = rows.sort_values("report").groupby("who").head(1).report.value_counts()
    assert found[0].totals.sum(axis=0).tolist() != [int(first.get(f"{n:02d}", 0)) for n in range(12)]
    other = count_reports(source, twelve, spine, bytes(32))
    assert not np.array_equal(found[0].totals, other.totals)


def test_the_example_is_a_survey_whose_reports_can_all_be_used(tmp_path: Path) -> None:
    examples = Path(__file__).resolve().parents[3] / "examples"
    runpy.run_path(str(examples / "survey_reports.py"))["main"](tmp_path / "survey_files")
    (tmp_path / "examples").mkdir()
    spec = load_spec(Path(shutil.copy(examples / "survey.toml", tmp_path / "examples")))
    (universe,) = spec.universes()
    found = count_reports(universe.require_input(), survey_of(universe).collected, read_spine(spec.geography), KEY)
    assert 95_000 < found.reports.sum() < 105_000
    assert set(found.unused.values()) == {0}
    assert (found.totals.sum(axis=1) == found.reports).all()


def test_with_cohorts_one_report_of_each_respondent_is_used_whatever_the_order(tmp_path: Path, spine: Spine) -> None:
    """Cohorts are part of what was sent."""
    collected = CollectedWords(rappor(), ("a0", "a1"))
    rng = np.random.default_rng(2)
    rows = [
        f"A{rng.integers(1, 4)},{rng.integers(1 << 32):08x},{rng.integers(16)},id-{rng.integers(100)}"
        for _ in range(300)
    ]
    source = RecordSource(tmp_path / "r.csv", "reports", "block", columns={"respondent": "who"})
    found = []
    for ordered in (rows, sorted(rows)):
        source.file.write_text("\n".join(["block,report,cohort,who", *ordered]))  # type: ignore[union-attr]
        found.append(count_reports(source, collected, spine, KEY))
    assert np.array_equal(found[0].totals, found[1].totals)
    assert found[0].reports.sum() == len({row.split(",")[-1] for row in rows})
    assert count_reports(replace(source, columns={}), collected, spine, KEY).reports.sum() == 300

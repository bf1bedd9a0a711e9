"""A release from randomised reports: its errors of sums, which reports are counted, and faulty randomisers."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.command import feature_module
from releases.made_case import made_case
from releases.small import run
from releases.survey import Survey, write_survey, write_words
from scipy.stats import chisquare

from features.local.collect import listed, rappor
from features.local.collect import mechanism as stated
from features.local.collect.bits import events
from features.local.collect.listed import ListedMechanism
from features.local.collect.mechanism import epsilon_of
from features.local.collect.respondent import mechanism_of
from features.local.collected import CollectedAnswers
from features.local.confidential import Deduplicator, count_reports
from features.local.survey import survey_of
from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.errors import RecordsError, RefusedError
from pipeline.inputs.geography import read_spine
from pipeline.model.record_source import RecordSource
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import unchecked


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """The files of the case of the matrix."""
    return write_survey(tmp_path_factory.mktemp("survey"))


@pytest.fixture
def released(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Its release."""
    return RunDirectory(made_case(tmp_path_factory, "survey") / "out" / "survey")


def test_sums_of_some_leaves_have_the_errors_of_their_reports(survey: Survey, released: RunDirectory) -> None:
    """As of the women of a tract, where demographics in the clear are the lowest level: others do not count."""
    odd = [block for block in survey.blocks.tolist() if int(block[-2:]) % 2]
    groups = {tract: [block for block in odd if block[:3] == tract] for tract in sorted({block[:3] for block in odd})}
    found = open_release(released.root).query("answer").over(groups)
    truth = np.array([survey.truth[np.isin(survey.blocks, one)].sum(axis=0) for one in groups.values()])
    low, high = (found[[f"a{number}{end}" for number in range(4)]].to_numpy() for end in (":low90", ":high90"))
    assert ((low <= truth) & (truth <= high)).mean() > 0.75  # of 24
    (universe,) = load_spec(survey.spec).universes()
    reports = truth.sum(axis=1)
    width = 2 * 1.645 * np.sqrt(reports * float(survey_of(universe).collected.unit_variance) * 3 / 4)
    whole, wide = low > 0, np.broadcast_to(width[:, None], low.shape)  # not those cut off at zero
    assert whole.sum() > 8
    assert np.allclose((high - low)[whole], wide[whole], atol=1.6)
    assert not np.allclose((high - low)[whole], 1.05 * wide[whole], atol=1.6)
    assert (found["sum:low90"] == reports).all()
    assert (found["sum:high90"] == reports).all()


def test_bad_reports_stop_the_run_or_are_counted_as_said(tmp_path: Path) -> None:
    survey = write_words(tmp_path / "bad")
    rows = ("A0102,012345678,3,long", "A0102,0123456z,3,odd", "A0102,01234567,16,beyond", "A0102,01234567,,none",
            "NOWHERE,01234567,3,lost", "A0102,01234567,3,person-0", "A0102,01234567,3,")  # fmt: skip
    with survey.reports.open("a") as file:
        file.write("".join(f"{row}\n" for row in rows))
    with pytest.raises(RefusedError):
        run(survey.spec, tmp_path / "refused")
    refusal = (tmp_path / "refused" / "survey" / "restricted" / "refused.txt").read_text()
    assert "column 'cohort': a cohort that the mechanism does not have in 2 rows" in refusal
    assert "person-0" not in refusal
    text = survey.spec.read_text().replace('form = "reports"', 'form = "reports"\nbad_reports = "count"')
    survey.spec.write_text(text.replace("replicates = 4", "margins = false\nmicrodata = false"))
    counted = RunDirectory(run(survey.spec, tmp_path / "counted"))
    found = json.loads(counted.reports.read_bytes())
    assert found["not used"] == {
        "geocode that is not a leaf": 1,
        "missing respondent": 1,
        "not a report of the mechanism": 0,
        "second report of a respondent": 1,
        "wrong character": 1,
        "wrong cohort": 2,
        "wrong length": 1,
    }
    assert found["used"] == survey.truth.sum()


def test_which_report_counts_is_drawn_by_the_key_of_the_run(tmp_path: Path) -> None:
    """Who knows names and spec alone cannot tell: two runs, each with a key of its own, take other reports."""
    survey = write_survey(tmp_path / "survey")
    sent = pd.read_csv(survey.reports, dtype=str)
    sent[sent.columns[1]] = sent[sent.columns[1]].to_numpy()[::-1]
    sent.to_csv(survey.reports, mode="a", header=False, index=False)  # a second report of everybody
    text = survey.spec.read_text().replace('form = "reports"', 'form = "reports"\nbad_reports = "count"')
    survey.spec.write_text(text.replace("replicates = 4", "margins = false\nmicrodata = false"))
    first, second = (
        RunDirectory(run(survey.spec, tmp_path / name)).universe("").measurement("block", "answer") for name in "ab"
    )
    totals = [np.array(read_measurement(unchecked(path)).values) for path in (first, second)]
    assert [int(one.sum()) for one in totals] == [len(sent)] * 2
    assert (totals[0] != totals[1]).any(axis=1).mean() > 0.5


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


DRAWING_KEY = b"a key of the tests, thirty-two b"
Drawing = Callable[[str, Sequence[tuple[str, ...]]], tuple[str, ...]]


def drawn(who: str, sent: Sequence[tuple[str, ...]], key: bytes = DRAWING_KEY) -> tuple[str, ...]:
    """The report that is used."""
    drawing = Deduplicator(key)
    for row, one in enumerate(sent):
        assert drawing.add(who, one) == (row == 0)
    exchanged = drawing.exchanged()
    return exchanged[0][1] if exchanged else sent[0]


def greatest(_: str, sent: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """A fault: the choice follows the reports."""
    return max(sent)


def among_different(who: str, sent: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """A fault: a report that is repeated has no more chances than another."""
    return drawn(who, sorted(set(sent)))


def p_value(draw: Drawing) -> float:
    """Whether 3,000 respondents with three reports of their own keep the probabilities of the mechanism."""
    rng = np.random.default_rng(5)
    shares = np.array([0.7, 0.2, 0.1])
    sent = rng.choice(3, (3000, 3), p=shares)
    kept = [int(draw(f"p{n}", [("A1", str(value)) for value in row])[1]) for n, row in enumerate(sent)]
    return float(chisquare(np.bincount(kept, minlength=3), 3000 * shares).pvalue)


def test_what_is_used_has_the_probabilities_of_one_report() -> None:
    assert p_value(drawn) > 0.01


@pytest.mark.parametrize("fault", [greatest, among_different])
def test_a_choice_that_follows_the_reports_is_seen(fault: Drawing) -> None:
    assert p_value(fault) < 1e-6


def test_every_row_has_the_same_chance_over_keys_whatever_their_order() -> None:
    sent: list[tuple[str, ...]] = [("A1", "0"), ("A1", "0"), ("A2", "0"), ("A1", "1")]
    kept = [sent.index(drawn("somebody", sent, number.to_bytes(16, "big"))) for number in range(2000)]
    assert chisquare(np.bincount(kept, minlength=4)[[0, 2, 3]], [1000, 500, 500]).pvalue > 0.01

    for who in ("ann", "ben", "cem"):
        assert len({drawn(who, list(order)) for order in permutations(sent)}) == 1
    assert len({drawn(f"p{number}", sent) for number in range(30)}) == 3
    # Parts are not run together: what one respondent sent is not what another did.
    assert Deduplicator(DRAWING_KEY)._number("a", "bc") != Deduplicator(DRAWING_KEY)._number("ab", "c")


def randomiser_findings(seed: int) -> Iterator[Any]:
    """The audit's findings."""
    found: Iterator[Any] = feature_module("features.audit.installed").randomiser_findings(seed)
    return found


def failed() -> list[Any]:
    return [finding for finding in randomiser_findings(1) if not finding.passed]


def test_the_installed_randomisers_pass() -> None:
    findings = list(randomiser_findings(1))
    assert [finding.subject for finding in findings if not finding.passed] == []
    assert [finding.check for finding in findings] == ["probabilities", "bound"] * 4
    assert all("5 % off" in finding.detail for finding in findings if finding.check == "probabilities")


@pytest.mark.parametrize("module", [listed, rappor])
def test_events_that_are_too_likely_are_noticed(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By 1 %: a fault that none of the arms is."""

    def likelier(likely: Any, one: Fraction, other: Fraction, source: Any) -> Any:
        return events(likely, one, other * Fraction(101, 100), source)

    monkeypatch.setattr(module, "events", likelier)
    name = {listed: "unary_encoding", rappor: "rappor"}[module]
    assert [(finding.check, finding.subject.split(",")[0]) for finding in failed()] == [("probabilities", name)]


def test_an_epsilon_that_is_rounded_down_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded = "features.local.collect.mechanism.epsilon_of"
    monkeypatch.setattr(rounded, lambda ratio: epsilon_of(ratio) - Decimal("1e-10"))
    findings = failed()
    assert [finding.check for finding in findings] == ["bound"] * 4
    assert all("is less than the logarithm of the ratio" in finding.detail for finding in findings)


def test_a_ratio_of_one_bit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeded fault: the bit of the other value is forgotten."""
    fault = property(lambda self: stated.RatioBound(Fraction(1, 2) / self.q))
    monkeypatch.setattr(listed.OptimisedUnaryEncoding, "bound", fault)
    (finding,) = failed()
    assert finding.check == "bound"
    assert "the ratio stated is 1.85" in finding.detail


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

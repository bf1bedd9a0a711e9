"""Every way to draw, and a question of every statistic, is judged by the installation's audit, which names faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.asked import asking

import features.audit.questions_asked as trial
import pipeline.privacy.ledger.charges
from features.audit import whole_trial
from features.audit.findings import Finding
from features.audit.finished import independent_findings
from features.audit.questions_asked import (
    ASKED,
    WAYS,
    TriedQuestion,
    installed_questions,
    question_findings,
    question_problems,
    questions,
)
from features.audit.whole_trial import KINDS, TrialKind, kind_findings, own_settings
from pipeline.privacy.budget import FRAMEWORKS, NEIGHBOURS
from pipeline.privacy.ledger.events import Group
from pipeline.questions.text import STATISTICS, parse
from pipeline.release.layout import RunDirectory
from pipeline.spec.slots import Slots


def finding_on(kind: TrialKind) -> Finding:
    (finding,) = kind_findings((kind,))
    assert finding.subject == kind.subject
    return finding


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[kind.subject for kind in KINDS])
def test_a_wrong_number_or_charge_is_found(kind: TrialKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """One measured number of the last release that is one too many; and a ledger that has less than was drawn."""

    def spoilt(root: Path, key: Path | None, ledger: str | None) -> Iterator[Finding]:
        path = max((RunDirectory(root).public / "measurements").rglob("*.parquet"))
        table = pq.read_table(path)
        column = table.schema.get_field_index("value")
        values = table.column(column).to_pylist()
        values[0] = [values[0][0] + 1, *values[0][1:]] if isinstance(values[0], list) else values[0] + 1
        changed = table.set_column(
            column, table.schema.field(column), pa.chunked_array([pa.array(values, table.schema.field(column).type)])
        )
        pq.write_table(changed, path)
        return independent_findings(root, key, ledger)

    def cheaper(*content: Any) -> Group:
        level, query, mechanism, scale, *others = content
        return Group(level, query, mechanism, 2 * scale, *others)

    assert finding_on(kind).passed
    with monkeypatch.context() as fault:
        fault.setattr(whole_trial, "independent_findings", spoilt)
        assert "noise" in finding_on(kind).detail
    monkeypatch.setattr(pipeline.privacy.ledger.charges, "Group", cheaper)
    assert "was not charged" in finding_on(kind).detail


def test_a_kind_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit says what it has not tested."""
    monkeypatch.setattr(whole_trial, "installed_slots", lambda: Slots(missing={"series": "years"}))
    finding = finding_on(KINDS[0])
    assert (finding.passed, finding.detail) == (True, "not tested: years is not installed")


SUM = TriedQuestion("sum wages by county", "zcdp", "change-one")


def test_every_statistic_is_asked_under_both_budgets() -> None:
    assert set(ASKED) == set(STATISTICS)
    for quick in (True, False):
        found = {(parse(one.text).statistic, one.framework) for one in questions(quick=quick)}
        assert found == {(statistic, framework) for statistic in STATISTICS for framework in FRAMEWORKS}
    full = list(questions(quick=False))
    assert {one.neighbours for one in full} == set(NEIGHBOURS)
    assert {one.way for one in full if one.text.startswith("sum")} == set(WAYS)
    assert any(parse(one.text).least for one in full)
    assert any("records_per_unit" in one.text for one in full)


def test_a_statistic_without_a_question_stops_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATISTICS, "mode", True)
    with pytest.raises(KeyError, match="mode"):
        list(questions(quick=True))


def problems(folder: Path, question: TriedQuestion) -> list[str]:
    with own_settings(folder):
        asks = installed_questions()
        if asks is None:
            pytest.skip("no feature asks questions")
        return question_problems(folder, question, 1, asks)


def test_a_sound_question_passes_and_one_without_noise_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("sound", "faulty")]
    for folder in folders:
        folder.mkdir()
    assert problems(folders[0], SUM) == []
    confidential = asking("confidential")
    sound = confidential.noise_of
    monkeypatch.setattr(confidential, "noise_of", lambda *given: 0 * sound(*given))
    assert any("noise redrawn" in one for one in problems(folders[1], SUM))


def test_a_court_that_finds_nothing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the planted faults has to be found, else the trial fails."""
    monkeypatch.setattr(trial, "audit_answer", lambda *_, **__: ())
    assert problems(tmp_path, SUM) == [
        "no noise in the sum is not noticed",
        "half the noise in the sum is not noticed",
        "the noise of half the sensitivity of the sum is not noticed",
    ]


@pytest.mark.slow
def test_the_installed_program_answers_every_question_as_it_should() -> None:
    assert [one.detail for one in question_findings(quick=False, seed=2) if not one.passed] == []

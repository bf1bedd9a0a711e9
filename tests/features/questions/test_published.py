"""What a finished release says to a question already, beside what the question would cost."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from releases.asked import checked
from releases.small import QUICK, write_town

from features.questions.explaining import Published, explain_question
from pipeline.errors import InputError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.reading.release import open_release


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The town's, now with a dataset; no records."""
    place = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("SPINEWISE_LEDGER", str(place))
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    with Ledger.open(str(place), create=True, state=tmp_path / "state") as ledger:
        ledger.open_dataset("people", population="x", framework="zcdp", budget=Fraction(9), neighbours="change-one")
    spec = write_town(tmp_path / "in", *QUICK, ('key = "insecure-test:1"', 'dataset = "people"'))
    (spec.parent / "persons.csv").unlink()
    return spec


def published(spec: Path, town: Path, text: str, rho: str = "1/200") -> Published | None:
    return explain_question(checked(spec, text, rho), town).published


def test_the_release_answers_with_its_own_intervals(spec: Path, town: Path) -> None:
    found = published(spec, town, "count by tract, sex where age in adult, old")
    assert found is not None
    frame = open_release(town).query("sex").where(age=["adult", "old"]).at("tract")
    widths = [(frame[f"{sex}:high90"] - frame[f"{sex}:low90"]) / 2 for sex in ("f", "m")]
    inexact = np.concatenate(widths)
    assert found.half_width == pytest.approx(np.median(inexact[inexact > 0]))
    assert found.enough


def test_what_the_release_does_not_have_it_does_not_answer(spec: Path, town: Path, tmp_path: Path) -> None:
    more = published(spec, town, "count by tract, sex", "5")
    assert more is not None
    assert not more.enough, "a question that buys more is not called answered"
    assert published(spec, town, "count") is None  # the spine has two tops
    income = checked(spec, "mean income by tract", between=("0", "9"), unit="1")
    assert explain_question(income, town).published is None
    with pytest.raises(InputError):
        published(spec, tmp_path / "none", "count by tract")

"""Records that the ends of an amount cut off, asked for: counted by the amounts themselves, at the cost of a count."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.asked import ask, checked, drawn_again, ledger_of, spent, truth, write_workers

import pipeline.records.columns as columns
from pipeline.errors import InputError
from pipeline.model.schema import ClippedAttribute
from pipeline.questions.manifest import read_answer
from pipeline.records.columns import AmountNumbers
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer

#: With rho = 1/2 the noise on a count has sigma^2 = 2.
TEXT, RHO, FAR = "count by tract, sex where wages > 60000", "1/2", 6


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    spec = write_workers(tmp_path, n=2000)
    with ledger_of(tmp_path):
        yield spec


def furthest(spec: Path, root: Path) -> float:
    """How far the counts are from those by pandas; a wage of 60,020 is above the end and rounds to it."""
    people = truth(spec)
    true = people[people["pay"] > 60_000].groupby(["tract", "sex"]).size()
    answer = pd.read_csv(root / "public" / "answer.csv", dtype={"tract": str}).set_index(["tract", "sex"])
    return float(np.abs(answer["count"] - true.reindex(answer.index).fillna(0)).max())


def test_the_count_above_the_clip_is_near_the_truth_and_costs_as_any_count(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = ask(spec, TEXT, RHO)
    true = truth(spec)
    assert (true["pay"] > 60_000).sum() > 100
    assert furthest(spec, root) < FAR
    (part,) = read_answer(RunDirectory(root)).parts
    assert (part.name, part.reach, part.scale) == ("count", 1, "2")
    assert spent(spec.parent / "ledger.sqlite") == Fraction(1, 2)
    assert verify_answer(RunDirectory(root)) == []
    assert drawn_again(root) == []

    class Clipped(AmountNumbers):
        def __getitem__(self, text: str) -> int:
            number = super().__getitem__(text)
            return min(number, 1) if isinstance(self._attribute, ClippedAttribute) else number

    monkeypatch.setattr(columns, "AmountNumbers", Clipped)
    assert furthest(spec, ask(spec, TEXT, RHO, name="faulty")) >= FAR, "a clip before the comparison is seen"


def test_below_the_clip_and_beside_other_conditions(tmp_path: Path) -> None:
    spec = write_workers(tmp_path / "low", ('between = ["0", "60000"]', 'between = ["10000", "60000"]'), n=2000)
    spec.write_text(spec.read_text("utf-8").replace('missing = "0"', 'missing = "10000"'), "utf-8")
    with ledger_of(spec.parent):
        root = ask(spec, "count where wages < 10000 and age >= 18", RHO)
        true = truth(spec)
        below = int(((true["pay"] < 10_000) & (true["age"] != "0-17")).sum())
        assert abs(pd.read_csv(root / "public" / "answer.csv")["count"][0] - below) < FAR
        with pytest.raises(InputError, match="amounts beyond 60000 count as 60000: <= decides nothing here"):
            checked(spec, "count where wages <= 60000")

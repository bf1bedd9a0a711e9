"""Questions and plans from Python: explained for nothing, released once, and the same as by the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from releases.asked import asking, ledger_of, measured_here, spent, write_workers
from releases.command import needs

import spinewise as sw
from pipeline.questions.manifest import ANSWER


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Path]:
    write_workers(tmp_path)
    with ledger_of(tmp_path) as place:
        yield place


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records in this process, which is quicker; the measuring process has tests of its own."""
    import spinewise.questions as questions

    answered = asking("answering").answered
    monkeypatch.setattr(questions, "answer_question", lambda checked: answered(checked, measured_here(checked)))


@pytest.mark.usefixtures("here")
def test_a_question_is_explained_and_then_released(ledger: Path, tmp_path: Path) -> None:
    data = sw.open_dataset(tmp_path / "release.toml")
    question = data.where("wages >= 20000", age=["18-64", "65+"]).by("tract", "sex").count()
    assert question.text == "count by tract, sex where wages >= 20000 and age in 18-64, 65+"
    explained = question.explain(rho="1/200")
    assert (explained.cost, explained.left, explained.numbers) == ("1/200", "1", 20)
    assert spent(ledger) == 0
    answer = question.release(rho="1/200", out=tmp_path / "answers")
    assert list(answer.table.columns) == ["tract", "sex", "count", "count:low90", "count:high90"]
    assert answer.table["tract"].iloc[0] == "A01"
    assert spent(ledger) == Fraction(1, 200)
    path = answer.directory / "public" / ANSWER
    digits = tmp_path / "digits.csv"
    digits.write_text(path.read_text("utf-8").replace("A0", "00").replace("B0", "10"), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spinewise.answers.unchanged_answer_file", lambda *_: digits)
        assert answer.table["tract"].iloc[0] == "001"  # codes of digits are texts
    same = data.ask(question.text).release(rho="1/200", out=tmp_path / "answers")
    assert same.table.equals(answer.table)
    assert spent(ledger) == Fraction(1, 200)


@pytest.mark.usefixtures("here", "ledger")
def test_amounts_may_have_their_domain_with_the_question(tmp_path: Path) -> None:
    data = sw.open_dataset(tmp_path / "release.toml", ledger=tmp_path / "ledger.sqlite")
    mean = data.by("county").mean("wages", between=("0", "30000"), unit="50")
    answer = mean.release(rho="1/2", out=tmp_path / "answers")
    assert answer.table["mean"].between(0, 30_000).all()
    amount = answer.manifest.plan().question.amount
    assert amount is not None
    assert amount.high == 30_000
    most = data.by("county").max("wages").release(rho="1/4", out=tmp_path / "answers")
    least = data.by("county").min("wages", between=("0", "30000"), unit="50").explain(rho="1/50")
    assert list(most.table.columns) == ["county", "max", "max:low90", "max:high90"]
    assert "records are below it" in str(least)
    clip = data.where(sex="f").clip("wages", ("20000", "80000"), above="1/20")
    assert clip.text == "clip wages among 20000, 80000 above 1/20 where sex = f"
    assert clip.release(rho="1/4", out=tmp_path / "answers").table["clip"].tolist() == [80_000]
    with pytest.raises(sw.InputError, match="a clip is one for all records"):
        data.by("sex").clip("wages", ("20000", "80000"))
    with pytest.raises(sw.InputError, match="are needed together"):
        data.sum("wages", unit="50").explain(rho="1/2")
    with pytest.raises(sw.InputError, match="found 'wags'"):
        data.sum("wags").explain(rho="1/2")
    with pytest.raises(sw.InputError, match="where: sex: found"):
        data.where(sex=[])


Changed = Callable[..., sw.Spec]


@needs("plan")
def test_a_plan_shows_itself_and_reads_no_records(changed: Changed, blocks: pd.DataFrame) -> None:
    spec = changed(input={"form": "microdata", "geocode": "block", "file": "no-such-file.csv"})
    plan = sw.plan(spec, blocks)
    assert repr(plan).startswith("Plan of village: county 2, block 5")
    page = plan._repr_html_()
    assert page.count("<tr") == 1 + len(plan.errors)
    assert "NaN" not in page
    assert f"{plan.errors['per_number'][0]:,.2f}" in page
    with pytest.raises(sw.InputError, match="workers: found 0"):
        sw.plan(spec, blocks, workers=0)

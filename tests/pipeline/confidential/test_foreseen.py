"""What cannot be released is refused before the budget is charged, and before any noise is drawn."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from releases.small import run

from flows.checks.validation import validate
from pipeline.errors import RefusedError
from pipeline.estimation.constraints import LARGEST_TOTAL
from pipeline.privacy.ledger.ledger import Ledger

SPEC = """
name = "many"
privacy = { rho = "1", dataset = "many" }
geography = { file = "blocks.csv", column = "block", levels = { county = 1, block = 3 } }
schema.attributes.sex = ["f", "m"]
strategy = { queries = { detailed = "1" }, levels = { county = "1/2", block = "1/2" } }
input = { file = "persons.csv", form = "long", geocode = "block" }
publish = { microdata = false, margins = false }
"""


def write_many(folder: Path, total: int) -> Path:
    """A release of so many persons, in three blocks."""
    blocks, size = ("A01", "A02", "A03"), total // 6
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{block}\n" for block in blocks))
    rows = [f"{block},{sex},{size}\n" for block in blocks for sex in "fm"]
    rows[0] = f"A01,f,{total - 5 * size}\n"
    (folder / "persons.csv").write_text("block,sex,count\n" + "".join(rows))
    spec = folder / "release.toml"
    spec.write_text(SPEC)
    return spec


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True), (99 * LARGEST_TOTAL // 100, True)])
def test_totals_that_cannot_be_solved_for(
    more: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is charged and nothing measured; validation says the same."""
    place = str(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("SPINEWISE_LEDGER", place)
    with Ledger.open(place, create=True) as ledger:
        ledger.open_dataset("many", population="x", framework="zcdp", budget=Fraction(2), neighbours="change-one")
    spec = write_many(tmp_path, LARGEST_TOTAL + more)
    found = validate(None, spec)
    assert found.passed != refused
    if not refused:
        run(spec, tmp_path / "out")
    else:
        with pytest.raises(RefusedError) as refusal:
            run(spec, tmp_path / "out")
        details = refusal.value.details.read_text()
        assert f"input: found {LARGEST_TOTAL + more:,} records; up to {LARGEST_TOTAL:,} are allowed" in details
        assert found.findings[0].text in details
        assert str(LARGEST_TOTAL + more) not in str(refusal.value)
        assert not list(tmp_path.rglob("measurements"))
    with Ledger.open(place) as ledger:
        assert ledger.dataset("many").spent == (0 if refused else 1)

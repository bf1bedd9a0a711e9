"""What cannot be released, or not be said of it, is refused before the budget is charged, and before noise is drawn."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from releases.command import feature_module, needs
from releases.small import request_of, run

from flows.checks.validation import validate
from pipeline.errors import InputError, RefusedError
from pipeline.estimation.constraints import LARGEST_TOTAL
from pipeline.execution.progress import Silent
from pipeline.privacy.accounting import joint, statements
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.publishing import promises
from pipeline.runs.run import ReleaseRun, run_release

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


def ledger_of_many(folder: Path, patch: pytest.MonkeyPatch, budget: Fraction = Fraction(2)) -> str:
    """A ledger that pays for the release."""
    place = str(folder / "ledger.sqlite")
    patch.setenv("SPINEWISE_LEDGER", place)
    with Ledger.open(place, create=True) as ledger:
        ledger.open_dataset("many", population="x", framework="zcdp", budget=budget, neighbours="change-one")
    return place


def spent(place: str) -> Fraction:
    with Ledger.open(place) as ledger:
        return ledger.dataset("many").spent


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True), (99 * LARGEST_TOTAL // 100, True)])
def test_totals_that_cannot_be_solved_for(
    more: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is charged and nothing measured; validation says the same."""
    place = ledger_of_many(tmp_path, monkeypatch)
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
    assert spent(place) == (0 if refused else 1)


@pytest.mark.parametrize("rho", ["1e99", "4.0000001e98", "1e101"])
def test_a_budget_of_which_nothing_can_be_said(rho: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of five costs 25 times as much, of which no epsilon can be stated: it was said at the end."""
    place = ledger_of_many(tmp_path, monkeypatch, 4 * Fraction(rho))
    spec = write_many(tmp_path, 12)
    spec.write_text(SPEC.replace('rho = "1"', f'rho = "{rho}"'))
    with pytest.raises(
        InputError, match=r"release\.toml: (privacy: what the budget promises|rho: found|noise scale: found)"
    ) as refused:
        run(spec, tmp_path / "out", i_know=True)
    assert str(refused.value) in [finding.text for finding in validate(None, spec, i_know=True).findings]
    assert spent(place) == 0
    assert not (tmp_path / "out").exists()


#: What a release says of itself: the function that works it out.
SAID: dict[str, tuple[ModuleType, str]] = {
    "accounts": (statements, "privacy_statements"),
    "joint": (joint, "joint_statement"),
    "statements": (promises, "privacy_statement"),
    "package": (promises, "resources"),
}


def planted(*_: Any, **__: Any) -> None:
    raise InputError("planted")


@pytest.mark.parametrize("what", [*SAID, pytest.param("report", marks=needs("report"))])
def test_what_cannot_be_said_is_found_before_it_is_charged(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of it fails: also a fault that the checks of the spec do not find."""
    place = ledger_of_many(tmp_path, monkeypatch)
    checked = request_of(write_many(tmp_path, 12), tmp_path / "out")
    module, name = SAID[what] if what in SAID else (feature_module("features.report.page"), "promised")
    monkeypatch.setattr(module, name, planted)
    with pytest.raises(InputError, match="planted"):
        run_release(checked, Silent())
    assert spent(place) == 0
    assert not list(tmp_path.rglob("measurements"))
    assert not list((tmp_path / "out" / "many" / "public").rglob("*.*"))


def test_once_it_is_charged_no_promise_is_worked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report and manifest take what was worked out before: afterwards any of it may fail."""
    place = ledger_of_many(tmp_path, monkeypatch)
    charge = ReleaseRun.charge

    def charged(self: ReleaseRun) -> None:
        charge(self)
        for module, name in SAID.values():
            if name != "resources":
                monkeypatch.setattr(module, name, planted)

    monkeypatch.setattr(ReleaseRun, "charge", charged)
    root = run(write_many(tmp_path, 12), tmp_path / "out")
    assert spent(place) == 1
    assert (root / "public" / "manifest.json").is_file()
    with pytest.raises(InputError, match="planted"):
        promises.Promises.of(request_of(tmp_path / "release.toml", tmp_path / "out").universes, ())

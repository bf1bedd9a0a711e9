"""Exact numbers are disclosed as declared and not otherwise, also by a run that was charged before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.privacy.ledger.disclosures import Exact, Subject
from pipeline.privacy.ledger.events import Event, Group, replay, sealed
from pipeline.privacy.ledger.key_uses import KeyUse
from pipeline.privacy.ledger.ledger import Charge, Ledger, RunFingerprint, UndeclaredError

GROUP = Group("county", "total", "discrete_gaussian", Fraction(3), 20)


def exact(text: str, content: str = "1", universe: str = "") -> Exact:
    return Exact(Subject.parse(text), universe, content * 64, 1)


def charge(*disclosed: Exact, run: str = "a", dataset: str = "town") -> Charge:
    return Charge(dataset, RunFingerprint(run * 64), "r", "change-one", (GROUP,), disclosed)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(str(tmp_path / "ledger.sqlite"), create=True) as opened:
        opened.open_dataset(
            "town",
            population="all",
            framework="zcdp",
            budget=Fraction(2),
            neighbours="change-one",
            exact=["county:total", Subject("zeros")],
        )
        yield opened


@pytest.mark.parametrize("text", ["", "county", "county:", ":total", "zeros:", "bounds:"])
def test_what_is_no_subject_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="allowed are LEVEL:QUERY"):
        Subject.parse(text)


def test_the_receipt_is_of_the_runs_own_events_not_of_the_ledgers_head(ledger: Ledger) -> None:
    before = ledger.reserve(charge(exact("county:total"))).charged
    ledger.reserve(charge(run="b"))
    after = ledger.reserve(charge(exact("county:total")))
    assert after.charged == before
    (receipt,) = before
    assert ledger.events()[receipt.head.number - 1].hash == receipt.head.hash
    assert receipt.head.number == 5 < after.head.number
    assert (receipt.unit, receipt.cost) == ("rho", Fraction(1, 3))
    assert receipt.exact == (("", Subject("invariant", "county", "total")),)


def test_two_universes_of_a_dataset_need_two_declarations(ledger: Ledger) -> None:
    both = charge(exact("county:total")), charge(exact("county:total", universe="units"), run="b")
    with pytest.raises(UndeclaredError, match="county:total of units"):
        ledger.reserve(*both)
    ledger.allow_exact("town", "county:total")
    assert ledger.reserve(*both).new


def test_an_undeclared_disclosure_put_into_the_chain_is_found(ledger: Ledger) -> None:
    ledger.reserve(charge(exact("county:total")))
    events = list(ledger.events())
    removed = [event for event in events if not (event.kind == "allow" and event.level)]
    chain: list[Event] = []
    for event in removed:
        chain.append(sealed(event, len(chain) + 1, chain[-1].hash if chain else ledger.id))
    assert replay(ledger.id, chain)[1] == ["event 4: discloses county:total of 'town' exactly, which was not declared"]


def test_the_same_counts_read_otherwise_are_refused_as_others_are(ledger: Ledger) -> None:
    use = KeyUse.read_so("1" * 64, "", "2" * 64, "3" * 64, ["microdata"])
    assert use.records != "3" * 64
    ledger.reserve(replace(charge(), key=use))
    ledger.reserve(replace(charge(), key=use))
    messages = []
    for counts, reading, run in (("3", ["rows"], "a"), ("4", ["rows"], "b"), ("3", ["rows"], "c")):
        changed = KeyUse.read_so("1" * 64, "", "2" * 64, counts * 64, reading)
        with pytest.raises(InputError) as raised:
            ledger.reserve(replace(charge(run=run), key=changed))
        messages.append(str(raised.value))
    assert len(set(messages)) == 1


def test_a_key_is_refused_over_other_records(ledger: Ledger) -> None:
    ledger.open_dataset("later", population="p", framework="zcdp", budget=Fraction(1), neighbours="change-one")
    use = KeyUse("1" * 64, "", "2" * 64, "3" * 64)
    ledger.reserve(replace(charge(), key=use))
    ledger.reserve(replace(charge(run="b"), key=use))  # another spec over the same records
    ledger.reserve(replace(charge(run="c"), key=replace(use, layout="4" * 64, records="5" * 64)))
    for run, dataset, changed in (("d", "town", replace(use, records="6" * 64)), ("e", "later", use)):
        before = ledger.events()
        with pytest.raises(InputError, match="the key of this run was used over other records before"):
            ledger.reserve(replace(charge(run=run, dataset=dataset), key=changed))
        assert ledger.events() == before
    ledger.reserve(replace(charge(run="f", dataset="later"), key=replace(use, commitment="7" * 64)))
    assert ledger.verify() == ()

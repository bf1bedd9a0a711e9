"""Exact numbers are disclosed as declared and not otherwise, also by a run that was charged before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from pipeline.errors import BudgetRefusedError, InputError
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


def kinds(ledger: Ledger) -> list[str]:
    assert ledger.verify() == ()
    return [event.kind for event in ledger.events()]


@pytest.mark.parametrize("text", ["county:total", "county:votingage * race", "zeros", "bounds:group quarters"])
def test_a_subject_is_written_as_it_is_read(text: str) -> None:
    assert str(Subject.parse(text)) == text


@pytest.mark.parametrize("text", ["", "county", "county:", ":total", "zeros:", "bounds:"])
def test_what_is_no_subject_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="allowed are LEVEL:QUERY"):
        Subject.parse(text)


def test_what_is_declared_is_recorded_once_with_the_charge(ledger: Ledger) -> None:
    first = ledger.reserve(charge(exact("county:total"), exact("zeros")))
    again = ledger.reserve(charge(exact("county:total"), exact("zeros")))
    assert kinds(ledger) == ["open", "allow", "allow", "charge", "exact", "exact"]
    assert (first.new, again.new) == (True, False)
    assert first.charged == again.charged


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


@pytest.mark.parametrize("closed", [False, True])
def test_the_same_run_discloses_nothing_more(ledger: Ledger, closed: bool) -> None:
    """The fingerprint of a run does not know what it publishes exactly: it is refused all the same."""
    ledger.reserve(charge(exact("county:total")))
    if closed:
        ledger.close_dataset("town")
    before = ledger.events()
    with pytest.raises(UndeclaredError, match="block:detailed exactly, which no budget covers") as refused:
        ledger.reserve(charge(exact("county:total"), exact("block:detailed")))
    assert refused.value.exit_status == 3
    assert isinstance(refused.value, BudgetRefusedError)
    assert ledger.events() == before
    assert not ledger.reserve(charge(exact("county:total"))).new


def test_a_closed_dataset_discloses_nothing_more_though_it_was_declared(ledger: Ledger) -> None:
    ledger.reserve(charge(exact("county:total")))
    ledger.close_dataset("town")
    with pytest.raises(UndeclaredError, match=r"zeros exactly.*the dataset is closed"):
        ledger.reserve(charge(exact("county:total"), exact("zeros")))
    with pytest.raises(InputError, match="closed; nothing more of it becomes exact"):
        ledger.allow_exact("town", "block:detailed")


def test_nothing_is_charged_where_an_exact_number_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UndeclaredError):
        ledger.reserve(charge(exact("county:detailed")))
    assert ledger.dataset("town").spent == 0


def test_a_name_with_another_meaning_is_refused_until_it_is_declared_again(ledger: Ledger) -> None:
    """ "county:total" over other counties gives, by subtraction, the total of the part in which they differ."""
    ledger.reserve(charge(exact("county:total", "1")))
    ledger.reserve(charge(exact("county:total", "1"), run="b"))
    with pytest.raises(UndeclaredError, match=r"county:total \(declared, but used up for other numbers\)"):
        ledger.reserve(charge(exact("county:total", "2"), run="b"))
    ledger.allow_exact("town", "county:total")
    ledger.reserve(charge(exact("county:total", "2"), run="b"))
    with pytest.raises(UndeclaredError):
        ledger.reserve(charge(exact("county:total", "3"), run="b"))


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

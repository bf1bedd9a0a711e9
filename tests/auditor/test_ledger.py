"""What the second program finds of the ledger beside a run."""

from __future__ import annotations

import pytest

from auditor.ledger import charged, forgotten, moved_by

_EVENTS = ({"hash": "a"}, {"hash": "b"})


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_ledger_that_was_put_back_and_charged_on_has_forgotten_what_a_run_noted(number: int) -> None:
    assert forgotten("one", _EVENTS, {"ledger": "one", "number": 2, "hash": "b"}) == []
    (problem,) = forgotten("one", _EVENTS, {"ledger": "one", "number": number, "hash": "b"})
    assert problem.startswith(f"it has forgotten event {number}")
    assert forgotten("other", _EVENTS, {"ledger": "one", "number": 2, "hash": "b"}) != []


def test_charges_are_to_the_dataset_and_for_the_neighbours_of_the_spec() -> None:
    charge = {"kind": "charge", "dataset": "people", "neighbours": "change-one", "level": "county", "query": "total"}
    charge |= {"mechanism": "discrete_gaussian", "scale": "2", "time": "2026-01-01T00:00:00+00:00"}
    charge["details"] = ""
    due = [("county", "total", "discrete_gaussian", 2, moved_by())]
    for dataset, neighbours in (("people", "change-one"), ("playground", "change-one"), ("people", "add-remove")):
        own = [{**charge, "dataset": dataset, "neighbours": neighbours}, {"kind": "commit"}]
        _, problems = charged(own, due, [], ("people", "change-one"))
        told = f"{dataset!r} with neighbours {neighbours!r} was charged"
        assert [one.partition(";")[0] for one in problems] == [told] * (
            (dataset, neighbours) != ("people", "change-one")
        )

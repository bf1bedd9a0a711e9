"""What the second program finds of the ledger beside a run."""

from __future__ import annotations

import pytest

from auditor.ledger import forgotten

_EVENTS = ({"hash": "a"}, {"hash": "b"})


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_ledger_that_was_put_back_and_charged_on_has_forgotten_what_a_run_noted(number: int) -> None:
    assert forgotten("one", _EVENTS, {"ledger": "one", "number": 2, "hash": "b"}) == []
    (problem,) = forgotten("one", _EVENTS, {"ledger": "one", "number": number, "hash": "b"})
    assert problem.startswith(f"it has forgotten event {number}")
    assert forgotten("other", _EVENTS, {"ledger": "one", "number": 2, "hash": "b"}) != []

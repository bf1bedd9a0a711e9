"""The second program on answers: each field of what is kept and stated is bound, and nothing damaged stops it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from releases.asked import UNITS, ask, ledger_of, write_workers

from auditor.answers.audit import FORM_ALONE, NOT_HERE, audit_answer
from auditor.keys import read_key
from auditor.reading.findings import FormError

SMALL = ('between = ["0", "60000"]\nunit = "100"', 'between = ["0", "60000"]\nunit = "10000"')
QUESTIONS = ("count by county having count >= 3", "mean wages by sex", "quantile 1/4 wages", "count units by county")
#: Where the ledger has the charge: only it knows, see `ledger verify` and the audit with --ledger.
FREE = {f"receipts.0.{name}" for name in ("ledger", "number", "hash")}


def wrong(root: Path) -> list[str]:
    """What the second program says of an answer; a form that it refuses is said too."""
    try:
        found = list(audit_answer(root, read_key(root / "restricted" / "key")[0], insecure=True, ledger=None))
    except FormError as error:
        return [str(error)]
    return [f"{one.check}: {one.detail}" for one in found if not one.passed]


def changes(content: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of JSON with another value in its place, as the whole content."""
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            for place, other in changes(value, f"{at}.{key}" if at else str(key)):
                whole = content.copy()
                whole[key] = other
                yield place, whole
        return
    others: dict[type, Any] = {bool: not content, int: (content or 0) + 1 if isinstance(content, int) else 1}
    if isinstance(content, str):
        if at.split(".")[0] not in FORM_ALONE:
            yield at, "5" if content != "5" else "7"
        yield at, f"{content}x" if at != "release" else f"{content} x"
        yield at, f"{content}+There are 80 men"
    elif content is None:
        yield at, 3
    else:
        yield at, others[type(content)]


@pytest.mark.parametrize(
    ("text", "of"), [(QUESTIONS[1], 4), *(pytest.param(text, 1, marks=pytest.mark.slow) for text in QUESTIONS)]
)
def test_a_change_of_any_field_is_found(text: str, of: int, tmp_path: Path) -> None:
    """One in `of` changes is tried."""
    with ledger_of(tmp_path, budget="100"):
        copy = ask(write_workers(tmp_path, UNITS, SMALL, n=60), text, "1/4")
    assert wrong(copy) == []
    missed, tried = [], 0
    for place in ("restricted/question.json", "public/answer.json"):
        sound = json.loads((copy / place).read_bytes())
        free = set(NOT_HERE) if place.startswith("public") else set()
        for at, changed in changes(sound):
            if at.split(".")[0] in free or at in FREE:
                continue
            if (".group." in at or ".keep." in at) and at.split(".")[-1] != "0":
                continue  # one of each list
            (copy / place).write_text(json.dumps(changed), "utf-8")
            tried += 1
            if tried % of == 0 and not wrong(copy):
                missed.append(at)
        (copy / place).write_text(json.dumps(sound), "utf-8")
    assert missed == []
    assert tried > 60

"""Whether an answer was charged for all that was drawn, before it was drawn, in a ledger that still knows it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from typing import Any

from auditor.answers.costs import cost_of, due_parts
from auditor.answers.kept import Answer
from auditor.findings import Found, holds
from auditor.keys import commitment
from auditor.ledger import Read, kept_findings, noted, priced, unknown_receipts


def charge_findings(answer: Answer, secret: bytes | None, read: Read | None) -> Iterator[Found]:
    """Receipts, and where a ledger is given the chain, what it remembers, and the charges of each part."""
    yield holds("ledger", "receipt", receipt_problems(answer))
    note = noted(answer.restricted)
    if note is None:
        yield holds("ledger", "charge", ["restricted/ has no note of a charge"])
    if read is None:
        return
    yield from kept_findings(read, note)
    yield holds("ledger", "receipt known", unknown_receipts(answer.stated["receipts"], read))
    if secret is not None:
        yield holds("ledger", "charges", charge_problems(answer, secret, read[1]))


def receipt_problems(answer: Answer) -> list[str]:
    """Whether the receipt states what the parts cost, of the dataset that was asked."""
    due = sum((Fraction(part["budget"]) for part in answer.stated["parts"]), Fraction(0))
    receipts = answer.stated["receipts"]
    if len(receipts) != 1:
        return [f"it has {len(receipts)} receipts, and is of one dataset"]
    problems = []
    (one,) = receipts
    if one["dataset"] != answer.dataset or one["unit"] != ("rho" if answer.zcdp else "epsilon"):
        problems.append(f"the receipt is of {one['dataset']!r}, in {one['unit']}")
    if Fraction(one["cost"]) != due:
        problems.append(f"the receipt states {one['cost']}, its parts cost {due}")
    if one["exact"]:
        problems.append("the receipt states exact numbers, of which an answer has none")
    return problems


def run_of(answer: Answer, secret: bytes) -> str:
    """By what a ledger knows the answer."""
    content = ["spinewise run 1", "spinewise keys 1", commitment(secret), answer.records(secret)]
    content += [answer.spine_fingerprint, answer.fingerprint(private=True)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def charge_problems(answer: Answer, secret: bytes, events: list[dict[str, Any]]) -> list[str]:
    """What is wrong with its charges: another question, mechanism, scale or number of numbers, a lower price, late."""
    run, problems = run_of(answer, secret), []
    own = [event for event in events if event["run"] == run]
    charges = [event for event in own if event["kind"] == "charge"]
    if not charges:
        return ["it was never charged"]
    due: Counter[tuple[Any, ...]] = Counter()
    for one in due_parts(answer):
        part = answer.parts.get(one.name)
        if part is None:
            continue
        reach = int(part["reach"]) if one.choice else one.reach
        furthest = "" if reach == 1 else f" (each by up to {reach})"
        at = answer.place, f"{one.name}: {answer.text}{furthest}{one.several}"
        scale = Fraction(part["scale"])
        due[(*at, one.mechanism, scale, one.count)] += 1
        costs = cost_of(answer, one, scale, int(part.get("times", 1)))
        paid = [priced(event, answer.framework) for event in charges if (event["level"], event["query"]) == at]
        if any(price < costs for price in paid):
            problems.append(f"the {one.name} costs {costs}, {min(paid)} was charged")
    found = Counter((e["level"], e["query"], e["mechanism"], Fraction(e["scale"]), int(e["count"])) for e in charges)
    problems += [f"{query} at {place} was not charged" for place, query, *_ in due - found]
    problems += [f"{query} at {place} was charged and not drawn so" for place, query, *_ in found - due]
    if any(event["dataset"] != answer.dataset for event in charges):
        problems.append("another dataset was charged")
    if not any(event["kind"] == "commit" for event in own):
        problems.append("the charge was never committed, and yet there is an answer")
    charged = max(datetime.fromisoformat(event["time"]) for event in charges).timestamp()
    drawn = (answer.public / "measurements.csv").stat().st_mtime
    if drawn < charged:  # events have whole seconds, cut off
        problems.append(f"was drawn {charged - drawn:.0f} s before it was charged")
    return problems

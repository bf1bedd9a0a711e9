"""The audit of an answer from end to end: what it says, what was charged for it, and what it was drawn with."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np

from auditor.answers.costs import cap_problems, cost_of, cost_problems, due_parts
from auditor.answers.draws import redrawn, tail_findings
from auditor.answers.kept import KEPT, UNITS, Answer
from auditor.contents import hash_problems, name_problems, other_versions, receipt_problems, software_problems
from auditor.files import hidden_bytes
from auditor.keys import commitment, derived, key_found, published_fingerprint
from auditor.ledger import Read, kept_findings, noted, priced, unknown_receipts
from auditor.reading.findings import FormError, Found, holds


def table_problems(answer: Answer) -> Iterator[str]:
    """What of answer.csv does not follow from measurements.csv.

    All of it is computed again for counts and sums; of means, ranks and the most common values the numbers, and that
    they are inside their intervals.
    """
    header, rows, _ = answer.table("answer.csv")
    names, keys = answer.keys()
    if answer.statistic == "most common":
        yield from _most_common(answer, header, rows, keys)
        return
    if answer.ranked or answer.statistic == "mean":
        yield from _inside(answer, header, rows, keys, names)
        return
    part = answer.parts["sum" if answer.statistic == "sum" else "count"]
    half, unit = half_width(str(part["mechanism"]), Fraction(part["scale"])), _unit(answer)
    title, numbers = str(part["name"]), answer.published[str(part["name"])].tolist()
    least = answer.stated.get("least")
    due = [[*names, title, f"{title}:low90", f"{title}:high90"]]
    for key, number in zip(keys, numbers, strict=True):
        if least is None or number >= int(least):
            due.append([*key, *(written(one * unit) for one in (number, number - half, number + half))])
    if [header, *rows] != due:
        wrong = sum(one != other for one, other in zip([header, *rows], due, strict=False)) or abs(
            len(rows) + 1 - len(due)
        )
        yield f"{wrong} rows of answer.csv do not follow from measurements.csv"


def _unit(answer: Answer) -> Fraction:
    amount = answer.stated.get("amount")
    return Fraction(amount["unit"]) if amount and answer.statistic not in ("count", "most common") else Fraction(1)


def _most_common(answer: Answer, header: list[str], rows: list[list[str]], keys: list[list[str]]) -> Iterator[str]:
    number = int(Fraction(answer.stated["number"]))
    counts = answer.published["count"].tolist()
    due = []
    for group, members in groupby(zip(keys, counts, strict=True), key=lambda pair: pair[0][:-1]):
        found = sorted(enumerate(members), key=lambda one: (-one[1][1], one[0]))[:number]
        due += [[*group, str(rank), key[-1], str(count)] for rank, (_, (key, count)) in enumerate(found, 1)]
    at, value = len(keys[0]) - 1, len(keys[0]) + 2
    if len(header) != value + 4:
        yield "answer.csv has other columns than the most common values have"
        return
    if [[*row[: at + 1], row[value], row[value + 1]] for row in rows] != due:
        yield "the values listed are not those with the largest noisy counts"
    if any(not int(row[value + 2]) <= int(row[value + 1]) <= int(row[value + 3]) for row in rows):
        yield "a count is outside of its interval"


def _inside(
    answer: Answer, header: list[str], rows: list[list[str]], keys: list[list[str]], names: list[str]
) -> Iterator[str]:
    n, titles = len(names), [answer.statistic, *(["count"] if answer.statistic == "mean" else [])]
    columns = [name for title in titles for name in (title, f"{title}:low90", f"{title}:high90")]
    if header != [*names, *columns] or [row[:n] for row in rows] != keys:
        yield "the columns, places or groups of answer.csv are not those of the question"
        return
    due = _means(answer) if answer.statistic == "mean" else _ranks(answer)
    if [row[n] for row in rows] != due:
        wrong = sum(row[n] != one for row, one in zip(rows, due, strict=True))
        yield f"{wrong} numbers of answer.csv do not follow from measurements.csv"
    for row in rows:
        for first in range(n, len(row), 3):
            value, low, high = row[first : first + 3]
            if not float(low) <= float(high) or (value and not float(low) <= float(value) <= float(high)):
                yield f"{value} is not from {low} to {high}, which is its interval"
    if answer.statistic == "mean":
        counts, part = answer.published["count"].tolist(), answer.parts["count"]
        half = half_width(str(part["mechanism"]), Fraction(part["scale"]))
        if [row[n + 3 :] for row in rows] != [[str(one), str(one - half), str(one + half)] for one in counts]:
            yield "the counts of answer.csv do not follow from measurements.csv"


def _ranks(answer: Answer) -> list[str]:
    name = "clip" if answer.statistic == "clip" else "quantile"
    numbers = answer.published[name].tolist()
    if name == "clip":
        listed = answer.stated["ends"]["listed"]
        if not all(0 <= number < len(listed) for number in numbers):
            raise FormError(f"{answer.public / 'measurements.csv'}: a clip is none of the ends")
        return [written(Fraction(listed[number])) for number in numbers]
    return [written(number * _unit(answer)) for number in numbers]


def _means(answer: Answer) -> list[str]:
    amount: dict[str, Any] = answer.stated["amount"]
    low, high, unit = (float(Fraction(amount[name])) for name in ("low", "high", "unit"))
    centre, found = int(answer.parts["sum"]["centre"]), []
    for top, bottom in zip(answer.published["sum"].tolist(), answer.published["count"].tolist(), strict=True):
        mean = "" if bottom < 1 else _rounded(min(max((centre + top / bottom) * unit, low), high))
        found.append(mean)
    return found


def written(value: Fraction | int) -> str:
    """A number as answer.csv has it: whole, or to six digits after the point."""
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else _rounded(float(exact))


def _rounded(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") or "0"


def half_width(mechanism: str, scale: Fraction) -> int:
    """The least whole h with noise from -h to h in 90 % or more."""
    s = float(scale)
    if mechanism == "discrete_laplace":
        ratio, half = math.exp(-1 / s), max(0, int(s * 2.2) - 5)
        while 2 * ratio ** (half + 1) / (1 + ratio) > 0.1 + 1e-12:
            half += 1
        return half
    if s >= 10**4:
        return math.ceil(1.6448536269514722 * math.sqrt(s) - 0.5)
    k = np.arange(1, int(12 * math.sqrt(s)) + 3)
    weights = np.exp(-(k**2) / (2 * s))
    inside = (1 + 2 * np.cumsum(weights)) / (1 + 2 * weights.sum())
    return 0 if 1 / (1 + 2 * weights.sum()) >= 0.9 else int(np.flatnonzero(inside >= 0.9)[0]) + 1


def charge_findings(answer: Answer, secret: bytes | None, read: Read | None) -> Iterator[Found]:
    """Receipts, and where a ledger is given the chain, what it remembers, and the charges of each part."""
    yield holds("ledger", "receipt", _receipt_cost_problems(answer))
    note = noted(answer.restricted)
    if note is None:
        yield holds("ledger", "charge", ["restricted/ has no note of a charge"])
    if read is None:
        return
    yield from kept_findings(read, note)
    yield holds("ledger", "receipt known", unknown_receipts(answer.stated["receipts"], read))
    if secret is not None:
        yield holds("ledger", "charges", charge_problems(answer, secret, read[1]))


def _receipt_cost_problems(answer: Answer) -> list[str]:
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


#: Fields of answer.json that are computed again here.
_KNOWN: Final = {
    "spinewise_answer", "answer", "dataset", "question", "statistic", "place", "terms", "amount", "ends", "number",
    "framework", "neighbours", "records_per_person", "budget", "parts", "fingerprint", "geography", "key_commitment",
    "key_salt", "input_fingerprint", "receipts", "files", "least", "release", "software",
}  # fmt: skip
#: Which `spinewise verify` computes from the question.
NOT_HERE: Final = ("domain", "note")
#: Of which only who has the key can compare more than the form.
BOUND_TO_KEY: Final = ("answer", "key_salt", "key_commitment", "input_fingerprint")
#: Of which the form is all that is compared here: `spinewise verify --records` makes them again.
FORM_ALONE: Final = ("release", "software")
#: May be in public/ beside what answer.json lists: signature, and what was combined with a release.
_BESIDE: Final = {"answer.json", "answer.sig", "combined.csv", "combined.json"}
_FILES: Final = ("answer.csv", "measurements.csv")


def is_answer(root: Path) -> bool:
    """Whether a directory has an answer to a question, and no release."""
    return (root / "public" / "answer.json").is_file() and not (root / "public" / "manifest.json").exists()


def audit_answer(root: Path, secret: bytes | None, insecure: bool, ledger: Read | None) -> Iterator[Found]:
    """Everything that can be checked of an answer with its restricted/.

    Args:
        root: the answer's directory.
        secret: the master key; None where there is none, and only the distribution of the noise is tested.
        insecure: it is a public test key.
        ledger: that was charged; None to compare with none.

    Raises:
        FormError: the answer cannot be understood, or was made by a version that kept nothing to draw it again from.
    """
    answer = Answer(root)
    try:
        yield holds("content", "public/", content_problems(answer))
        yield holds("content", "answer.json", statement_problems(answer) + form_problems(answer))
        software = answer.stated["software"]
        yield holds("software", "answer.json", software_problems(software), well=other_versions(software))
        yield holds("statements", "sensitivity and cost", cost_problems(answer), well="each part costs what it states")
        held = list(cap_problems(answer))
        well = "records have no units" if answer.unit_name is None else "no unit has more than is paid for"
        yield holds("caps", "units", held, well=well)
        if secret is not None:
            yield holds("key", "commitment and records", key_problems(answer, secret))
        stated = str(answer.stated["key_commitment"])
        yield key_found(stated, secret, salt=str(answer.stated["key_salt"]), insecure=insecure)
        yield from _drawn(answer, secret)
        yield holds("answer", "answer.csv", table_problems(answer))
        yield from charge_findings(answer, secret, ledger)
    except (KeyError, ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
        raise FormError(f"{answer.public / 'answer.json'}: cannot be understood ({error!r})") from None


def _drawn(answer: Answer, secret: bytes | None) -> Iterator[Found]:
    try:
        yield from tail_findings(answer)
        if secret is not None:
            yield from redrawn(answer, secret)
    except FormError as error:
        yield holds("noise", "measurements.csv", [str(error)])


def content_problems(answer: Answer) -> list[str]:
    """Files and fields that no answer has, and bytes of kept files that are neither rows nor header."""
    problems = []
    found = {path.name for path in answer.public.iterdir()}
    problems += [f"{name}: no answer has such a file" for name in sorted(found - {*_FILES, *_BESIDE})]
    stated = answer.stated["files"]
    if sorted(stated) != sorted(_FILES):
        problems.append(f"answer.json lists {', '.join(sorted(stated))}")
    for name in _FILES:
        path = answer.public / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != stated.get(name):
            problems.append(f"{name}: is not the file that answer.json lists")
    strange = sorted(set(answer.stated) - _KNOWN - set(NOT_HERE))
    problems += [f"answer.json: no answer has a field {name!r}" for name in strange]
    kept = [name for name in (*KEPT, UNITS) if name.endswith(".parquet") and (answer.restricted / name).is_file()]
    return problems + [f"restricted/{name} {why}" for name in kept if (why := hidden_bytes(answer.restricted / name))]


def statement_problems(answer: Answer) -> list[str]:
    """Whether answer.json states the question that was kept, on the terms that it was asked on."""
    stated, names = answer.stated, [answer.axes[number].term for number in answer.order]
    due = {
        "question": answer.text,
        "statistic": answer.statistic,
        "place": answer.place,
        "terms": names,
        "dataset": answer.dataset,
        "framework": answer.framework,
        "neighbours": answer.neighbours,
        "records_per_person": answer.together,
        "geography": answer.spine_fingerprint,
        "fingerprint": answer.fingerprint(private=False),
    }
    problems = [f"states the {name} {stated.get(name)!r}, it is {one!r}" for name, one in due.items()
                if stated.get(name) != one]  # fmt: skip
    if Fraction(stated["budget"]) != answer.budget:
        problems.append(f"states the budget {stated['budget']}, it is {answer.budget}")
    made = ["permute-and-flip", "15/16"] if answer.ranked and not answer.zcdp else []
    if answer.context[5:] != made:
        problems.append(f"the terms of the question end with {answer.context[5:]}")
    if stated["spinewise_answer"] != 1 or (answer.amount is None) != (answer.question["first"] is None):
        problems.append("is of another form than answers have")
    asked = (stated.get("number"), stated.get("least"))
    if (None if asked[0] is None else Fraction(asked[0]), asked[1]) != numbers_asked(answer):
        problems.append("states another number, or least count, than the question asks for")
    return problems + _amount_problems(answer)


def form_problems(answer: Answer) -> list[str]:
    """What has not the form that names, hashes and receipts have."""
    stated = answer.stated
    names = {name: stated[name] for name in ("answer", "release")}
    return [
        *name_problems(names),
        *hash_problems({name: stated[name] for name in BOUND_TO_KEY[1:]}),
        *receipt_problems(stated["receipts"]),
    ]


def numbers_asked(answer: Answer) -> tuple[Fraction | None, int | None]:
    """The number that the text names after its statistic, or as how many are above a clip; and the least count."""
    number = re.match(rf"{answer.statistic} ([0-9/]+) ", answer.text, re.ASCII)
    if answer.statistic == "clip":
        number = re.search(r" above ([0-9/]+)( where |$)", answer.text, re.ASCII)
    least = re.search(r" having count >= ([0-9]+)$", answer.text, re.ASCII) if answer.statistic == "count" else None
    named = answer.statistic in ("quantile", "most common", "clip") and number is not None
    return (Fraction(number[1]) if named and number else None), (int(least[1]) if least else None)


def _amount_problems(answer: Answer) -> list[str]:
    """Whether the grid of the amount is the one that records were counted by: its ends, its unit, its values."""
    amount, ends = answer.stated.get("amount"), answer.stated.get("ends")
    if answer.statistic in ("count", "count units", "most common"):
        return ["states an amount, and is of none"] if amount or ends or answer.amount is not None else []
    if answer.amount is None:
        return [f"a {answer.statistic} of no amount"]
    axis = answer.axes[answer.amount]
    if answer.statistic == "clip":
        given = [Fraction(one) for one in ends["listed"]] if ends else []
        return (
            [] if given and given == [Fraction(one) for one in axis.values] else ["states other ends than it chose of"]
        )
    if not amount:
        return [f"states no amount, and is a {answer.statistic}"]
    low, high, unit = (Fraction(amount[name]) for name in ("low", "high", "unit"))
    due = [answer.first * unit + step * unit for step in range(len(axis.values))]
    missing = [] if amount["missing"] is None else [["missing", amount["missing"]]]
    problems = [] if missing == axis.further and not ends else ["states another amount of records without one"]
    if (low, high) != (due[0], due[-1]) or [Fraction(one) for one in axis.values] != due:
        problems.append("the grid of the amount is not the one that its ends and its unit give")
    if amount["name"] != axis.name or (amount.get("ends", "record") == "total") != answer.of_total:
        problems.append("states another amount, or other ends, than were summed")
    return problems


def key_problems(answer: Answer, secret: bytes) -> list[str]:
    """Whether key, records, areas and question are those that the public fields are bound to."""
    stated, problems = answer.stated, []
    salt = derived(secret, "salt", f"answer/{stated['answer']}/{answer.fingerprint(private=True)}").hex()
    if stated["key_salt"] != salt or stated["key_commitment"] != commitment(secret, salt):
        problems.append("the key is not the one that answer.json is committed to, or the question is another")
    records = answer.records(secret)
    if stated["input_fingerprint"] != published_fingerprint(secret, salt, "question", records):
        problems.append("the fingerprint is not that of the true counts")
    if answer.recorded != {"question": records}:
        problems.append("restricted/run.json has another fingerprint than the true counts")
    return problems

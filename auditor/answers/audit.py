"""The audit of an answer from end to end."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

from auditor.answers.caps import cap_problems
from auditor.answers.charges import charge_findings
from auditor.answers.costs import cost_problems
from auditor.answers.draws import redrawn, tail_findings
from auditor.answers.kept import KEPT, UNITS, Answer
from auditor.answers.said import table_problems
from auditor.files import hidden_bytes
from auditor.findings import Found, holds
from auditor.keys import commitment, derived, published_fingerprint
from auditor.keyspace import key_found
from auditor.ledger import Read
from auditor.reading.errors import FormError
from auditor.stated import hash_problems, name_problems, other_versions, receipt_problems, software_problems

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

"""The audit of an answer from end to end: what it says, what was charged for it, and what it was drawn with."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from auditor.answers.costs import cap_problems, cost_problems, due_parts
from auditor.answers.draws import redrawn, steps_of, tail_findings
from auditor.answers.kept import KEPT, UNITS, Answer
from auditor.contents import hash_problems, receipt_problems, software_problems
from auditor.files import hidden_bytes
from auditor.keys import commitment, derived, key_found, published_fingerprint
from auditor.ledger import Read, charged, kept_findings, moved_by, noted, of_run, unknown_receipts
from auditor.mechanisms import law_of
from auditor.reading.findings import FormError, Found, holds, understood
from auditor.reading.spec import read_json
from auditor.reading.values import exact_sum


def table_problems(answer: Answer) -> Iterator[str]:
    """What of answer.csv does not follow from measurements.csv.

    All of it is computed again for counts and sums; of means, ranks and the most common values the numbers, and that
    they are inside their intervals.
    """
    header, rows, _ = answer.table("answer.csv")
    names, keys = answer.keys()
    most_common, n = answer.statistic == "most common", len(names)
    if most_common:
        titles, due = [*names[:-1], *_titles("rank"), names[-1], *_titles("count")], _most_common(answer, keys)
    else:
        columns = _columns(answer)
        titles = [*names, *(title for name in columns for title in _titles(name))]
        due = [[*key, *sum(cells, ())] for key, *cells in zip(keys, *columns.values(), strict=True)]
    if answer.least is not None:
        due = [row for row in due if int(str(row[n])) >= answer.least]
    if header != titles or len(rows) != len(due):
        yield "the columns, places or groups of answer.csv are not those of the question"
        return
    if wrong := sum(
        len(row) != len(titles) or any(known not in (None, one) for one, known in zip(row, known_row, strict=True))
        for row, known_row in zip(rows, due, strict=True)
    ):
        yield f"{wrong} rows of answer.csv do not follow from measurements.csv"
        return
    for row in rows:
        for first in (n - 1, n + 3) if most_common else range(n, len(row), 3):
            value, low, high = row[first : first + 3]
            if not float(low) <= float(high) or (value and not float(low) <= float(value) <= float(high)):
                yield f"{value} is not from {low} to {high}, which is its interval"


def _titles(name: str) -> tuple[str, str, str]:
    return name, f"{name}:low90", f"{name}:high90"


def _columns(answer: Answer) -> dict[str, list[tuple[str | None, ...]]]:
    """Numbers with the ends of their intervals, None where these are not computed again; all but the most common."""
    if answer.ranked:
        steps = answer.candidates[steps_of(answer)].tolist()
        return {answer.statistic: [(written(answer.grid[step]), None, None) for step in steps]}
    columns: dict[str, list[tuple[str | None, ...]]] = {}
    if answer.statistic == "mean":
        columns["mean"] = [(mean, None, None) for mean in _means(answer)]
    for name in ["sum"] if answer.statistic == "sum" else ["count"]:
        part, unit = answer.parts[name], answer.unit if name == "sum" else Fraction(1)
        half = law_of(str(part["mechanism"])).half_width(float(Fraction(part["scale"])))
        numbers = answer.published[name].tolist()
        columns[name] = [tuple(written(one * unit) for one in (n, n - half, n + half)) for n in numbers]
    return columns


def _most_common(answer: Answer, keys: list[list[str]]) -> list[list[str | None]]:
    due: list[list[str | None]] = []
    counts = answer.published["count"].tolist()
    for group, members in groupby(zip(keys, counts, strict=True), key=lambda pair: pair[0][:-1]):
        found = sorted(enumerate(members), key=lambda one: (-one[1][1], one[0]))[: int(answer.number or 1)]
        due += [
            [*group, str(rank), None, None, key[-1], str(count), None, None]
            for rank, (_, (key, count)) in enumerate(found, 1)
        ]
    return due


def _means(answer: Answer) -> list[str]:
    low, high, unit = map(float, (answer.grid[0], answer.grid[-1], answer.unit))
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
    due = exact_sum(Fraction(part["budget"]) for part in answer.stated["parts"])
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


def charge_problems(answer: Answer, secret: bytes, events: list[dict[str, Any]]) -> list[str]:
    """What is wrong with its charges: another question, mechanism, scale or number of numbers, a lower price, late."""
    own, due = of_run(events, secret, answer.context_of(secret)), []
    for one in due_parts(answer):
        if (part := answer.parts.get(one.name)) is not None:
            reach = int(part["reach"]) if one.choice else one.reach
            query, moved = f"{one.name}: {answer.text}", moved_by(reach=reach, **one.times)
            due.append((answer.place, query, one.mechanism, Fraction(part["scale"]), moved, one.count))
    terms = answer.dataset, answer.neighbours
    charges, problems = charged(own, due, [answer.public / "measurements.csv"], terms, counted=True)
    return problems if charges else ["it was never charged"]


#: Fields of answer.json that are computed again here.
_KNOWN: Final = {
    "spinewise_answer", "answer", "dataset", "question", "place", "framework", "neighbours", "records_per_person",
    "budget", "parts", "fingerprint", "geography", "key_commitment", "key_salt", "input_fingerprint", "receipts",
    "files", "release", "software",
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
_NAME: Final = re.compile(r"\w[\w.+-]{0,254}")


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
    with understood(str(answer.public / "answer.json")):
        yield holds("content", "public/", content_problems(answer))
        yield holds("content", "answer.json", statement_problems(answer) + form_problems(answer))
        yield holds("software", "answer.json", software_problems(answer.stated["software"]))
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
    due = {
        "spinewise_answer": 1,
        "question": answer.text,
        "place": answer.place,
        "dataset": answer.dataset,
        "framework": answer.framework,
        "neighbours": answer.neighbours,
        "records_per_person": answer.together,
        "budget": answer.context[2],
        "geography": answer.spine_fingerprint,
        "fingerprint": answer.fingerprint(private=False),
    }
    problems = [f"states the {name} {answer.stated.get(name)!r}, it is {one!r}" for name, one in due.items()
                if answer.stated.get(name) != one]  # fmt: skip
    made = ["permute-and-flip", "15/16"] if answer.ranked and not answer.zcdp else []
    if answer.context[5:] != made:
        problems.append(f"the terms of the question end with {answer.context[5:]}")
    if not answer.text.startswith(f"{answer.statistic} ") and answer.text != answer.statistic:
        problems.append(f"is of a {answer.statistic}, and asks {answer.text!r}")
    if (answer.amount is None) != (answer.statistic in ("count", "count units", "most common")):
        problems.append("is of an amount, and asks for none, or the other way round")
    return problems


def form_problems(answer: Answer) -> list[str]:
    """What has not the form that names, hashes and receipts have."""
    stated = answer.stated
    names = (name for name in ("answer", "release") if not _NAME.fullmatch(str(stated[name])))
    return [
        *(f"{name}: {stated[name]!r:.60} is no name" for name in names),
        *hash_problems({name: stated[name] for name in BOUND_TO_KEY[1:]}),
        *receipt_problems(stated["receipts"]),
    ]


def key_problems(answer: Answer, secret: bytes) -> list[str]:
    """Whether key, records, areas and question are those that the public fields are bound to."""
    stated, problems = answer.stated, []
    salt = derived(secret, "salt", f"answer/{stated['answer']}/{answer.fingerprint(private=True)}").hex()
    if stated["key_salt"] != salt or stated["key_commitment"] != commitment(secret, salt):
        problems.append("the key is not the one that answer.json is committed to, or the question is another")
    records = answer.records(secret)
    if stated["input_fingerprint"] != published_fingerprint(secret, salt, "question", records):
        problems.append("the fingerprint is not that of the true counts")
    if read_json(answer.restricted / "run.json").get("input_fingerprints") != {"question": records}:
        problems.append("restricted/run.json has another fingerprint than the true counts")
    return problems

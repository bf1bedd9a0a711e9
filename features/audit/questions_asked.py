"""Questions of every statistic, asked of made-up records and of neighbouring ones, and judged by the second program.

Each answer is drawn again by the second program, which shares no code with `ask`; its sensitivity, cost, caps and
charge are computed again. Then one person is made another, and what the installed program would count of these records
is compared: the numbers, losses and windows that change must cost what the ledger was told, at most. Every question has
arms that must be found: an answer without noise, with half of it, with the noise of half the sensitivity, and another
choice than was drawn.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from auditor.answers.audit import audit_answer
from auditor.answers.draws import losses, noise_of, steps_of, windows_of
from auditor.answers.kept import Answer
from auditor.keys import read_key
from auditor.ledger import read_ledger
from auditor.reading.findings import FormError
from features.audit.findings import Finding, certain
from features.audit.finished import GROUP
from features.audit.whole_trial import alone, open_made_up
from pipeline.errors import SpinewiseError
from pipeline.privacy.budget import FRAMEWORKS, NEIGHBOURS
from pipeline.privacy.keys import MasterKey
from pipeline.questions.text import STATISTICS
from pipeline.spec.slots import installed_slots
from postprocess.arrays import IntArray

_SPEC: Final = """
name = "asked"
[privacy]
framework = "{framework}"
{budget_name} = "1"
neighbours = "{neighbours}"
dataset = "nobody"
{unit}
[geography]
file = "areas.csv"
column = "area"
levels = {{ county = 1, tract = 3 }}
[schema.attributes]
age = ["0-17", "18-64", "65+"]
sex = ["f", "m"]
[strategy]
queries = {{ total = "1" }}
levels = {{ county = "1/2", tract = "1/2" }}
[input]
file = "persons.csv"
form = "microdata"
geocode = "area"
[questions.wages]
column = "pay"
between = ["{low}", "60"]
unit = "1"
missing = "0"
{ends}
"""
_UNIT: Final = 'unit = "person"\nat_most = 2'
_AREAS: Final = ("A01", "A02", "B01", "B02")
#: Of each statistic: questions that are tried. One that stands here without any is found by no trial.
ASKED: Final[dict[str, tuple[str, ...]]] = {
    "count": ("count by county, sex where age >= 18", "count by county having count >= 3"),
    "count units": ("count units by tract", "count units by county, records_per_unit"),
    "sum": ("sum wages by county",),
    "mean": ("mean wages by county",),
    "median": ("median wages by tract, sex",),
    "quantile": ("quantile 1/4 wages by sex",),
    "max": ("max wages by sex",),
    "min": ("min wages by sex",),
    "most common": ("most common 2 age by county",),
    "clip": (
        "clip wages among 20, 40, 60 above 1/10",
        "clip wages among 20, 40, 60",
        "clip wages among 20, 40, 60 above 3",
    ),
}
#: What a record, or a unit, is; of sums and means whose ends are tried.
WAYS: Final = ("records", "units", "totals", "signed")
_OF_WAYS: Final = {"sum": WAYS, "mean": WAYS, "count units": ("units",), "count": ("records", "units")}


#: By which records are asked, in this process; of a feature: `features.questions.audited`.
AsksQuestions: TypeAlias = Any


def installed_questions() -> AsksQuestions:
    """What the audit asks by; None where no feature asks questions."""
    return next((tried for keys in installed_slots().features if (tried := keys.tried_questions()) is not None), None)


@dataclass(frozen=True)
class TriedQuestion:
    """A question on terms.

    Attributes:
        way: "records" of one person each, "units" with two records each, "totals" of units, or amounts that are
            "signed".
    """

    text: str
    framework: str
    neighbours: str
    way: str = "records"

    @property
    def subject(self) -> str:
        """What a finding on it is about."""
        return f"{self.text}: {self.framework}, {self.neighbours}, {self.way}"


def questions(*, quick: bool) -> Iterator[TriedQuestion]:
    """All that are asked: every statistic under both budgets; `quick`: records, or what units need, alone."""
    terms = (
        [("zcdp", "change-one"), ("pure", "add-remove")] if quick else [(f, n) for f in FRAMEWORKS for n in NEIGHBOURS]
    )
    for framework, neighbours in terms:
        for statistic in STATISTICS:
            ways = _OF_WAYS.get(statistic, ("records",))
            for text in ASKED[statistic][: 1 if quick else None]:
                yield from (TriedQuestion(text, framework, neighbours, way) for way in ways[: 1 if quick else None])


def question_findings(*, quick: bool, seed: int) -> Iterator[Finding]:
    """Ask each question, have the answer audited, compare neighbouring records, and plant faults that must be found.

    Args:
        quick: one question of each statistic under each budget.
        seed: of the records.
    """
    if (asking := installed_questions()) is None:
        return
    for question in questions(quick=quick):
        with alone() as folder:
            problems = question_problems(folder, question, seed, asking)
            yield certain(GROUP, "questions", question.subject, problems, well=_WELL)


_WELL: Final = "drawn again by the second program; neighbours cost no more than was charged; planted faults are found"


def question_problems(folder: Path, question: TriedQuestion, seed: int, asking: AsksQuestions) -> list[str]:
    """What is wrong with a question that is asked here, with its ledger and key in `folder`; see `own_settings`."""
    ledger, key = folder / "ledger.db", folder / "key"
    opened(folder, question, seed)
    people = people_of(seed, question)
    try:
        root = asking.answered(asked(folder, question, people, key, asking))
        wrong = [*_found(root, key, ledger), *_moved(root, folder, question, people, key, asking)]
    except SpinewiseError as error:
        return [f"a sound question failed: {error}"]
    except FormError as error:
        return [str(error)]
    return wrong or list(_unnoticed(root, key, folder / "arms"))


def opened(folder: Path, question: TriedQuestion, seed: int) -> None:
    """Make a key, and a ledger whose budget nothing exhausts: a fault that costs too much is seen, not refused.

    The key is of the seed and the question, so that the same seed gives the same findings.
    """
    open_made_up(folder / "ledger.db", question.framework, question.neighbours, Fraction(10**6))
    MasterKey(hashlib.sha256(f"made-up records {seed}, {question.subject}".encode()).digest()).write(folder / "key")


def asked(
    folder: Path, question: TriedQuestion, people: Sequence[tuple[str, ...]], key: Path, asking: AsksQuestions
) -> Any:
    """Write records and spec, and check the question; it has a key of its own, whatever the user's settings name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "areas.csv").write_text("area\n" + "".join(f"{area}\n" for area in _AREAS), encoding="utf-8")
    rows = "".join(",".join(row) + "\n" for row in people)
    (folder / "persons.csv").write_text("person,area,age,sex,pay\n" + rows, encoding="utf-8")
    zcdp = question.framework == "zcdp"
    spec = folder / "asked.toml"
    text = _SPEC.format(
        framework=question.framework,
        budget_name="rho" if zcdp else "epsilon",
        neighbours=question.neighbours,
        unit=_UNIT if question.way in ("units", "totals") else "",
        low="-60" if question.way == "signed" else "0",
        ends='ends = "total"' if question.way == "totals" else "",
    )
    spec.write_text(text, encoding="utf-8")
    rho, epsilon = ("1/4", None) if zcdp else (None, "1")
    return asking.checked(spec, question.text, key, rho=rho, epsilon=epsilon, out=folder / "answers", name="tried")


def people_of(seed: int, question: TriedQuestion) -> list[tuple[str, ...]]:
    """Records of others: person, area, age, sex and pay."""
    rng, several = random.Random(seed), question.way in ("units", "totals")
    return [
        (
            f"p{number if not several else number // 3}", rng.choice(_AREAS), rng.choice(["0-17", "18-64", "65+"]),
            rng.choice("fm"), str(rng.randrange(-70 if question.way == "signed" else 0, 75)),
        )
        for number in range(60)
    ]  # fmt: skip


def _changes(question: TriedQuestion) -> list[list[tuple[str, ...]]]:
    """What one person's records may be, as unlike as they can be; one of them none at all."""
    ends = ("60", "-60") if question.way == "signed" else ("60", "0")
    several = question.way in ("units", "totals")
    places = ("A01", "A02"), ("B01", "B02"), ("A01", "B01"), ("A01", "A01"), ("A01", "A01", "B01")
    people: list[list[tuple[str, ...]]] = [
        [("changed", area, "65+" if sex == "f" else "18-64", sex, pay) for area in (areas if several else areas[:1])]
        for areas, sex in zip(places, "fmfmf", strict=True)
        for pay in ends
    ]
    return [[], *people]


def _moved(
    root: Path, folder: Path, question: TriedQuestion, people: list[tuple[str, ...]], key: Path, asking: AsksQuestions
) -> list[str]:
    """Whether the records of neighbours give numbers that cost more than is charged; and whether they nearly do.

    Half of the sensitivity would be found: some pair has to cost more than the budget with the noise of that.
    """
    given = MasterKey.read(key)
    variants = []
    for number, change in enumerate(_changes(question)):
        place = folder / f"neighbour{number}"
        checked = asked(place, question, [*people, *change], key, asking)
        copy = place / "answer"
        shutil.copytree(root, copy)
        asking.keep_counted(checked, given, copy)
        variants.append(Answer(copy))
    dearest: dict[str, Fraction] = {}
    for i, one in enumerate(variants):
        for j, other in enumerate(variants):
            # add-remove: one person's records, or none; change-one: the records of one for those of another.
            if i < j and (i == 0) == (question.neighbours == "add-remove"):
                for name in one.parts:
                    cost = _cost(one, other, name)
                    dearest[name] = max(dearest.get(name, Fraction(0)), cost)
    problems = []
    for name, part in variants[0].parts.items():
        least, stated = 4 if question.framework == "zcdp" else 2, Fraction(part["budget"])
        if dearest[name] > stated:
            problems.append(f"one person's change of the {name} costs {float(dearest[name]):.4g}, "
                            f"{float(stated):.4g} is charged")  # fmt: skip
        # Of one number, what is moved in two is never seen; around a choice only windows that share no number tell.
        if name != "windows" and variants[0].n_numbers > 1 and dearest[name] * least <= stated:
            problems.append(f"half of the sensitivity of the {name} is not noticed")
    return problems


def _cost(one: Answer, other: Answer, name: str) -> Fraction:
    """What telling two inputs apart by a part costs, by its scale and how its numbers differ."""
    part = one.parts[name]
    scale, zcdp = Fraction(part["scale"]), one.zcdp
    if name in ("quantile", "clip"):
        rows = [
            (losses(part, one.quantile, a), losses(part, one.quantile, b))
            for a, b in zip(one.histograms.tolist(), other.histograms.tolist(), strict=True)
        ]
        # A loss that moves up and down by c is a score of sensitivity c.
        moved = [max(abs(x - y) for x, y in zip(a, b, strict=True)) for a, b in rows]
        return sum((scale * c) ** 2 for c in moved) / Fraction(8) if zcdp else scale * sum(moved)
    if name == "windows":
        steps = steps_of(one)
        moves = (windows_of(one, steps) - windows_of(other, steps)).ravel().tolist()
    else:
        centre = int(part["centre"])
        moves = (one.numbers(name, centre) - other.numbers(name, centre)).tolist()
    return Fraction(sum(move**2 for move in moves)) / (2 * scale) if zcdp else sum(map(abs, moves)) / scale


def _found(root: Path, key: Path, ledger: Path | None) -> list[str]:
    """What the second program finds; keys are new, and are not searched for."""
    secret, _ = read_key(key)
    read = None if ledger is None else read_ledger(str(ledger))
    try:
        found = list(audit_answer(root, secret, insecure=True, ledger=read))
    except FormError as error:
        return [str(error)]
    return [f"{one.check}, {one.subject}: {one.detail}" for one in found if not one.passed]


def _unnoticed(root: Path, key: Path, folder: Path) -> Iterator[str]:
    """The arms: faults of an answer that the second program does not find."""
    sound = Answer(root)
    for name, part in sound.parts.items():
        if name in ("quantile", "clip"):
            arms = {"a choice one step away": np.where(steps_of(sound) + 1 < len(sound.candidates), 1, -1)}
        else:
            noise = noise_of(sound, name).values
            arms = {"no noise": -noise, "half the noise": noise // 2 - noise}
        for arm, shift in arms.items():
            if shift.any() and not _found(_shifted(sound, folder / f"{name} {arm}", name, shift), key, None):
                yield f"{arm} in the {name} is not noticed"
        weaker = _restated(sound, folder / f"{name} less", name, Fraction(part["scale"]))
        if not _found(weaker, key, None):
            yield f"the noise of half the sensitivity of the {name} is not noticed"


def _shifted(sound: Answer, copy: Path, name: str, shift: IntArray) -> Path:
    """The answer with other numbers of a part, and the hashes that it then needs."""
    shutil.copytree(sound.root, copy)
    names, keys = sound.keys()
    columns = dict(sound.published)
    if name == "windows":
        own = [column for column in columns if column.startswith("window")]
        moved = shift.reshape(len(keys), len(own))
        columns |= {column: columns[column] + moved[:, number] for number, column in enumerate(own)}
    else:
        columns[name] = columns[name] + shift
    path = copy / "public" / "measurements.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, *columns])
        numbers = zip(*(values.tolist() for values in columns.values()), strict=True)
        writer.writerows([*row, *one] for row, one in zip(keys, numbers, strict=True))
    stated = json.loads((copy / "public" / "answer.json").read_bytes())
    stated["files"]["measurements.csv"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (copy / "public" / "answer.json").write_text(json.dumps(stated), encoding="utf-8")
    return copy


def _restated(sound: Answer, copy: Path, name: str, scale: Fraction) -> Path:
    """The answer with a scale that half of the sensitivity would have."""
    shutil.copytree(sound.root, copy)
    path = copy / "public" / "answer.json"
    stated = json.loads(path.read_bytes())
    choice, zcdp = name in ("quantile", "clip"), sound.zcdp
    for part in stated["parts"]:
        if part["name"] == name:
            part["scale"] = str(scale * 2 if choice else scale / (4 if zcdp else 2))
    path.write_text(json.dumps(stated), encoding="utf-8")
    return copy

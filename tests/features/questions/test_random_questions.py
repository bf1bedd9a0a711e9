"""Random questions from a grammar: each is answered, or refused by a sentence; the ledger knows of all."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import pytest
from releases.asked import ask, key_at, ledger_of, spent, write_workers

from pipeline.errors import SpinewiseError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.manifest import read_answer
from pipeline.questions.quantiles import Ranked
from pipeline.questions.sensitivity import MeasuredPart, reach
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec

NAMES = ["county", "tract", "age", "sex", "wages", "shift", "race", "pay", '"two words"', "by", "0"]
SIGNS = ["=", "!=", "<", "<=", ">", ">=", "in", "is"]
VALUES = ["65", "65+", "0-17", "f", "m", "day", "x", '"18-64"', "20000", "-1", "1/3", "''", "999999999999999999999"]
STATISTICS = ["count", "count", "count", "count", "sum", "mean", "median", "mode", "most common", "most", "max", "min"]
STATISTICS += ["clip"]
ENDS = [
    "20000, 40000",
    "1e4, 30000, 90000",
    "5, 4",
    "7",
    "x, 9",
    "0, 1/2, 60000 above 1/20",
    "0, 9 above 12",
    "1, 2 above",
]
STATISTICS += [f"quantile {fraction}" for fraction in ("1/4", "0.9", "2", "1/2", "x")]
RHOS = ["1/100", "1/20", "1/1000000", "3", "0", "-1", "x", "1e-9", "1/3"]


def random_question(rng: random.Random) -> str:
    words = [rng.choice(STATISTICS)]
    if words[0].startswith("most"):
        words.append(rng.choice(["shift", "sex", "age", "wages", "2 age", "0 sex", "9 shift", "race"]))
    elif words[0] != "count" or rng.random() < 0.03:
        words.append(rng.choice(["wages", "wages", "wages", "age", "pay"]))
    if words[0] == "clip" and rng.random() < 0.9:
        words.append("among " + rng.choice(ENDS))
    elif rng.random() < 0.7:
        words.append(
            "by " + ", ".join(rng.choice(NAMES[:6] if rng.random() < 0.8 else NAMES) for _ in range(rng.randint(1, 3)))
        )
    if rng.random() < 0.6:
        conditions = [
            f"{rng.choice(NAMES[2:6] if rng.random() < 0.8 else NAMES)} {rng.choice(SIGNS)} "
            + ", ".join(rng.choice(VALUES) for _ in range(rng.choice([1, 1, 2])))
            for _ in range(rng.randint(1, 2))
        ]
        words.append("where " + " and ".join(conditions))
    if rng.random() < 0.08:
        words.append("having count " + rng.choice([">= 5", ">= 0", "> 3", ">=", ">= 99999999999999"]))
    text = " ".join(words)
    if rng.random() < 0.05:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice("\"'=,;\0é ") + text[at + 1 :]
    return text


def cost_of(part: MeasuredPart | Ranked) -> Fraction:
    """By what a changed record does at most, and the definition of zCDP."""
    if isinstance(part, MeasuredPart):
        return Fraction(2 * reach(part.part, "change-one") ** 2) / (2 * part.mechanism.scale)
    q = part.part.quantile
    squared = max(q.denominator**2, 2 * max(q.numerator, q.denominator - q.numerator) ** 2)
    least = (part.times * part.mechanism.scale) ** 2 * squared / 8
    assert least <= part.budget < least * Fraction(1001, 1000)
    return part.budget


def tried(folder: Path, n: int, seed: int, budget: str = "2") -> tuple[int, int]:
    """How many of `n` random questions were answered and refused, the ledger being compared after each answer."""
    rng, cost, answers = random.Random(seed), Fraction(0), 0
    spec = load_spec(write_workers(folder, n=30))
    key = key_at(folder / "key")
    drawn: set[str] = set()
    told: list[tuple[str, int, str]] = []
    with ledger_of(folder, budget=budget) as place:
        for _ in range(n):
            text, rho = random_question(rng), rng.choice(RHOS[:2] if rng.random() < 0.8 else RHOS)
            try:
                root = ask(spec, text, rho, key=key, out=folder / "answers")
            except SpinewiseError as error:
                told.append((text, error.exit_status, str(error)))
                continue
            manifest = read_answer(RunDirectory(root))
            answers += 1
            if manifest.fingerprint not in drawn:
                drawn.add(manifest.fingerprint)
                # By the definition of zCDP, from what is drawn and not from what was asked for.
                cost += sum(cost_of(part) for part in manifest.plan().parts)
        assert spent(place) >= cost
        assert spent(place) == cost
        with Ledger.open(str(place), state=folder / "state") as ledger:
            assert ledger.dataset("workers").left >= 0
    assert [one for one in told if one[1] not in (2, 3) or not one[2].strip() or "\n" in one[2]] == []
    return answers, len(told)


@pytest.mark.parametrize(
    ("n", "budget", "fewest"), [(60, "2", (3, 25)), pytest.param(400, "9", (30, 180), marks=pytest.mark.slow)]
)
def test_each_is_answered_or_refused_by_a_sentence(
    n: int, budget: str, fewest: tuple[int, int], tmp_path: Path
) -> None:
    answers, refused = tried(tmp_path, n, 1, budget)
    assert answers >= fewest[0]
    assert refused >= fewest[1]

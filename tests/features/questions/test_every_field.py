"""Every field of answer.json follows from the question, or is stated, of a form that is compared, and bound elsewhere.

One answer of each kind of question; each leaf of its answer.json is changed in several ways, and fields are added and
left out: `verify` refuses every change but those of fields of which it says that it compares the form alone, and of
these every one that has words or a padded number in it. A signature and `rerun` refuse all.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from releases.asked import PURE, TOTAL, UNITS, ask, ledger_of, write_workers

from pipeline.errors import ReleaseError
from pipeline.questions.manifest import read_answer
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import form_alone, verify_answer

RECODES = (
    "[strategy.queries]",
    '[schema.recodes.grown]\nattribute = "age"\ngroups = { "under 18" = ["0-17"], "18+" = ["18-64", "65+"] }\n'
    "[strategy.queries]",
)
COARSE = ('unit = "100"', 'unit = "1000"')
#: Changes of the spec, and the questions asked under it: every statistic, `having`, conditions of each kind, no level.
KINDS: dict[str, tuple[tuple[tuple[str, str], ...], tuple[str, ...]]] = {
    "plain": (
        (RECODES, COARSE),
        (
            "count by tract, sex where age >= 65",
            "count by grown where shift = day having count >= 9",
            "count where grown >= 18",
            "sum wages by county",
            "mean wages by grown",
            "quantile 1/4 wages where wages < 40000",
            "max wages by sex",
            "clip wages among 20000, 40000 where sex in f",
            "most common 2 age by county",
        ),
    ),
    "units": (
        (UNITS, TOTAL, COARSE),
        ("count units by records_per_unit where age != 0-17", "mean wages"),
    ),
    "pure": ((PURE, COARSE), ("median wages",)),
}
#: Fields as the output of `verify` names them, in the words of answer.json.
NAMED = {
    "receipts (ledger, number, hash)": r"receipts\.0\.(ledger|number|hash)",
    "software": r"software\.(version|python)|software\.packages(\.[a-z0-9-]+)?",
    "domain.recodes (labels that are compared by order)": r"domain\.recodes\.0\.groups\.\d+\.label",
}
#: Names of which the form is compared: they may have any letters.
NAMES = ("answer", "release")

Place = tuple[str | int, ...]


def leaves(content: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value below, containers too."""
    if place:
        yield place, content
    if isinstance(content, dict):
        for key, value in content.items():
            yield from leaves(value, (*place, key))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from leaves(value, (*place, number))


def others(value: Any) -> Iterator[Any]:
    """Other values in place of one: of the same type, most of the same form, and of another type."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -value - 1, str(value))
    elif isinstance(value, str):
        turned = re.sub(r"[0-9]", lambda digit: str(9 - int(digit[0])), value)
        swapped = value.translate(str.maketrans("abcdef", "bcdefa"))
        texts = [
            turned,
            swapped,
            f"{value} 80 such workers",
            f"{value}+There.are.80.men",
            "0" * 64,
            "80".zfill(64),
            f"{value}0",
            value[:-1],
            value.upper(),
            "",
            "1/2",
            f" {value}",
        ]
        yield from [text for text in dict.fromkeys(texts) if text != value]
        yield from (None, 1)
    elif value is None:
        yield from ("", "1", 0, [])
    elif isinstance(value, list):
        yield from ([*value, *value[-1:]] if value else [["x"], ["sex"]])
        yield from ([value[:-1]] if value else [])
        yield from ([value[::-1]] if value != value[::-1] else [])
    elif isinstance(value, dict):
        yield {**value, "remark": "80 such workers"}
        for key in value:
            yield {name: one for name, one in value.items() if name != key}


def with_other(content: Any, place: Place, value: Any) -> Any:
    changed = copy.deepcopy(content)
    at = changed
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return changed


def written(content: Any) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def refused(run: RunDirectory, data: bytes) -> bool:
    path = run.public / "answer.json"
    path.write_bytes(data)
    try:
        return bool(verify_answer(run))
    except ReleaseError:
        return True


@pytest.mark.parametrize(
    ("kind", "text", "of"),
    [
        ("plain", "mean wages by grown", 7),
        *(pytest.param(kind, text, 2, marks=pytest.mark.slow) for kind, (_, texts) in KINDS.items() for text in texts),
    ],
)
def test_verify_refuses_every_change_but_of_what_is_stated(kind: str, text: str, of: int, tmp_path: Path) -> None:
    """Of one in `of` changes: each field is changed in several ways."""
    pure = kind == "pure"
    spec = write_workers(tmp_path, *KINDS[kind][0], n=120)
    with ledger_of(tmp_path, framework="pure" if pure else "zcdp"):
        run = RunDirectory(ask(spec, text, None if pure else "1/20", epsilon="1/2" if pure else None))
    kept = (run.public / "answer.json").read_bytes()
    content = json.loads(kept)
    assert written(content) == kept
    assert not refused(run, kept)
    accepted: dict[str, list[str]] = {}
    number = 0
    for place, value in [((), content), *leaves(content)]:
        name = ".".join(map(str, place))
        if name.startswith("software.packages.") and not name.endswith("y"):
            continue  # numpy and scipy stand for all
        for other in others(value):
            number += 1
            if number % of == 0 and not refused(run, written(with_other(content, place, other) if place else other)):
                accepted.setdefault(name, []).append(str(other))
    for data in (kept + b"\n", kept[:-1], kept.replace(b"\n ", b"\n  "), kept.replace(b"{", b'{"answer": "x",', 1)):
        assert refused(run, data)
    (run.public / "answer.json").write_bytes(kept)
    assert number > 300
    alone = form_alone(read_answer(run))
    named = "|".join(NAMED.get(one, one) for one in alone)
    assert {name for name in accepted if not re.fullmatch(named, name)} == set()
    texts = [text for name, texts in accepted.items() if name not in NAMES for text in texts]
    assert not [text for text in texts if re.search("such|men|0{8}", text)]  # three zeros a true hash may have
    assert ("domain.recodes (labels that are compared by order)" in alone) == ("grown >=" in content["question"])

"""Every field of answer.json follows from the question, or is of a compared form; a signature and a rerun bind it.

One answer of each kind of question; each leaf of its answer.json is changed in several ways, and fields are added and
left out: `verify` refuses every change but those of fields of which it says that it compares the form alone, and of
these every one that has words or a padded number in it. A signature and `rerun` refuse all.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from releases.asked import PURE, TOTAL, UNITS, ask, drawn_again, ledger_of, write_workers
from releases.signed import Done, cli, keys_in
from releases.updated import answer_to, charged_release

from pipeline.errors import InputError, ReleaseError
from pipeline.questions.manifest import read_answer
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import form_alone, verify_answer
from pipeline.signatures.statement import sign_release, signature_problems

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
    "units": ((UNITS, TOTAL, COARSE), ("count units by records_per_unit where age != 0-17", "mean wages")),
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


QUICK = ("[input]", "[publish]\nreplicates = 0\nmargins = false\nmicrodata = false\n[input]")
OTHER = "0123456789abcdef" * 4


@pytest.fixture
def answer(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    spec = write_workers(tmp_path, n=120)
    with ledger_of(tmp_path):
        yield spec, ask(spec, "count by county, sex where age >= 18")


#: Of each field that no public file says another value of the same form.
STATED: list[tuple[tuple[str | int, ...], object]] = [
    (("answer",), "another"),
    (("release",), "another"),
    (("geography",), OTHER),
    (("key_commitment",), OTHER),
    (("key_salt",), OTHER),
    (("input_fingerprint",), OTHER),
    (("receipts", 0, "ledger"), OTHER),
    (("receipts", 0, "number"), 77),
    (("receipts", 0, "hash"), OTHER),
    (("software", "version"), "0.0.1"),
    (("software", "python"), "3.99.0"),
    (("software", "packages", "numpy"), "1.0"),
]


def test_what_verify_cannot_compute_a_signature_and_a_rerun_bind(answer: tuple[Path, Path], tmp_path: Path) -> None:
    _, root = answer
    key, _, _ = keys_in(tmp_path / "keys")
    run = RunDirectory(root)
    sign_release(run, key)
    assert (signature_problems(run, key.public()), verify_answer(run)) == ([], [])
    sound = run.answer_manifest.read_bytes()
    for place, other in STATED:
        stated = written(with_other(json.loads(sound), place, other))
        assert stated != sound
        run.answer_manifest.write_bytes(stated)
        assert verify_answer(run) == [], place
        assert signature_problems(run, key.public()) == ["public/answer.sig is the signature of another manifest"]
        if place[0] in ("answer", "geography", "key_commitment", "key_salt", "input_fingerprint"):
            with pytest.raises(InputError, match=r"nothing was (read or )?drawn|the key is not"):
                drawn_again(run)
        else:
            assert drawn_again(run) == ["answer.json"], place


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, Path]]:
    folder = tmp_path_factory.mktemp("signed")
    with charged_release(folder, QUICK) as (spec, root):
        yield spec, root, answer_to(spec, "count by tract, sex", "1/10")


def test_a_signed_release_is_used_with_answers_of_its_signer_only(
    release: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    spec, unsigned, plain = release
    key, _, public = keys_in(tmp_path / "keys")
    other, _, other_public = keys_in(tmp_path / "others")
    signed_release, answer_ = tmp_path / "release", tmp_path / "answer"
    shutil.copytree(unsigned, signed_release)
    shutil.copytree(plain, answer_)
    sign_release(RunDirectory(signed_release), key)

    def made(given: Path, *words: object, of: Path = signed_release) -> Done:
        return cli("update", of, "--with", given, "--out", tmp_path / "out", "--workers", 1, *words)

    refused = made(plain)
    assert (refused.exit_code, "--signed-by" in refused.output) == (2, True)
    refused = made(plain, "--signed-by", public)
    assert (refused.exit_code, "the answer is not signed" in refused.output.replace("\n", " ")) == (2, True)
    sign_release(RunDirectory(answer_), other)
    assert made(answer_, "--signed-by", public).exit_code == 2
    assert made(answer_, "--signed-by", other_public).exit_code == 2
    (answer_ / "public" / "answer.sig").unlink()
    sign_release(RunDirectory(answer_), key)
    assert made(answer_, "--signed-by", public, of=unsigned).exit_code == 2
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())
    done = made(answer_, "--signed-by", public)
    assert done.exit_code == 0, done.output
    asked = ("ask", spec, "count by county", "--rho", "1/100", "--out", tmp_path / "asked")
    refused = cli(*asked, "--release", signed_release)
    assert (refused.exit_code, "--signed-by" in refused.output) == (2, True)
    assert not (tmp_path / "asked").exists()  # before anything is charged
    done = cli(*asked, "--release", signed_release, "--sign-key", f"file:{tmp_path / 'keys' / 'agency.sign'}")
    assert done.exit_code == 0, done.output
    (root,) = (tmp_path / "asked").iterdir()
    assert signature_problems(RunDirectory(root), key.public()) == []
    assert b"\ncombined " in RunDirectory(root).answer_signature.read_bytes()

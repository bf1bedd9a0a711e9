"""Answers are publications: logged and proved as releases are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from releases.asked import ask, ledger_of, write_workers
from releases.signed import cli, keys_in

from features.witness.check_proof import BadProofError, check


@pytest.fixture
def answer(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    spec = write_workers(tmp_path, n=120)
    with ledger_of(tmp_path):
        yield spec, ask(spec, "count by county, sex where age >= 18")


def test_an_answer_is_logged_and_proved(answer: tuple[Path, Path], tmp_path: Path) -> None:
    _, root = answer
    _, private, public = keys_in(tmp_path / "keys")
    assert cli("sign", root, "--sign-key", f"file:{private}").exit_code == 0
    log, proof = tmp_path / "log", tmp_path / "a.tlog-proof"
    assert cli("log", "new", log, "--origin", "statistics.example/log", "--sign-key", f"file:{private}").exit_code == 0
    assert cli("log", "add", log, root, "--sign-key", f"file:{private}").exit_code == 0
    assert cli("log", "verify", log, "--signed-by", public).exit_code == 0
    assert cli("log", "prove", log, "--signed-by", public, "--release", root, "--out", proof).exit_code == 0
    assert cli("log", "check", proof, "--signed-by", public, "--release", root).exit_code == 0
    row = tmp_path / "row.json"
    made = cli("prove", root, "--area", "A", "--group", "sex=f", "--out", row)
    assert made.exit_code == 0, made.output
    proved = check(row.read_bytes(), public.read_text("ascii"))
    lines = (root / "public" / "answer.csv").read_text("utf-8").splitlines()
    assert ",".join(proved["cells"].values()) in lines
    assert (proved["cells"]["county"], proved["cells"]["sex"]) == ("A", "f")
    assert proved["question"] == "count by county, sex where age >= 18"
    assert cli("prove", "--check", row, "--signed-by", public).exit_code == 0
    forged = json.loads(row.read_bytes())
    forged["row"]["cells"][2] = "80"
    with pytest.raises(BadProofError, match="does not lead to the root"):
        check(json.dumps(forged).encode(), public.read_text("ascii"))
    for words in (("--area", "A"), ("--area", "Z", "--group", "sex=f"), ("--group", "age=65+"), ("--group", "sex")):
        refused = cli("prove", root, *words)
        assert (refused.exit_code, refused.output.count("\n") < 8) == (2, True)
    assert cli("prove", root, "--table", "race", "--area", "A").exit_code == 2


def test_an_answer_of_the_same_name_drawn_again_is_refused_by_the_log(
    answer: tuple[Path, Path], tmp_path: Path
) -> None:
    spec, root = answer
    _, private, _ = keys_in(tmp_path / "keys")
    log = tmp_path / "log"
    assert cli("log", "new", log, "--origin", "statistics.example/log", "--sign-key", f"file:{private}").exit_code == 0
    assert cli("log", "add", log, root, "--sign-key", f"file:{private}").exit_code == 0
    name = root.name
    shutil.move(root, tmp_path / "first")
    again = ask(spec, "count by county, sex where age >= 18", name=name)  # under a key of its own
    done = cli("log", "add", log, again, "--sign-key", f"file:{private}")
    assert (done.exit_code, "was drawn again, with other noise" in done.output) == (1, True)

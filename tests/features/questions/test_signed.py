"""Answers are publications: signed as releases are; with a signed release only signed ones are used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from releases.asked import ask, drawn_again, ledger_of, write_workers
from releases.signed import Done, cli, keys_in
from releases.updated import answer_to, charged_release

from pipeline.errors import InputError
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer
from pipeline.signatures.statement import drop_stale_signature, sign_release, signature_problems

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
        stated = json.loads(sound)
        at = stated
        for step in place[:-1]:
            at = at[step]
        assert at[place[-1]] != other
        at[place[-1]] = other
        run.answer_manifest.write_text(json.dumps(stated, indent=1, ensure_ascii=False) + "\n", "utf-8")
        assert verify_answer(run) == [], place
        assert signature_problems(run, key.public()) == ["public/answer.sig is the signature of another manifest"]
        if place[0] in ("answer", "geography", "key_commitment", "key_salt", "input_fingerprint"):
            with pytest.raises(InputError, match=r"nothing was (read or )?drawn|the key is not"):
                drawn_again(run)
        else:
            assert drawn_again(run) == ["answer.json"], place


def test_a_sound_answer_is_signed_and_a_changed_one_loses_its_signature(
    answer: tuple[Path, Path], tmp_path: Path
) -> None:
    _, root = answer
    _, private, public = keys_in(tmp_path / "keys")
    assert cli("verify", root, "--signed-by", public).exit_code == 1
    assert cli("sign", root, "--sign-key", f"file:{private}").exit_code == 0
    done = cli("verify", root, "--signed-by", public)
    assert (done.exit_code, "it is signed by statistics.example/answers" in done.output) == (0, True)
    run = RunDirectory(root)
    (run.public / "answer.csv").write_text("county\n", "utf-8")
    refused = cli("sign", root, "--sign-key", f"file:{private}")
    assert (refused.exit_code, "answer.csv is missing or was changed" in refused.output) == (1, True)
    assert cli("verify", root, "--signed-by", public).exit_code == 1
    drop_stale_signature(run)
    assert run.answer_signature.exists()
    stated = json.loads(run.answer_manifest.read_bytes())
    run.answer_manifest.write_text(json.dumps(stated | {"key_salt": OTHER}) + "\n", "utf-8")
    drop_stale_signature(run)
    assert not run.answer_signature.exists()


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
    verified = cli("verify", root, "--release", signed_release, "--signed-by", public)
    assert verified.exit_code == 0, verified.output
    assert cli("verify", root, "--release", signed_release).exit_code == 2
    summary = root / "public" / "combined.json"
    summary.write_text(summary.read_text("utf-8").replace('"answer": "', '"answer": "x'), "utf-8")
    assert signature_problems(RunDirectory(root), key.public()) != []

"""Answers and releases of which no version can be made; an update that is stopped or killed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.asked import ask, ledger_of, write_workers
from releases.killed import kill_update
from releases.small import run as run_release
from releases.updated import answer_to, charged_release, update
from typer.testing import CliRunner

from flows.cli import app
from pipeline.errors import InputError, ReleaseError
from pipeline.execution.steps import Silent
from pipeline.published import open_finished
from pipeline.questions.manifest import read_answer
from pipeline.questions.released.added import added_section
from pipeline.questions.released.combined import Combined
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.run_directory import open_run
from pipeline.runs.answers import combine_answer
from pipeline.runs.updates import doubt_of_records, update_release
from pipeline.runs.verify import verify_release

QUICK = ("[input]", "[publish]\nreplicates = 0\nmargins = false\nmicrodata = false\n[input]")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, Path]]:
    """The spec, its release, and an answer that could be used."""
    folder = tmp_path_factory.mktemp("refused")
    with charged_release(folder, QUICK) as (spec, release):
        yield spec, release, answer_to(spec, "count by tract, sex", "1/10")


def refused(release: Path, answers: list[Path], out: Path, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        update(release, answers, out)
    assert caught.value.exit_status == 2
    assert "\n" not in str(caught.value)
    assert not out.exists() or not any(out.iterdir())


def test_what_is_no_sum_of_cells(given: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Which questions are none, and which schemas and areas are others, is tested of answers beside a release."""
    spec, release, _ = given
    sentence = "a mean of 'wages' is no count of records; a version is made with counts of areas of a level"
    refused(release, [answer_to(spec, "mean wages by county", "1/10")], tmp_path / "new", sentence)


def test_an_answer_that_is_used_already(given: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """By whatever name: the same question with the same key has the same noise, which says nothing more."""
    spec, release, answer = given
    again = answer_to(spec, "count by tract, sex", "1/10", name="again")
    assert (again / "public/measurements.csv").read_bytes() == (answer / "public/measurements.csv").read_bytes()
    refused(release, [answer, answer], tmp_path / "a", "which is used already")
    refused(
        release, [answer, again], tmp_path / "b", "again: it is the answer 'count-tract-sex-.*, which is used already"
    )
    second = update(release, [answer], tmp_path / "second").root
    refused(second, [again], tmp_path / "c", "which is used already")
    other = answer_to(spec, "count by county", "1/10", name=answer.name, out=tmp_path / "answers")
    refused(second, [other], tmp_path / "d", "is used already; give it another --name")
    named = answer_to(spec, "count by tract", "1/20", name="sex")
    refused(release, [named], tmp_path / "e", "is called like a query")


def test_a_release_that_was_charged_to_no_ledger_or_another(given: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, release, answer = given
    uncharged = run_release(write_workers(tmp_path / "u", QUICK, ('dataset = "workers"', "")), tmp_path / "uncharged")
    refused(uncharged, [answer], tmp_path / "a", "the release was charged to no ledger")
    spec = write_workers(tmp_path / "other", QUICK)
    with ledger_of(tmp_path / "other"):
        other = ask(spec, "count by tract, sex", "1/10")
    refused(release, [other], tmp_path / "b", "ledger: the answer has [0-9a-f]{64}, and the release [0-9a-f]{64}")


def test_an_answer_of_other_records(given: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Of the same dataset and ledger: nothing that both state differs, and the numbers do."""
    spec, release, _ = given
    write_workers(tmp_path / "others", n=2000, seed=2)
    records = shutil.copy(tmp_path / "others/workers.csv", spec.parent / f"{tmp_path.name}.csv")
    other = spec.with_name(f"{tmp_path.name}.toml")
    other.write_text(spec.read_text("utf-8").replace("workers.csv", Path(records).name), "utf-8")
    answer = answer_to(other, "count by tract, sex", "1/10", number=2, out=tmp_path / "answers")
    said = f"{answer}: its counts are not of the records of {release}: the largest distance of 20 numbers"
    refused(release, [answer], tmp_path / "new", said)


@pytest.mark.parametrize(("apart", "sentence"), [(1, None), (5, "may not be of the records of"), (9, "are not of")])
def test_how_far_numbers_of_the_same_records_may_be_apart(
    given: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, apart: int, sentence: str | None
) -> None:
    """Of 20 numbers 4.1 standard deviations are exceeded once in a thousand, 6.6 once in a billion."""
    _, release, answer = given
    none, some = np.zeros(20), np.zeros(20, dtype=np.int64)
    some[7] = -10 * apart
    combined = Combined(["tract"], [("A",)] * 20, some, 64.0, none, none + 36, none, none + 23, some)
    monkeypatch.setattr("pipeline.runs.updates.put_together", lambda *_: combined)
    arguments = answer, answer / "public", read_answer(RunDirectory(answer)), open_finished(release, check_hashes=False)
    if apart == 9:
        with pytest.raises(InputError, match=sentence):
            doubt_of_records(*arguments)
    else:
        doubt = doubt_of_records(*arguments)
        assert (doubt is None) == (sentence is None)
        assert sentence is None or (sentence in str(doubt) and str(answer) in str(doubt) and str(release) in str(doubt))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dataset": "patients"}, "dataset: the answer has patients, and the release workers"),
        ({"framework": "pure"}, "framework: the answer has pure, and the release zcdp"),
        ({"neighbours": "add-remove"}, "neighbours: the answer has add-remove, and the release change-one"),
        ({"records_per_person": 3}, "records of a person: the answer has 3, and the release 1"),
    ],
)
def test_another_promise(given: tuple[Path, Path, Path], change: dict[str, Any], sentence: str) -> None:
    _, release, answer = given
    manifest = read_answer(RunDirectory(answer)).model_copy(update=change)
    with pytest.raises(InputError, match=sentence):
        added_section(manifest, "0" * 64, open_finished(release, check_hashes=False))


def test_units_of_which_answer_and_release_choose_other_records(tmp_path: Path) -> None:
    units = ('dataset = "workers"', 'dataset = "workers"\nunit = "worker"\nat_most = 2')
    sentence = "of units with several records, answer and release each choose which are counted"
    with charged_release(tmp_path, QUICK, units) as (spec, release):
        answer = answer_to(spec, "count by tract, sex", "1/10")
        refused(release, [answer], tmp_path / "new", sentence)
        with pytest.raises(InputError, match=sentence):
            combine_answer(RunDirectory(answer), release)


@pytest.mark.parametrize(("ended", "sentence"), [(False, "another process is running"), (True, "is not empty")])
def test_a_directory_of_another_process_is_left_alone(
    given: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool, sentence: str
) -> None:
    """It is made after this one has seen that there is none: while the other is at work, or when it has ended."""
    _, release, answer = given
    root, others = tmp_path / "new" / release.name, ExitStack()
    module = import_module("pipeline.runs.updates")

    def too_late(place: Path, identity: dict[str, object]) -> AbstractContextManager[RunDirectory]:
        run = others.enter_context(open_run(place, identity))
        (run.public / "theirs").touch()
        if ended:
            others.close()
        return open_run(place, identity)

    monkeypatch.setattr(module, "open_run", too_late)
    with others, pytest.raises(InputError, match=sentence):
        update(release, [answer], root.parent)
    assert (root / "public/theirs").exists()


def test_no_version_is_made_with_answers_of_what_is_drawn_where_the_area_above_is_positive(tmp_path: Path) -> None:
    """An answer could make a number positive below which nothing was drawn; texts change no number."""
    wide = ('sex = "1/2"', '"age * sex" = { share = "1/2", where = "parent positive" }')
    corrections = tmp_path / "corrections.toml"
    corrections.write_text('[report]\ntitle = "Workers"\n', "utf-8")
    with charged_release(tmp_path, QUICK, wide) as (spec, release):
        answer = answer_to(spec, "count by tract, sex", "1/10")
        refused(release, [answer], tmp_path / "new", r"'age \* sex' was drawn only where the released area above is")
        root = update_release(release, (), tmp_path / "corrected", 1, Silent(), texts=corrections).root
        assert verify_release(RunDirectory(root), 1, Silent()) == []


def test_a_version_beyond_the_usual_limits_says_so(given: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Release and answer were each within them; nobody was asked whether both together are meant."""
    spec, release, _ = given
    answer = answer_to(spec, "count by tract, age", "9/2", out=tmp_path / "answers")
    words = ["update", str(release), "--with", str(answer), "--out", str(tmp_path / "new"), "--workers", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    said = "beyond the usual limits, release and answers together: privacy.rho: found 5.5; at most 5 is usual"
    assert said in " ".join(done.stderr.split())
    assert done.stdout.strip() == str(tmp_path / "new" / release.name)
    (stated,) = read_manifest(Path(done.stdout.strip()) / "public/manifest.json").beyond_limits
    assert stated in said


OFTEN = [("start", 1), ("sync", 20), ("finish", 5)]
Made = tuple[Path, Path, Path, dict[str, bytes]]


def public_files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def made(given: tuple[Path, Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A release, two answers, and the public files of the version with the first that nobody killed."""
    spec, release, answer = given
    whole = update(release, [answer], tmp_path_factory.mktemp("whole")).root
    return release, answer, answer_to(spec, "count by county", "1/10"), public_files(whole / "public")


@pytest.mark.parametrize(
    ("event", "number"),
    [("sync", 8), ("start", 4), *(pytest.param(event, number, marks=pytest.mark.slow) for event, number in OFTEN)],
)
def test_an_update_goes_on_after_a_kill(made: Made, tmp_path: Path, event: str, number: int) -> None:
    release, answer, other, wanted = made
    assert kill_update(release, answer, tmp_path / "out", event, number)
    root = tmp_path / "out" / "work"
    assert not (root / "public" / "manifest.json").exists()
    if (root / "restricted" / "run.json").exists():
        with pytest.raises(InputError, match="is not empty"):  # another update does not take it over
            update(release, [other], tmp_path / "out")
    tables = root / "public" / "measurements"
    done = {path: path.stat().st_mtime_ns for path in tables.rglob("*.parquet") if "count-tract" in path.name}
    done = done if event == "start" else {}
    assert done or (event, number) != ("start", 4)
    made_again = update(release, [answer], tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in done} == done, "a step that was done is not done again"
    assert made_again.root == root
    assert not made_again.done_before
    assert public_files(root / "public") == wanted
    with pytest.raises(InputError, match="is not empty"):
        update(release, [other], tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert update(release, [answer], tmp_path / "out") == replace(made_again, done_before=True)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_finished_version_that_was_changed_is_not_called_done(made: Made, tmp_path: Path) -> None:
    release, answer, _, _ = made
    table = next((update(release, [answer], tmp_path / "out").root / "public" / "tables").rglob("*.parquet"))
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(ReleaseError, match="was changed"):
        update(release, [answer], tmp_path / "out")

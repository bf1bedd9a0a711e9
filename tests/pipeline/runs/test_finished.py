"""A finished run that is started again is recognised by what it was made from; nothing else is ever said to be it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from releases.command import spinewise
from releases.small import QUICK, public_bytes, request_of, run, write_town
from releases.updated import charged_release, key_of

import pipeline
from pipeline.errors import InputError
from pipeline.execution.progress import Silent
from pipeline.execution.settings import load_settings
from pipeline.execution.steps import Step, perform_here
from pipeline.model.memory_table import MemoryTable
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import held
from pipeline.runs import finished
from pipeline.runs.finished import is_finished
from pipeline.runs.request import CheckedRequest
from pipeline.runs.run import MeasuredHere, release_run
from pipeline.runs.run_here import run_here


class Listening(Silent):
    """Keeps what was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self, step: Step) -> None:
        self.told.append(step.name)

    def found(self) -> None:
        self.told.append("found")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the town's files in `in` and its release in `out`, with a key of its own."""
    folder = tmp_path_factory.mktemp("finished")
    spec = write_town(folder / "in", *QUICK, ('key = "insecure-test:1"\n', ""))
    MasterKey.generate().write(folder / "in" / "key")
    run(spec, folder / "out", key_file=folder / "in" / "key", i_know=True)
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Iterator[Path]:
    """The same files at the same place, put back afterwards."""
    shutil.copytree(made, tmp_path / "kept")
    yield made
    shutil.rmtree(made)
    shutil.copytree(tmp_path / "kept", made)


def request(folder: Path) -> CheckedRequest:
    return request_of(folder / "in" / "release.toml", folder / "out", key_file=folder / "in" / "key", i_know=True)


def recognised(checked: CheckedRequest) -> bool:
    return is_finished(checked, MeasuredHere(checked.keyholder()))


def test_the_same_again_does_nothing(copied: Path) -> None:
    """Nor does what decides nothing: a comment in the spec, the time of a file, the number of processes."""
    root = copied / "out" / "town"
    spec = copied / "in" / "release.toml"
    spec.write_text(f"# of today\n{spec.read_text()}")
    os.utime(copied / "in" / "persons.csv", (1, 1))
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.name != "lock"}
    checked, progress = request(copied), Listening()
    assert run_here(replace(checked, request=replace(checked.request, workers=7)), progress, load_settings()) == root
    assert progress.told == ["found"]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def _with_the_same_time(path: Path, change: Callable[[bytes], bytes]) -> None:
    before, content = path.stat(), path.read_bytes()
    changed = change(content)
    assert changed != content
    assert len(changed) == len(content)
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _exchanged(content: bytes) -> bytes:
    """The last two lines in the other order: the same counts."""
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:-2], lines[-1], lines[-2]])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    _with_the_same_time(path, lambda _: bytes(content))


def _spec(old: str, new: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "in" / "release.toml"
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))

    return change


def _another_key(folder: Path) -> None:
    (folder / "in" / "key").unlink()
    MasterKey.generate().write(folder / "in" / "key")


#: What makes another release of it, or one that is not whole.
OTHERS: dict[str, Callable[[Path], object]] = {
    **{
        f"bytes of {name}, with the same size and time": lambda folder, name=name: _with_the_same_time(  # type: ignore[misc]
            folder / "in" / name, _exchanged
        )
        for name in ("persons.csv", "units.csv", "blocks.csv", "facilities.csv")
    },
    "the spec": _spec('rho = "2"', 'rho = "3"'),
    "how records are read": _spec('form = "microdata"\n', 'form = "microdata"\nseparator = ";"\n'),
    "the key": _another_key,
    "a changed table": lambda folder: _flip(folder / "out/town/public/tables/total/tract.parquet"),
    "a changed manifest": lambda folder: _flip(folder / "out/town/public/manifest.json"),
    "no manifest": lambda folder: (folder / "out/town/public/manifest.json").unlink(),
    "a file less": lambda folder: (folder / "out/town/public/report.html").unlink(),
    "a file more": lambda folder: (folder / "out/town/public/more.csv").write_text("1"),
    "a restricted file less": lambda folder: (folder / "out/town/restricted/histograms/tract.parquet").unlink(),
    "an empty note": lambda folder: (folder / "out/town/restricted/finished.json").write_text("{}"),
    "a damaged note": lambda folder: (folder / "out/town/restricted/finished.json").write_text("["),
    "no note": lambda folder: (folder / "out/town/restricted/finished.json").unlink(),
}  # fmt: skip


def test_what_is_another_or_not_whole_is_not_finished(copied: Path, tmp_path: Path) -> None:
    for what, change in OTHERS.items():
        change(copied)
        assert not recognised(request(copied)), what
        shutil.rmtree(copied)
        shutil.copytree(tmp_path / "kept", copied)
    assert recognised(request(copied))


def test_another_program_may_give_another_release(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is its code and the versions of what it uses."""
    root = Path(str(pipeline.__file__)).parents[1]
    for package in ("geography", "postprocess", "pipeline", "features"):
        shutil.copytree(root / package, tmp_path / package)
    assert recognised(request(made))
    monkeypatch.setattr(pipeline, "__file__", str(tmp_path / "pipeline" / "__init__.py"))
    assert recognised(request(made))
    code = tmp_path / "postprocess" / "families" / "rounding.py"
    code.write_text(f"{code.read_text()}\n")
    assert not recognised(request(made))


def test_records_that_are_not_in_a_file_are_counted_again(made: Path) -> None:
    checked = request(made)
    own = checked.universes[0]
    held_table = replace(own, input=replace(own.require_input(), file=MemoryTable("records", "records")))
    assert not recognised(replace(checked, universes=(held_table, *checked.universes[1:])))


def test_two_processes_do_not_meet(made: Path) -> None:
    with held(RunDirectory(made / "out" / "town")), pytest.raises(InputError, match="another process is running"):
        recognised(request(made))


def test_a_file_that_changes_while_it_is_counted_is_not_taken_for_what_was_counted(copied: Path) -> None:
    """What was read may be neither the file before nor the one after."""
    shutil.rmtree(copied / "out")
    checked = request(copied)

    class Changing(Silent):
        def start(self, step: Step) -> None:
            if step.name == "check":
                _with_the_same_time(copied / "in" / "persons.csv", _exchanged)

    with release_run(checked, Changing(), perform_here, MeasuredHere(checked.keyholder())) as going:
        going.count()
        assert going._sealed == ""
    with release_run(checked, Silent(), perform_here, MeasuredHere(checked.keyholder())) as going:
        going.count()
        assert len(going._sealed) == 64


def test_nothing_of_the_records_can_be_tested_against_what_is_noted(made: Path) -> None:
    """The note holds keyed hashes and hashes of public files alone."""
    run_directory = RunDirectory(made / "out" / "town")
    content = json.loads(run_directory.finished.read_bytes())
    assert content.keys() == {"seal", "manifest", "restricted"}
    assert run_directory.finished.stat().st_mode & 0o777 == 0o600
    shown = request(made)
    here = finished.ingredients_of(shown)
    other = MeasuredHere(replace(shown, request=replace(shown.request, key=type(shown.request.key)(None))).keyholder())
    assert here is not None
    assert other.seal(run_directory, here) == ""  # the run did not keep the key that it was handed


@pytest.mark.slow
def test_a_charged_release_is_recognised_where_its_ledger_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with charged_release(tmp_path, ("[input]", "[publish]\nreplicates = 0\nmargins = false\n[input]")) as (spec, root):
        checked = request_of(spec, tmp_path / "out", key_file=key_of(tmp_path / "in", 1))
        settings = load_settings()
        with Ledger.open(settings.ledger) as ledger:
            before = ledger.events()
        assert RunDirectory(root).finished.exists()
        assert recognised(checked)
        with Ledger.open(settings.ledger) as ledger:
            assert ledger.events() == before
        monkeypatch.setenv("SPINEWISE_LEDGER", str(tmp_path / "other.db"))
        assert not recognised(checked)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [[], ["--no-prefect"]])
def test_the_command_finds_it_soon(copied: Path, engine: list[str]) -> None:
    """Without importing an engine, or a solver of others."""
    before = public_bytes(copied / "out" / "town")
    command = ["run", "in/release.toml", "--out", "out", "--key", "file:in/key", "--i-know", *engine]
    done = spinewise(*command, cwd=copied, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "nothing was computed, drawn or charged" in done.stderr
    assert "pipeline.runs.finished" in imported
    assert imported & {"prefect", "dask", "distributed", "cvxpy"} == set()
    assert public_bytes(copied / "out" / "town") == before

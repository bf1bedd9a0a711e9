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


def stamps(root: Path) -> dict[str, int]:
    """When each public file was written."""
    return {str(path): path.stat().st_mtime_ns for path in (root / "public").rglob("*")}


def test_the_same_again_does_nothing(made: Path) -> None:
    root = made / "out" / "town"
    before, written, log = public_bytes(root), stamps(root), RunDirectory(root).log.read_bytes()
    progress = Listening()
    assert run_here(request(made), progress, load_settings()) == root
    assert progress.told == ["found"]
    assert public_bytes(root) == before
    assert stamps(root) == written
    assert RunDirectory(root).log.read_bytes() == log


def test_what_decides_nothing_may_change(copied: Path) -> None:
    """A comment in the spec, the time of a file, the number of processes."""
    spec = copied / "in" / "release.toml"
    spec.write_text(f"# of today\n{spec.read_text()}")
    os.utime(copied / "in" / "persons.csv", (1, 1))
    checked = request(copied)
    assert recognised(replace(checked, request=replace(checked.request, workers=7)))


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
    assert lines[-1] != lines[-2]
    return b"".join([*lines[:-2], lines[-1], lines[-2]])


@pytest.mark.parametrize("name", ["persons.csv", "units.csv", "blocks.csv", "facilities.csv"])
def test_bytes_are_compared_and_not_sizes_or_times(copied: Path, name: str) -> None:
    assert recognised(request(copied))
    _with_the_same_time(copied / "in" / name, _exchanged)
    assert not recognised(request(copied))


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    _with_the_same_time(path, lambda _: bytes(content))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: _flip(root / "public" / "tables" / "total" / "tract.parquet"),
        lambda root: _flip(root / "public" / "manifest.json"),
        lambda root: (root / "public" / "report.html").unlink(),
        lambda root: (root / "public" / "more.csv").write_text("1"),
        lambda root: (root / "restricted" / "accuracy.json").unlink(),
        lambda root: (root / "restricted" / "histograms" / "tract.parquet").unlink(),
        lambda root: (root / "restricted" / "finished.json").write_text("{}"),
        lambda root: (root / "restricted" / "finished.json").write_text("["),
        lambda root: (root / "restricted" / "finished.json").unlink(),
        lambda root: (root / "public" / "manifest.json").unlink(),
    ],
)
def test_what_is_not_whole_is_not_finished(copied: Path, change: Callable[[Path], object]) -> None:
    change(copied / "out" / "town")
    assert not recognised(request(copied))


@pytest.mark.slow
def test_what_is_damaged_is_made_again_and_then_recognised(copied: Path) -> None:
    root = copied / "out" / "town"
    before = public_bytes(root)
    _flip(root / "public" / "tables" / "total" / "tract.parquet")
    progress = Listening()
    run_here(request(copied), progress, load_settings())
    assert "found" not in progress.told
    assert public_bytes(root) == before
    assert recognised(request(copied))


def test_another_spec_is_another_release(copied: Path) -> None:
    spec = copied / "in" / "release.toml"
    spec.write_text(spec.read_text().replace('rho = "2"', 'rho = "3"'))
    assert not recognised(request(copied))


def test_how_records_are_read_belongs_to_it(copied: Path) -> None:
    """Nothing of `[input]` is public; the same bytes read in another way are other records."""
    spec = copied / "in" / "release.toml"
    stated = 'form = "microdata"\ngeocode = "block"'
    assert spec.read_text().count(stated) == 1
    spec.write_text(spec.read_text().replace(stated, f'{stated}\nseparator = ";"'))
    assert not recognised(request(copied))


def test_another_key_is_another_release(copied: Path) -> None:
    (copied / "in" / "key").unlink()
    MasterKey.generate().write(copied / "in" / "key")
    assert not recognised(request(copied))
    (copied / "in" / "key").unlink()
    with pytest.raises(InputError, match="in/key: cannot be opened"):
        recognised(request(copied))


def test_another_program_may_give_another_release(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recognised(request(made))
    monkeypatch.setattr(finished, "_program", lambda: ["other"])
    assert not recognised(request(made))


def test_the_program_is_its_code_and_the_versions_of_what_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(str(pipeline.__file__)).parents[1]
    for package in ("geography", "postprocess", "pipeline", "features"):
        shutil.copytree(root / package, tmp_path / package)
    versions, here = finished._program()
    assert versions["packages"]["numpy"]
    monkeypatch.setattr(pipeline, "__file__", str(tmp_path / "pipeline" / "__init__.py"))
    assert finished._program() == [versions, here]
    code = tmp_path / "postprocess" / "families" / "rounding.py"
    code.write_text(f"{code.read_text()}\n")
    assert finished._program()[1] != here


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
    command = ["run", "in/release.toml", "--out", "out", "--key", "file:in/key", "--i-know", *engine]
    done = spinewise(*command, cwd=copied, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    said = [line for line in lines if not line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert any("nothing was computed, drawn or charged" in line for line in said)
    assert not any("tabulate" in line for line in said)
    assert "pipeline.runs.finished" in imported
    assert imported & {"prefect", "dask", "distributed", "cvxpy"} == set()
    quiet = spinewise("--quiet", *command, cwd=copied)
    assert (quiet.stdout, quiet.stderr.count("nothing was")) == (done.stdout, 0)

"""A finished run that is started again is recognised by what it was made from; what several cost together is told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from releases.series_town import INDEPENDENT, write_series_town
from releases.series_town import SPEC as SERIES_TOWN
from releases.small import QUICK, request_of, run, run_period, write_town
from releases.updated import charged_release, key_of

import pipeline
from pipeline.execution.settings import load_settings
from pipeline.execution.steps import Silent, Step, perform_here
from pipeline.model.exact import epsilon_text
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs import finished
from pipeline.runs.finished import added_up, is_finished
from pipeline.runs.receipts import chosen_elsewhere, chosen_uncharged
from pipeline.runs.request import CheckedRequest
from pipeline.runs.run import Records, holder_here, release_run
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
    return is_finished(checked, holder_here(checked))


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


def test_a_file_that_changes_while_it_is_counted_is_not_taken_for_what_was_counted(copied: Path) -> None:
    """What was read may be neither the file before nor the one after."""
    shutil.rmtree(copied / "out")
    checked = request(copied)

    class Changing(Silent):
        def start(self, step: Step) -> None:
            if step.name == "check":
                _with_the_same_time(copied / "in" / "persons.csv", _exchanged)

    with release_run(checked, Changing(), perform_here, holder_here(checked)) as going:
        next(going.stages()).perform()
        assert cast("Records", going.source).sealed == ""
    with release_run(checked, Silent(), perform_here, holder_here(checked)) as going:
        next(going.stages()).perform()
        assert len(cast("Records", going.source).sealed) == 64


def test_nothing_of_the_records_can_be_tested_against_what_is_noted(made: Path) -> None:
    """The note holds keyed hashes and hashes of public files alone."""
    run_directory = RunDirectory(made / "out" / "town")
    content = json.loads(run_directory.finished.read_bytes())
    assert content.keys() == {"seal", "manifest", "restricted"}
    assert run_directory.finished.stat().st_mode & 0o777 == 0o600
    shown = request(made)
    here = finished.ingredients_of(shown)
    other = holder_here(replace(shown, request=replace(shown.request, key=type(shown.request.key)(None))))
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases of one file, a third of another one, and one with a test key."""
    root = tmp_path_factory.mktemp("added")
    own = (*QUICK, ('key = "insecure-test:1"\n', ""))
    for number, name in enumerate(("first", "second", "trial")):
        changes = QUICK if name == "trial" else own
        spec = write_town(root / "in", *changes, ('name = "town"', f'name = "{name}"'))
        text = spec.read_text().replace('rho = "2"', f'rho = "{number + 1}"')
        spec.write_text(text)
        run(spec, root / "out", i_know=True)
    spec = write_town(root / "elsewhere", *own, ('name = "town"', 'name = "third"'))
    run(spec, root / "out", i_know=True)
    return root / "out"


def test_losses_of_one_file_are_added_up(folder: Path) -> None:
    """Of all universes of both releases; the total is the sum of what each states of a person."""
    totals = [read_manifest(RunDirectory(folder / name).manifest).joint for name in ("first", "second")]
    rho = sum((Fraction(one.budget) for one in totals if one is not None), Fraction(0))
    epsilon = epsilon_text(zcdp_epsilon(rho, Fraction("1e-10")))
    said = (
        "Releases of the same records add up: {} in this folder counted the same file, together rho = "
        f"{float(rho):g}, at most epsilon = {epsilon} at delta = 1e-10. No ledger counts them."
    )
    assert rho == 1 + 2 + 2 * 1, "persons with rho = 1 and 2, and the units of each with rho = 1"
    assert added_up(RunDirectory(folder / "first")) == said.format("second")
    assert added_up(RunDirectory(folder / "second")) == said.format("first")


def test_a_series_has_one_budget(tmp_path: Path) -> None:
    """Its records may be in one file that is written anew each year; with a release that is alone both are added."""
    own = ('key = "insecure-test:1"\n', "")
    spec = write_series_town(tmp_path / "in", own, *INDEPENDENT)
    for year in ("2031", "2032"):
        run_period(spec, tmp_path / "out", year)
    series = '[series]\nname = "padron"\nfrom = 2031\nto = 2033\n'
    alone = write_series_town(tmp_path / "alone", own, spec=SERIES_TOWN.replace(series + INDEPENDENT[0][0], ""))
    run(alone, tmp_path / "out", data=tmp_path / "in" / "persons-2031.csv")
    assert added_up(RunDirectory(tmp_path / "out" / "padron")).startswith(
        "Releases of the same records add up: padron-2031, padron-2032 in this folder counted the same file, together "
        "rho = 4, "
    )
    said = "Releases of the same records add up: padron in this folder counted the same file, together rho = 4, "
    assert added_up(RunDirectory(tmp_path / "out" / "padron-2032")).startswith(said)
    shutil.rmtree(tmp_path / "out" / "padron")
    assert added_up(RunDirectory(tmp_path / "out" / "padron-2032")) == ""


@pytest.mark.parametrize(
    ("dataset", "ledger", "found"),
    [("people", "a", None), ("people", "b", "the ledger bbbb"), ("homes", "a", "no receipt for the dataset 'people'")],
)
def test_an_end_that_was_chosen_with_another_ledger_or_dataset_is_told(
    dataset: str, ledger: str, found: str | None
) -> None:
    """One ledger counts the release and the answer that chose an end of its amounts."""
    answer = SimpleNamespace(name="clip-1")
    chosen = SimpleNamespace(dataset="people", ledger="a" * 64, answer=answer, question="clip wages among 1, 2")
    spec: Any = SimpleNamespace(chosen_ends={"wages": chosen})
    receipt: Any = SimpleNamespace(dataset=dataset, ledger=ledger * 64)
    said = list(chosen_elsewhere(spec, [receipt]))
    assert [text.partition(":")[0] for text in said] == ["companions.wages.between"] * (found is not None)
    assert found is None or found in said[0]
    (uncharged,) = chosen_uncharged(spec, "a" * 64, [])
    assert "the ledger has no charge to 'people' for the question" in uncharged


@pytest.mark.slow
def test_the_ledger_knows_what_was_charged(tmp_path: Path) -> None:
    quick = ("[input]", "[publish]\nreplicates = 0\nmargins = false\n[input]")
    with charged_release(tmp_path, quick) as (spec, root):
        assert added_up(RunDirectory(root)) == ""
        name = read_manifest(RunDirectory(root).manifest).release
        spec.write_text(spec.read_text().replace(f'name = "{name}"', 'name = "again"'))
        again = run(spec, tmp_path / "other", key_file=key_of(tmp_path / "in", 2))
        said = added_up(RunDirectory(again))
        assert said.startswith(
            f"Releases of the same records add up: with {name} the ledger has charged rho = 2 of 9 to"
        )
        assert said.endswith("; 7 is left.")
    assert MasterKey.read(key_of(tmp_path / "in", 2)) != MasterKey.read(key_of(tmp_path / "in", 1))

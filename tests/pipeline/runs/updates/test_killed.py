"""`update` killed by -9 anywhere: the same start goes on, and ends with the bytes of one that was never killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from releases.killed_update import kill_update
from releases.updated import answer_to, charged_release, update

from pipeline.errors import InputError, ReleaseError

QUICK = ("[input]", "[publish]\nreplicates = 0\nmargins = false\nmicrodata = false\n[input]")
OFTEN = [("start", 1), ("sync", 20), ("finish", 5)]
Made = tuple[Path, Path, Path, dict[str, bytes]]


def public_files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A release, two answers, and the public files of the version with the first that nobody killed."""
    folder = tmp_path_factory.mktemp("killed")
    with charged_release(folder, QUICK) as (spec, release):
        answer, other = answer_to(spec, "count by tract, sex", "1/10"), answer_to(spec, "count by county", "1/10")
        yield release, answer, other, public_files(update(release, [answer], folder / "whole").root / "public")


@pytest.mark.parametrize(
    ("event", "number"),
    [
        ("sync", 8),
        ("start", 4),
        *(pytest.param(event, number, marks=pytest.mark.slow) for event, number in OFTEN),
    ],
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

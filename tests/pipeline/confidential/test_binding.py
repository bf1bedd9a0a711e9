"""Noise is bound to all tables that a release has of the same records: where one changes, nothing drawn stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from releases.small import public_bytes, run, write_town
from releases.wages import OVER, write_wages
from releases.wide import CHOSEN, write_wide

from pipeline.confidential.steps import ConfidentialSteps
from pipeline.privacy.keys import MasterKey


@dataclass(frozen=True)
class Drawn:
    """What was drawn with one key.

    Attributes:
        streams: keys of all streams of noise and choices.
        measured: files of measurements -> their bytes.
        fingerprints: of the records, as they are published.
    """

    streams: frozenset[bytes]
    measured: Mapping[str, bytes]
    fingerprints: frozenset[str]


class _StopError(Exception):
    """Everything is drawn; what comes after it is not looked at here."""


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Drawn]:
    """Measures by a spec, whose test key is always the same."""
    streams, published = set[bytes](), set[str]()
    sound = MasterKey.stream_key

    def noted(self: MasterKey, *place: Any) -> bytes:
        stream: bytes = sound(self, *place)
        streams.add(stream)
        return stream

    def end(self: ConfidentialSteps) -> None:
        published.update(self.statement().fingerprints.values())
        marginals = self.job.spec.public_dict().get("marginals") or {}
        published.update(text for name, text in (marginals.get("chosen") or {}).items() if name == "records")
        raise _StopError

    monkeypatch.setattr(MasterKey, "stream_key", noted)
    monkeypatch.setattr(ConfidentialSteps, "end", end)

    def drawn(spec: Path) -> Drawn:
        streams.clear()
        published.clear()
        with pytest.raises(_StopError):
            run(spec, spec.parent / "out")
        (root,) = (spec.parent / "out").iterdir()
        measured = {name: content for name, content in public_bytes(root).items() if "measurements/" in name}
        return Drawn(frozenset(streams), measured, frozenset(published))

    return drawn


def _change(records: Path, name: str) -> None:
    """Give the first record another value of a column: the next one that the file has."""
    header, first, *others = records.read_text("utf-8").splitlines()
    column, own = header.split(",").index(name), first.split(",")
    own[column] = next(text for line in others if (text := line.split(",")[column]) != own[column])
    records.write_text("\n".join([header, ",".join(own), *others]) + "\n", encoding="utf-8")


def write_both(folder: Path) -> Path:
    """Counts and amounts of the same persons."""
    folder.mkdir()
    return write_wages(folder, OVER)


@pytest.mark.parametrize(
    ("write", "name", "files"),
    [
        pytest.param(write_wide, "car", 12, id="cliques: a value"),
        pytest.param(lambda folder: write_wide(folder, CHOSEN), "car", 12, id="cliques that are chosen: a value"),
        pytest.param(lambda folder: write_wide(folder, CHOSEN), "block", 12, id="chosen: the area, within the top"),
        pytest.param(write_both, "wage", 2, id="counts and amounts: an amount"),
    ],
)
def test_nothing_that_is_drawn_stays_where_one_record_changes(
    draw: Callable[[Path], Drawn], tmp_path: Path, write: Callable[[Path], Path], name: str, files: int
) -> None:
    """With noise bound to each clique's own table, nine of twelve files stayed; with each universe's, all counts."""
    before, after = (write(tmp_path / folder) for folder in ("before", "after"))
    _change(after.parent / "persons.csv", name)
    one, other = draw(before), draw(after)
    assert len(one.measured) >= files
    assert write is not write_both or {file.split("/")[2] for file in one.measured} >= {"over", "wages"}
    assert [file for file, content in one.measured.items() if other.measured.get(file) == content] == []
    assert not one.streams & other.streams
    assert not one.fingerprints & other.fingerprints


def test_other_records_have_a_fingerprint_of_their_own(draw: Callable[[Path], Drawn], tmp_path: Path) -> None:
    """Units are no table of the persons: as docs/privacy.md says, their numbers stay where a person changes."""
    before, after = (write_town(tmp_path / folder) for folder in ("before", "after"))
    _change(after.parent / "persons.csv", "sex")
    one, other = draw(before), draw(after)
    same = {file for file, content in one.measured.items() if other.measured[file] == content}
    assert same == {file for file in one.measured if file.startswith("public/companions/units/")}
    assert len(one.fingerprints & other.fingerprints) == 1

"""What a user could get wrong is refused at once: one message says where, what was found and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.command import PROJECT, forks

from matrix.case import Case, Refusal, environment_of
from matrix.cases import CASES, REFUSALS

_CASES = {case.name: case for case in CASES}


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row.id)
def test_nothing_is_drawn_charged_or_written(row: Refusal, tmp_path: Path) -> None:
    case: Case = _CASES[row.case]
    case.write(tmp_path)
    *before, last = case.commands
    for command in before:
        assert forks().run(["flows.cli", *command], environment_of(tmp_path, PROJECT), tmp_path, 600).returncode == 0
    if callable(row.change):
        row.change(tmp_path)
    else:
        spec = next(path for path in sorted(tmp_path.rglob("*.toml")) if row.change[0] in path.read_text("utf-8"))
        text = spec.read_text("utf-8")
        assert text.count(row.change[0]) == 1, f"{row.change[0]!r} stands {text.count(row.change[0])} times in the spec"
        spec.write_text(text.replace(*row.change), "utf-8")
    kept = _files(tmp_path)
    done = forks().run(["flows.cli", *(row.command or last)], environment_of(tmp_path, PROJECT), tmp_path, 600)
    said = " ".join(done.stderr.split())
    assert (done.returncode, "Traceback" in said) == (row.status, False), said
    assert [text for text in row.told if text not in said] == [], said
    assert _files(tmp_path) == kept


def _files(folder: Path) -> dict[str, bytes]:
    """Published files, a ledger and drawn streams; a run notes its refusal in restricted/."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if "/restricted/" not in name}

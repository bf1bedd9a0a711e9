"""The three ways of `spinewise verify`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from releases.command import spinewise


def test_records_as_json(town: Path) -> None:
    done = spinewise("--quiet", "verify", town, "--records", "--json")
    found = json.loads(done.stdout)
    assert found["same"] is True
    assert found["problems"] == []
    assert found["files"] == sum(1 for path in (town / "public").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--records", "--constraints"], "--constraints: found with --records, which does without"),
        (["--records", "--signed-by", "agency.sign.pub"], "--signed-by: found with --records"),
        (["--constraints", "--central", "other"], "--central: found with --constraints"),
        (["--data", "persons.csv"], "--data: found without --records, which it is for"),
        (["--constraints", "--key", "file:key"], "--key: found without --records"),
    ],
)
def test_an_option_of_another_way_is_refused(town: Path, options: list[str], told: str) -> None:
    done = spinewise("verify", town, *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stdout == ""

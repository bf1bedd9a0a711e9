"""New versions of a release from Python: those of the command, opened, with its remarks as warnings."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import public_bytes
from releases.updated import answer_to, charged_release
from releases.updated import update as made_by_command

import spinewise as sw

QUICK = ("[input]", "[publish]\nreplicates = 0\nmargins = false\nmicrodata = false\n[input]")


def test_a_version_is_that_of_the_command_and_opened(tmp_path: Path) -> None:
    with charged_release(tmp_path, QUICK) as (spec, release):
        answer = answer_to(spec, "count by tract, sex", "1/10")
        expected = made_by_command(release, [answer], tmp_path / "command").root
        opened = sw.update(sw.open_release(release), [sw.Answer(answer)], out=tmp_path / "python", workers=1)
        assert public_bytes(opened.directory) == public_bytes(expected)
        assert opened.table("sex", level="tract").shape[0] == 10
        with pytest.raises(sw.InputError, match="is used already"):
            sw.update(opened.directory, [str(answer)], out=tmp_path / "again", workers=1, progress=False)
        large = answer_to(spec, "count by tract, age", "9/2", out=tmp_path / "answers")
        with pytest.warns(UserWarning, match="beyond the usual limits: privacy.rho: found 5"):
            sw.update(release, [large], out=tmp_path / "large", workers=1, progress=False)

"""A release that is whole is true, one that was changed is not, and says where."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from releases.small import public_bytes

import spinewise as sw


@pytest.mark.slow
def test_whole_and_changed(tmp_path: Path, spec: sw.Spec, persons: pd.DataFrame, blocks: pd.DataFrame) -> None:
    release = sw.run(spec, persons, blocks, out=tmp_path, workers=1)
    found = sw.verify(release, workers=1)
    assert found
    assert found.problems == ()
    assert found.files == len(public_bytes(release.directory)) - 1  # without the manifest
    assert f"{release.directory} is whole: each of {found.files} public files" in repr(found)
    assert sw.verify(release.directory / "public", workers=1)
    target = release.directory / "public" / "tables" / "sex" / "county.parquet"
    target.write_bytes(target.read_bytes()[:-1])
    found = sw.verify(release, workers=1)
    assert not found
    assert any("tables/sex/county.parquet" in problem for problem in found.problems)
    assert repr(found).startswith(f"{release.directory} does not verify:\n  ")


def test_a_notebook_shows_the_outcome_and_each_problem_as_text() -> None:
    """Names of files are of whoever made the release, and must not become markup."""
    problems = tuple(f"public/<img src=x onerror=alert({number})>: changed" for number in range(22))
    whole, broken = sw.Verification(Path("a<b"), 3, ()), sw.Verification(Path("a<b"), 3, problems)
    assert "a&lt;b is whole" in whole._repr_html_()
    page = broken._repr_html_()
    assert "<li>public/&lt;img src=x onerror=alert(0)&gt;" in page
    assert (page.count("<li>"), "<li>and 2 more</li></ul>" in page, "<img" in page) == (21, True, False)
    assert "<li>a &amp; b</li>" in sw.RerunResult(Path("r"), 5, ("a & b",), ("other versions",))._repr_html_()


def test_nothing_is_there(tmp_path: Path) -> None:
    with pytest.raises(sw.InputError, match="no finished release is here"):
        sw.verify(tmp_path)
    with pytest.raises(sw.InputError, match="no such folder"):
        sw.open_release(tmp_path / "none")


def test_names_of_folders_that_lead_nowhere(tmp_path: Path) -> None:
    link = tmp_path / "release"
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(sw.InputError, match=r"is a link to .*gone, which is not there"):
        sw.verify(link)
    with pytest.raises(sw.InputError, match=r"'.*\\udce9': the folder's name is not UTF-8"):
        sw.verify(tmp_path / "caf\udce9")

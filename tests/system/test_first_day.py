"""A new user's first day, from README alone: a release, its report, another budget, both side by side, verified."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from releases.command import needs, spinewise
from releases.county import keep_county

README = Path(__file__).resolve().parents[2] / "README.md"


def shell_lines() -> list[list[str]]:
    """Every line of shell in README, in its order; but for blocks that need files of the reader's own."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks if not block.startswith("# with ") for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def test_the_two_commands_to_begin_with_are_named() -> None:
    """The release of the example, and the tests."""
    assert shell_lines()[:2] == [["make", "release"], ["make", "test"]]


@needs("report")
@pytest.mark.slow
def test_the_readme_alone_leads_from_nothing_to_a_checked_release(tmp_path: Path, prefect_home: Path) -> None:
    def told(*words: str) -> str:
        done = spinewise(*words, timeout=900, cwd=tmp_path, PREFECT_HOME=str(prefect_home))
        assert done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    walked = []
    for words in shell_lines():
        if words == ["make", "release"]:
            told("example", "example")
            spec = tmp_path / "example" / "release.toml"
            # One county and a few simulated runs are enough here.
            keep_county(spec.parent, "99001")
            spec.write_text(spec.read_text("utf-8").replace("replicates = 20", "replicates = 2"), "utf-8")
            assert told("run", "example/release.toml", "--out", "releases").strip().endswith("releases/example")
            page = (tmp_path / "releases" / "example" / "public" / "report.html").read_text("utf-8")
            assert "<title>" in page
        elif words[0].endswith("spinewise"):
            walked.append(words[1])
            shown = told(*words[1:])
            if words[1] == "compare":
                assert "rho" in shown
    assert walked == [*["query"] * 4, "plan", "run", "compare", *["verify"] * 3]

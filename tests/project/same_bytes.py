"""Compares two versions of the program: public bytes of the small releases, and the help of every command.

    python tests/project/same_bytes.py BASE        # a commit; the other one is the working tree

Both are run with the packages of this environment, on the same inputs. What the base makes is kept in build/same/ by
its commit, so that a second comparison takes half the time. A ledger's clock and identity differ from run to run: of
releases that are charged, decoded content is compared, without receipts and what follows from them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests"))
sys.path.insert(0, str(PROJECT))

_HELP = """
import sys, typer
from typer.testing import CliRunner
from flows.cli import app
def say(command, words):
    print("$ spinewise", *words, "--help")
    print(CliRunner().invoke(app, [*words, "--help"]).output)
    for name in sorted(getattr(command, "commands", {})):
        say(command.commands[name], [*words, name])
say(typer.main.get_command(app), [])
"""


def made(project: Path, out: Path) -> None:
    """Run the small releases and print the help of all commands with the packages of a checkout.

    Of what an earlier call had begun in `out`, which was ended before its end, nothing is kept.
    """
    from matrix.case import Case
    from matrix.cases import CASES
    from releases.forked import Forks

    environment = {**os.environ, "PYTHONPATH": str(project), "COLUMNS": "100", "TERMINAL_WIDTH": "100"}
    loaded = Forks({**environment, "PYTHONPATH": os.pathsep.join([str(project), str(PROJECT / "tests")])})

    def one(release: Case) -> None:
        folder = out / release.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        release.write(folder)
        began = time.monotonic()
        release.make(folder, project, loaded)
        sys.stderr.write(f"{release.name}: {time.monotonic() - began:.0f} s\n")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, CASES))
    loaded.end()
    said = subprocess.run(
        [sys.executable, "-c", _HELP], cwd=out, env=environment, capture_output=True, text=True, check=True
    )
    (out / "help.txt").write_text(said.stdout, encoding="utf-8")


def other(base: Path, head: Path) -> list[str]:
    """What is not the same in two folders that `made` has filled, a line each."""
    from matrix.cases import CASES
    from matrix.content import content_of, differences

    told = []
    for release in CASES:
        for place in release.published:
            one, two = (folder / release.name / place / "public" for folder in (base, head))
            if release.charged:
                told += [f"{release.name}/{place}: {line}" for line in differences(content_of(one), content_of(two))]
                continue
            names = {path.relative_to(root) for root in (one, two) for path in root.rglob("*") if path.is_file()}
            told += [
                f"{release.name}/{place}/{name}"
                for name in sorted(names)
                if not ((one / name).exists() and (two / name).exists())
                or (one / name).read_bytes() != (two / name).read_bytes()
            ]
    if (base / "help.txt").read_bytes() != (head / "help.txt").read_bytes():
        told.append("the help of the commands: compare help.txt of both")
    return told


def main(base: str) -> int:
    """0 where all is the same."""
    commit = _git("rev-parse", "--verify", f"{base}^{{commit}}")
    kept = PROJECT / "build" / "same" / commit
    if not (kept / "help.txt").exists():
        with TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            _git("worktree", "add", "--detach", str(tree), commit)
            try:
                kept.mkdir(parents=True, exist_ok=True)
                made(tree, kept)
            finally:
                _git("worktree", "remove", "--force", str(tree))
    with TemporaryDirectory(dir=kept.parent) as folder:
        made(PROJECT, Path(folder))
        told = other(kept, Path(folder))
    sys.stdout.write("".join(f"{line}\n" for line in told) or f"the same as {commit[:10]}\n")
    return int(bool(told))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "HEAD"))

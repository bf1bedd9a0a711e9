"""How much of the program a plain run passes: files whose functions are entered, and the longest chain of imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from project.conftest import PACKAGES
from project.trees import modules
from releases.command import PROJECT, environment, needs, printed
from releases.county import keep_county

#: The most files of the project whose functions a plain run enters, in all its processes; templates are files, too.
MOST_ENTERED = 197
#: The most modules of which each imports the next one when it is imported.
LONGEST_CHAIN = 26

#: Put where Python looks for it at its start, so that each process of the run notes the files that it enters.
_NOTES_FILES = """
import os, sys, threading

seen, noted = set(), os.open(os.environ["ENTERED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename not in seen and code.co_flags & 0x2:  # of a function, not of a module
        seen.add(code.co_filename)
        if code.co_filename.startswith(os.environ["PROJECT"]):
            os.write(noted, (code.co_filename + "\\n").encode())

sys.setprofile(note)
threading.setprofile(note)
"""


@needs("example")
def test_a_plain_run_enters_few_files(tmp_path: Path) -> None:
    """The command, Prefect's server, the measuring process, that of the comparison, and the workers."""
    printed("example", tmp_path / "demo", "--people", 5000)
    keep_county(tmp_path / "demo", "99001")
    (tmp_path / "sitecustomize.py").write_text(_NOTES_FILES)
    entered = tmp_path / "entered.txt"
    variables = environment(ENTERED=str(entered), PROJECT=f"{PROJECT}/", PREFECT_HOME=str(tmp_path / "prefect"))
    variables["PYTHONPATH"] = os.pathsep.join([str(tmp_path), variables["PYTHONPATH"]])
    command = ["-m", "flows.entry", "run", str(tmp_path / "demo" / "release.toml"), "--out", str(tmp_path / "out")]
    subprocess.run([sys.executable, *command], env=variables, check=True, capture_output=True, timeout=300)
    paths = {Path(line).relative_to(PROJECT) for line in entered.read_text().splitlines()}
    files = sorted(path.as_posix() for path in paths if path.parts[0] in PACKAGES)
    rooms = Counter("/".join(file.split("/")[:2]) for file in files)
    shown = "\n".join(f"{room}: {' '.join(one for one in files if one.startswith(f'{room}/'))}" for room in rooms)
    assert len(files) <= MOST_ENTERED, f"{len(files)} files:\n{shown}"
    assert len(files) > MOST_ENTERED - 10, f"a plain run enters {len(files)}: state the new bound, so that it holds"


def test_no_chain_of_imports_is_long() -> None:
    chain = max((_chain(module) for module in _imports()), key=len)
    assert len(chain) <= LONGEST_CHAIN, " -> ".join(chain)
    assert len(chain) > LONGEST_CHAIN - 2, f"the longest has {len(chain)}: state the new bound, so that it holds"


@cache
def _imports() -> dict[str, tuple[str, ...]]:
    """Module -> the modules of the project that it imports when it is imported."""
    trees = {
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): tree
        for name, tree in modules(*PACKAGES).items()
    }
    given = {module: {one for node in _loaded(tree) for one in _named(node)} for module, tree in trees.items()}
    return {module: tuple(sorted(some & trees.keys() - {module})) for module, some in given.items()}


def _loaded(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports outside of functions, and of what is for the checker of types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _loaded(child)


def _named(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for one in node.names:
        yield one.name if isinstance(node, ast.Import) else f"{node.module}.{one.name}"
    if isinstance(node, ast.ImportFrom) and node.module:
        yield node.module


@cache
def _chain(module: str) -> tuple[str, ...]:
    return (module, *max((_chain(one) for one in _imports()[module]), key=len, default=()))

"""Which package may import which, and that the rules can fail."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import import_cycles, reviewed_files
from project.conftest import PACKAGES
from project.documents import PROJECT

#: Each rule of pyproject.toml, and an import that breaks it: the package that it is planted in, and what is imported.
PLANTED = {
    "the tower": ("geography", "pipeline.model.schema"),
    "a feature can be taken away": ("flows.commands", "features.exports.release"),
    "features do not know one another": ("features.imports", "features.exports.release"),
    "of the pipeline, the stages, what they share and readers alone know estimation": (
        "pipeline.model",
        "postprocess.problem",
    ),
    "the vocabulary needs numpy only": ("postprocess.statistics", "scipy"),
    "rooms of pipeline": ("pipeline.privacy.accounting", "pipeline.privacy.ledger.dataset"),
    "a device needs numpy only": ("features.local.collect", "scipy"),
    "the auditor shares nothing with what it judges": ("auditor", "pipeline.release.layout"),
    "the auditor is known to those who start it alone": ("pipeline.release", "auditor.sampler"),
    "rooms of flows": ("flows.orchestration", "flows.commands.run"),
    "the wall: what is published is computed where no secret can be had": (
        "pipeline.publishing",
        "pipeline.privacy.keys",
    ),
    "the wall in features": ("features.fitness", "features.fitness.confidential"),
    "Prefect is known in one room": ("pipeline.runs", "prefect"),
    "rooms of postprocess": ("postprocess.bounds", "postprocess.downward.batch"),
}


def imported(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every module that a file below `folder` imports, by its full name."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: imports are written with the full name"
                yield path, node.module or ""


def strangers(folder: Path, allowed: tuple[str, ...]) -> list[str]:
    """Imports that are neither of the standard library nor below one of the `allowed` modules."""
    return [
        f"{path.relative_to(PROJECT)} imports {name}"
        for path, name in imported(folder)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not any(name == one or name.startswith(one + ".") for one in allowed)
    ]


def test_rules_can_fail(tmp_path: Path) -> None:
    """Each rule of `make imports` is broken by an import that it is there to forbid."""
    pytest.importorskip("importlinter")
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    program = Path(sys.executable).parent / "lint-imports"
    kept = subprocess.run([program, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert kept.returncode == 0, kept.stdout
    assert " 0 broken" in kept.stdout
    for number, (module, forbidden) in enumerate(PLANTED.values()):
        folder = tmp_path.joinpath(*module.split("."))
        planted = folder / f"planted_{number}.py" if folder.is_dir() else folder.with_suffix(".py")
        with planted.open("a") as file:
            file.write(f"import {forbidden}\n")
    broken = subprocess.run([program, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert broken.returncode != 0
    assert " 0 kept" in broken.stdout, broken.stdout
    told = broken.stdout[broken.stdout.index("Broken contracts") :]
    for number, (name, (module, forbidden)) in enumerate(PLANTED.items()):
        _, _, section = told.partition(f"\n{name}\n{'-' * len(name)}\n")
        section = section.split("\n---", 1)[0]
        planted_in = f"{module}.planted_{number}" if tmp_path.joinpath(*module.split(".")).is_dir() else module
        assert planted_in in section, f"{name}: {forbidden} in {module} is not found\n{told}"


def test_each_rule_has_an_import_that_breaks_it() -> None:
    rules = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    assert sorted(rule["name"] for rule in rules) == sorted(PLANTED)


def test_privacy_stands_alone() -> None:
    """What a privacy reviewer has to read leans on few libraries, and of the pipeline on errors and durable alone.

    Accounting speaks of universes; what draws noise, and the keys, know nothing of the pipeline.
    """
    libraries = ("numpy", "scipy", "cryptography", "dp_accounting", "filelock", "pydantic", "sqlalchemy")
    allowed = (*libraries, "pipeline.privacy", "pipeline.errors", "pipeline.storage.durable", "geography.errors")
    model = ("universe", "query", "series", "source", "strategy", "promise", "exact", "content")
    privacy = PROJECT / "pipeline" / "privacy"
    assert strangers(privacy, (*allowed, *(f"pipeline.model.{name}" for name in model))) == []
    assert strangers(privacy / "noise", allowed) == []


def test_the_auditor_stands_alone() -> None:
    """It leans on numpy and pyarrow alone, and its sampler and keys on the standard library."""
    folder = PROJECT / "auditor"
    assert strangers(folder, ("numpy", "pyarrow", "auditor")) == []
    exact = {"keys.py", "sampler.py"}
    used = {name.split(".")[0] for path, name in imported(folder) if path.name in exact}
    assert used <= {*sys.stdlib_module_names, "auditor"}


def test_post_processing_reads_no_files() -> None:
    """Post-processing is arithmetic on arrays: nothing in it could read the records."""
    allowed = ("numpy", "scipy", "cvxpy", "ortools", "scs", "geography", "postprocess")
    folder = PROJECT / "postprocess"
    assert strangers(folder, allowed) == []
    readers = {"csv", "gzip", "io", "mmap", "os", "pathlib", "shutil", "sqlite3", "subprocess", "urllib", "zipfile"}
    assert [f"{path.name}: {name}" for path, name in imported(folder) if name.split(".")[0] in readers] == []


def test_no_modules_import_each_other(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_cycles.main() == 0
    monkeypatch.setattr(import_cycles, "import_graph", lambda: {"a": {"b", "c"}, "c": {"d", "b"}, "d": {"c"}})
    assert import_cycles.main() == 1
    assert {"c", "d"} == set(capsys.readouterr().out.strip().partition(": ")[2].split(", "))


def test_the_list_of_a_privacy_reviewer() -> None:
    """docs/privacy.md names every file of the rooms, as `make docs` writes it."""
    page = reviewed_files.PAGE.read_text("utf-8")
    assert page == reviewed_files.with_list(page)
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", page, re.MULTILINE)
    listed = {f"{folder}/{file}.py" for folder, files in rows for file in files.split(", ")}
    folders = tuple(PROJECT / name for name in ("pipeline/privacy", "pipeline/confidential"))
    files = {path.relative_to(PROJECT).as_posix() for folder in folders for path in folder.rglob("*.py")}
    files |= {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "features").glob("*/confidential.py")}
    assert {name for name in files - listed if not name.endswith("__init__.py")} == set()

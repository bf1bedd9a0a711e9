"""No published file is read without a comparison with its manifest, but where this file says so, and why.

Readers take a `Readable`, which mypy tells from a path. It is made by comparing (`PublishedFiles.unchanged` and its
likes) or by `unchecked`; and what opens files without either is listed whole, so that a new module does not slip by.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Final

from project.trees import modules

PACKAGES: Final = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise")

#: module -> how often it names `unchecked` beyond its import, and why.
UNCHECKED: Final[dict[str, tuple[int, str]]] = {
    "pipeline/execution/job.py": (1, "a run reads what it has just written itself; no manifest lists it yet"),
    "pipeline/pages/templates.py": (1, "the report is written by the run that has written what it shows"),
    "pipeline/release/layout.py": (2, "files of restricted/, which no manifest lists"),
    "pipeline/questions/manifest.py": (1, "the manifest of an answer, with whose hashes the others are compared"),
    "pipeline/questions/released/combined.py": (1, "combined.json, which states the hash of combined.csv"),
    "pipeline/runs/answers.py": (1, "verify, which has compared the hash before"),
    "pipeline/runs/receipts.py": (1, "manifests of answers, whose receipts are compared with the ledger"),
    "pipeline/runs/updates.py": (1, "the manifest of an answer, of which all files are verified next"),
    "features/questions/answering.py": (1, "an answer reads what was just drawn; its manifest follows"),
    "features/local/central.py": (2, "verify, which has compared every file before"),
}

#: module -> how often it says of a path that it is readable, after it has compared a hash.
COMPARED: Final = {
    "pipeline/storage/paths.py": 1,  # `unchecked`
    "pipeline/release/published_files.py": 1,
    "pipeline/questions/manifest.py": 1,
    "pipeline/questions/released/combined.py": 1,
    "features/years/vintage.py": 1,
}

#: Modules that open files by themselves, by what these are.
OPENERS: Final[dict[str, tuple[str, ...]]] = {
    "what reads a `Readable`": (
        "pipeline/inputs/polygons.py", "pipeline/questions/tables.py", "pipeline/release/stated.py",
        "pipeline/storage/files.py", "pipeline/storage/guard.py",
        "spinewise/answers.py",
    ),
    "the manifest, which has its own hash; signatures, which have their own proof": (
        "pipeline/questions/manifest.py", "pipeline/release/manifest.py", "pipeline/signatures/statement.py",
    ),
    "verify and rerun, which compare bytes or say what differs": (
        "pipeline/runs/answers.py", "pipeline/runs/rerun.py",
        "features/questions/answering.py",
    ),
    "what a run has written itself, or an audit in a copy of its own": (
        "features/audit/questions_asked.py", "features/exports/maps.py", "features/local/survey.py",
    ),
    "restricted/, checkpoints, logs and ledgers": (
        "pipeline/confidential/custody.py", "pipeline/errors.py", "pipeline/execution/batches.py",
        "pipeline/execution/job.py", "pipeline/execution/cluster.py", "pipeline/execution/console.py",
        "pipeline/privacy/ledger/notes.py",
        "pipeline/privacy/ledger/report.py", "pipeline/privacy/ledger/store.py",
        "pipeline/release/run_directory.py", "pipeline/runs/finished.py",
        "features/local/confidential.py", "features/years/confidential.py",
        "spinewise/runs.py",
    ),
    "files of others: records, lists of areas, measurements that were made elsewhere, plans": (
        "pipeline/disclosure/cell_keys.py",
        "pipeline/exchange/nmf.py", "pipeline/reading/question.py", "pipeline/records/record_files.py",
        "features/audit/trials.py", "features/imports/pl94171/summary_file.py",
        "features/imports/tables/databases.py", "features/imports/tables/description.py",
        "features/imports/tables/files.py", "features/imports/tables/workbook_child.py",
        "features/plan/write_spec.py",
    ),
    "an answer whose hash is compared there, and what a revision states of itself": (
        "features/amounts/keys.py", "features/years/vintage.py",
    ),
    "files of the program and of the system": (
        "pipeline/execution/settings.py", "pipeline/model/texts/catalogue.py", "pipeline/pages/templates.py",
        "pipeline/spec/preset.py", "features/example/example.py",
        "flows/orchestration/server.py",
    ),
}  # fmt: skip

_OPENING: Final = {
    "GuardedFile", "ParquetDataset", "ParquetFile", "memory_map", "read_bytes", "read_csv", "read_feather", "read_file",
    "read_json", "read_metadata", "read_parquet", "read_schema", "read_text",
}  # fmt: skip


def _unchecked(tree: ast.Module) -> int:
    """How often a module that imports `unchecked` names it."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    if not any(node.module == "pipeline.storage.paths" for node in imports):
        return 0
    return sum(isinstance(node, ast.Name) and node.id == "unchecked" for node in ast.walk(tree))


def _opens(tree: ast.Module) -> bool:
    """Whether a module opens files to read: by a method or a function that does, in any library."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        owner = called.value.id if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) else ""
        if name in _OPENING or (owner, name) in {("pq", "read_table"), ("parquet", "read_table"), ("json", "load")}:
            return True
        modes = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        # Classes open ledgers, writers and logs; `os` and `gzip` what is opened beside.
        opens = name == "open" and isinstance(called, ast.Attribute) and not owner[:1].isupper()
        if opens and owner not in ("os", "gzip", "cls") and (not modes or modes[0].startswith("r")):
            return True
    return False


def test_what_is_read_unchecked_is_listed_with_the_reason() -> None:
    found = {module: count for module, tree in modules(*PACKAGES).items() if (count := _unchecked(tree))}
    assert found == {module: count for module, (count, _) in UNCHECKED.items()}


def test_what_says_that_a_file_is_readable_is_listed() -> None:
    calls = [
        (module, node.func)
        for module, tree in modules(*PACKAGES).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]
    assert Counter(one for one, call in calls if isinstance(call, ast.Name) and call.id == "Readable") == COMPARED


def test_what_opens_files_by_itself_is_listed() -> None:
    listed = Counter(module for modules in OPENERS.values() for module in modules)
    assert max(listed.values()) == 1
    found = {module for module, tree in modules(*PACKAGES).items() if _opens(tree)}
    assert sorted(found - listed.keys()) == [], "read published files by PublishedFiles.unchanged"
    assert sorted(listed.keys() - found) == []


def test_a_module_that_opens_a_file_is_seen() -> None:
    for text in (
        "pd.read_parquet(p)",
        "p.read_bytes()",
        "p.open('rb')",
        "p.open()",
        "pq.read_table(p)",
        "json.load(f)",
    ):
        assert _opens(ast.parse(text)), text
    for text in ("Ledger.open(url)", "p.open('w')", "read_table(p)"):
        assert not _opens(ast.parse(text)), text

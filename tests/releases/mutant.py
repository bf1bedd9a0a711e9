"""A fault that is planted: what it is, who catches it, and how files of a release are changed as the program would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.contents import canonical
from pipeline.storage.files import ParquetSink

Patch = pytest.MonkeyPatch
#: A fault in the program, for the time of a run; or one in the files of a finished release.
Plant = Callable[[Patch], None]
Edit = Callable[[Path], object]
#: Its text, the framework, who neighbours are, and of which records: the fields of `Question` of the feature audit.
Asked = tuple[str, str, str, str]


@dataclass(frozen=True)
class Mutant:
    """A planted fault.

    Attributes:
        plant: into the program; `edit`: into a copy of the shared release. One of the two, or, of a fault in the
            second program's reading, both.
        on: "release" (a run with the fault, or the edited copy, is judged), "ledger" (the same, with a ledger and a
            secret key), "joined" and "joined ledger" (the same of persons, households and patients), "amounts" and
            "amounts ledger" (of wages), "balances" (of amounts of either sign), "jobs" and "jobs ledger" (of
            persons with several jobs), "positive" (drawn only where the released area above is positive), "answer"
            (an answer to `question`, with a ledger), or "installed" (the audit of
            the installation judges).
        caught_by: who catches it, in the order of the table's columns.
        test: below tests/, that fails with it.
    """

    name: str
    caught_by: tuple[str, ...]
    plant: Plant | None = None
    edit: Edit | None = None
    on: str = "release"
    question: Asked | None = None
    test: str = ""


SECOND, AUDIT, VERIFY, CHECKER, INSTALLED = "second program", "audit", "verify", "checker", "installed"
TEST = "test"
#: The columns of the table.
COURTS = (SECOND, AUDIT, VERIFY, CHECKER, INSTALLED, TEST)


def mutant(
    name: str, caught: str, *, on: str = "release", plant: Plant | None = None, edit: Edit | None = None
) -> Mutant:
    """A mutant, and who catches it, by the first letters of the columns."""
    letters = {court[0]: court for court in COURTS}
    return Mutant(name, tuple(letters[letter] for letter in caught), plant, edit, on)


def attribute(owner: object, name: str, value: object) -> Plant:
    """An attribute of a module or class that is another."""
    return lambda patch: patch.setattr(owner, name, value)


def resealed(root: Path, change: Callable[[dict[str, Any]], object] | None = None) -> None:
    """Change the manifest, and give it the hashes that it then needs, but for files that are gone."""
    path = root / "public" / "manifest.json"
    content = json.loads(path.read_text())
    if change is not None:
        change(content)
    content.pop("manifest_sha256")
    for name, entry in content["files"].items():
        if (file := root / "public" / name).exists():
            data = file.read_bytes()
            entry |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    content["manifest_sha256"] = hashlib.sha256(canonical(content)).hexdigest()
    path.write_bytes(canonical(content))


def rewritten(root: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a Parquet file as the program itself would have written it."""
    path = root / "public" / name
    table = change(pq.read_table(path))
    sink = ParquetSink(path, table.schema, json.loads(table.schema.metadata[b"spinewise"]))
    sink.write(*(column.combine_chunks() for column in table.columns))
    sink.close()
    resealed(root)

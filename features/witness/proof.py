"""Proofs that a row stands in a table of a signed release, for somebody who has neither the release nor this software.

A proof is JSON. It carries the signed statement, the row, the path from the row to the root of its table's tree, what
the table is, and the path from there to the root in the statement. `features/witness/check_proof.py` checks it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from features.witness.check_proof import FORMAT
from pipeline.errors import InputError, ReleaseError
from pipeline.questions.manifest import read_answer, unchanged_answer_file
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import RowRoots, read_manifest
from pipeline.release.merkle import LongTree, inclusion_path, leaf_hash, root_of
from pipeline.release.published_files import PublishedFiles
from pipeline.release.rows import TableLeaf, leaf_of, row_hashes
from pipeline.release.tables import ReleasedTable, read_table_facts, read_table_parts
from pipeline.signatures.answers import answer_leaves, changed_files, read_rows, row_data
from pipeline.signatures.notes import read_note, split_note
from pipeline.signatures.statement import named, signature_of, statement_of
from pipeline.storage.files import open_parquet, reading, texts
from pipeline.storage.readable import Readable, unchecked


@dataclass(frozen=True)
class Wanted:
    """The row that is to be proved.

    Attributes:
        table: its name.
        area: geocode of the row.
        level: of the area; None where only one level has it.
        companion: universe of the table; "" for the release's own.
        group: of an answer the values of its terms, (term, value) each.
    """

    table: str
    area: str | None
    level: str | None = None
    companion: str = ""
    group: tuple[tuple[str, str], ...] = ()


def make_proof(run: RunDirectory, wanted: Wanted) -> bytes:
    """The proof of a row of a release or an answer.

    Raises:
        InputError: it has no such table or row, or several.
        ReleaseError: it is not signed, or is damaged.
    """
    target, where = signature_of(run), named(run)
    if not target.exists():
        raise ReleaseError(f"{run.root} is not signed, so that nothing can be proved of it; see spinewise sign")
    note = read_note(target, where)
    if split_note(note, where)[0] != statement_of(run):
        raise ReleaseError(f"{where} is the signature of another manifest; sign it again")
    if run.is_answer:
        return _written(_answer_proof(run, wanted, note))
    if wanted.group:
        raise InputError("--group: rows of a release are named by their area; groups are those of an answer")
    files = PublishedFiles(run, read_manifest(run.manifest))
    rows = files.manifest.rows
    assert rows is not None, "statement_of has read it"
    file, index = _find(files, wanted)
    leaves = _leaves(run, rows)
    place = next(number for number, leaf in enumerate(leaves) if leaf.file == file)
    row, leaf, path = _row(run, leaves[place], index)
    hashes = [leaf_hash(each.data()) for each in leaves]
    if leaf != leaves[place] or root_of(hashes).hex() != rows.root:
        for each in leaves:
            files.unchanged(_inside(run, each.file))  # names the one that was changed
        raise ReleaseError(f"public/{file} was changed: its rows do not have the root that the manifest states")
    table = {name: value for name, value in leaf.__dict__.items() if name not in ("rows", "root")}
    content: dict[str, Any] = {
        "format": FORMAT,
        "note": note.decode(),
        "row": {"geocode": str(row.geocodes[0]), "counts": row.counts[0].tolist()},
        "row_index": index,
        "rows": leaf.rows,
        "row_path": [each.hex() for each in path],
        "table": table,
        "table_index": place,
        "table_path": [each.hex() for each in inclusion_path(hashes, place)],
    }
    for name, ends in (("lows", row.lows), ("highs", row.highs)):
        if ends is not None:
            content["row"][name] = [None if np.isnan(end) else end for end in ends[0].tolist()]
    return _written(content)


def _written(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, allow_nan=False).encode() + b"\n"


def _answer_proof(run: RunDirectory, wanted: Wanted, note: bytes) -> dict[str, Any]:
    """The proof of a row of answer.csv or measurements.csv."""
    manifest = read_answer(run)
    if problems := changed_files(run):
        raise ReleaseError(problems[0])
    leaves = answer_leaves(run, manifest)
    place = next((number for number, leaf in enumerate(leaves) if leaf.table == wanted.table), None)
    if place is None:
        raise InputError(f"--table: found {wanted.table!r}; the answer has {_list(leaf.table for leaf in leaves)}")
    leaf = leaves[place]
    header, *rows = read_rows(unchanged_answer_file(run.public / leaf.file, manifest))
    asked = dict(wanted.group) | ({} if wanted.area is None else {manifest.place: wanted.area})
    if unknown := [name for name in asked if name not in header]:
        raise InputError(f"--area, --group: the answer is not by {unknown[0]!r}; it has {', '.join(header)}")
    found = [n for n, row in enumerate(rows) if all(row[header.index(name)] == text for name, text in asked.items())]
    if len(found) != 1:
        raise InputError(
            f"--area, --group: {len(found) or 'no'} rows of {leaf.file} are so; one is needed: name an area and a "
            f"value of each of {', '.join(manifest.terms) or 'no groups'}"
        )
    hashes, row_hashes_ = [leaf_hash(one.data()) for one in leaves], [leaf_hash(row_data(row)) for row in rows]
    return {
        "format": FORMAT,
        "note": note.decode(),
        "row": {"cells": rows[found[0]]},
        "row_index": found[0],
        "rows": leaf.rows,
        "row_path": [each.hex() for each in inclusion_path(row_hashes_, found[0])],
        "table": {name: value for name, value in leaf.__dict__.items() if name not in ("rows", "root")},
        "table_index": place,
        "table_path": [each.hex() for each in inclusion_path(hashes, place)],
    }


def _find(published: PublishedFiles, wanted: Wanted) -> tuple[str, int]:
    """The file in which the area has a row, and the row's place."""
    run = published.run
    folder = run.universe(wanted.companion).public / "tables" / wanted.table
    assert wanted.area is not None, "only an answer's rows are named without an area"
    listed = [run.public / name for name in sorted(published.manifest.files)]
    files = {path.stem: path for path in listed if path.parent == folder} if "/" not in wanted.table else {}
    if not files:
        raise InputError(f"--table: found {wanted.table!r}; the release has {_tables(run, wanted.companion)}")
    if wanted.level is not None and wanted.level not in files:
        raise InputError(f"--level: found {wanted.level!r}; the table {wanted.table} is published for {_list(files)}")
    found = []
    for level, path in files.items():
        if wanted.level in (None, level) and (index := _place_of(published.unchanged(path), wanted.area)) is not None:
            found.append((level, run.name_of(path), index))
    if not found:
        levels = _list(files) if wanted.level is None else wanted.level
        raise InputError(f"--area: found {wanted.area!r}; the table {wanted.table} has no such area ({levels})")
    if len(found) > 1:
        raise InputError(f"--area: {wanted.area!r} is at several levels; say which with --level: {_list(found)}")
    return found[0][1:]


def _list(names: object) -> str:
    return ", ".join(each if isinstance(each, str) else each[0] for each in names)  # type: ignore[attr-defined]


def _tables(run: RunDirectory, companion: str) -> str:
    folder = run.universe(companion).public / "tables"
    return ", ".join(sorted(path.name for path in folder.glob("*"))) or "no tables"


def _place_of(path: Readable, area: str) -> int | None:
    """The row of a geocode, from 0."""
    with open_parquet(path) as file, reading(path):
        codes = texts(file.read(columns=["geocode"]).column(0))
    places = np.flatnonzero(codes == area)
    return int(places[0]) if len(places) else None


def _leaves(run: RunDirectory, rows: RowRoots) -> list[TableLeaf]:
    """Every table as the manifest states it, in the order of the tree.

    Of each file the head is read, which the root of the tree covers: all tables are not hashed for one row.
    """
    leaves = []
    for file, root in sorted(rows.tables.items()):
        parts = file.split("/")
        universe = parts[1] if parts[0] == "companions" else ""
        facts = read_table_facts(unchecked(_inside(run, file)))
        leaves.append(leaf_of(facts, file, universe, root.rows, bytes.fromhex(root.root)))
    return leaves


def _inside(run: RunDirectory, file: str) -> Path:
    """The public file of that name; a forged manifest cannot name one elsewhere."""
    path = run.public / file
    if path.is_symlink() or not path.resolve().is_relative_to(run.public.resolve()):
        raise ReleaseError(f"public/manifest.json names {file!r}, which is not a file of the release")
    return path


def _row(run: RunDirectory, stated: TableLeaf, index: int) -> tuple[ReleasedTable, TableLeaf, list[bytes]]:
    """The row, the leaf of its table as its rows give it, and the row's path."""
    tree, row = LongTree(index), None
    for part in read_table_parts(unchecked(_inside(run, stated.file))):
        at = index - tree.size
        if 0 <= at < len(part.geocodes):
            row = part.rows(slice(at, at + 1))
        tree.add(row_hashes(part))
    assert row is not None, "the row was found before"
    size = tree.size
    root, path = tree.finish()
    return row, leaf_of(row, stated.file, stated.universe, size, root), path

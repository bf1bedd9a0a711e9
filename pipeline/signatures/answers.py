"""What an agency signs of an answer to a question, and the trees of its rows: as of a release, with tables of text.

    spinewise.answer/1
    <name of the answer>
    status official
    manifest <SHA-256 of public/answer.json, hexadecimal>
    rows 2 <root of the tree over answer.csv and measurements.csv, hexadecimal>
    combined <SHA-256 of public/combined.json, hexadecimal>

The last line is there where the answer is combined with a release. A row is the JSON array of its cells as text,
without any space, in UTF-8; a table has the keys of a release's, `labels` being all of its columns and `query` the
question. The signed note is `public/answer.sig`. Every answer is charged before it is drawn, so that there is no other
status.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Final

from pipeline.errors import ReleaseError
from pipeline.questions.manifest import ANSWER, MEASUREMENTS, AnswerManifest, read_answer, unchanged_answer_file
from pipeline.questions.released.combined import COMBINED, SUMMARY, read_combination
from pipeline.release.layout import RunDirectory
from pipeline.release.merkle import leaf_hash, root_of
from pipeline.release.rows import TableLeaf, release_root
from pipeline.storage.files import sha256_file
from pipeline.storage.readable import Readable

STATEMENT: Final = "spinewise.answer/1"
OFFICIAL: Final = "official"


def answer_statement(run: RunDirectory) -> str:
    """The text that is signed for an answer; ReleaseError where a file of it is damaged."""
    manifest = read_answer(run)
    leaves = answer_leaves(run, manifest)
    lines = [
        STATEMENT,
        manifest.answer,
        f"status {OFFICIAL}",
        f"manifest {sha256_file(run.answer_manifest)}",
        f"rows {len(leaves)} {release_root(leaves).hex()}",
    ]
    if (summary := run.public / SUMMARY).is_file():
        lines.append(f"combined {sha256_file(summary)}")
    return "".join(f"{line}\n" for line in lines)


def changed_files(run: RunDirectory) -> list[str]:
    """Public files of an answer that do not have the hash that its manifest states, a sentence each."""
    stated = dict(read_answer(run).files)
    if (run.public / SUMMARY).is_file():
        stated |= {COMBINED: read_combination(run).files.get(COMBINED, "")}
    return [
        f"public/{name} is missing or was changed"
        for name, digest in sorted(stated.items())
        if "/" in name or not (run.public / name).is_file() or sha256_file(run.public / name) != digest
    ]


def answer_leaves(run: RunDirectory, manifest: AnswerManifest) -> list[TableLeaf]:
    """Both tables as the answer's tree has them, in the order of their files."""
    return [
        _leaf(unchanged_answer_file(run.public / name, manifest), manifest) for name in sorted((ANSWER, MEASUREMENTS))
    ]


def _leaf(path: Readable, manifest: AnswerManifest) -> TableLeaf:
    header, *rows = read_rows(path)
    root = root_of([leaf_hash(row_data(row)) for row in rows])
    name = path.name.removesuffix(".csv")
    return TableLeaf(
        path.name, "", name, manifest.place, manifest.question, tuple(header), False, len(rows), root.hex()
    )


def read_rows(path: Readable) -> list[list[str]]:
    """The rows of a table of an answer, its columns first; ReleaseError where it is none."""
    try:
        rows = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))
    except (OSError, ValueError, csv.Error) as error:
        raise ReleaseError(f"{path}: cannot be read: {error}") from None
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ReleaseError(f"{path}: is no table")
    return rows


def row_data(cells: Sequence[str]) -> bytes:
    """A row in the one form in which it is hashed."""
    return json.dumps(list(cells), separators=(",", ":"), ensure_ascii=False).encode()

"""The entry of a publication in a log: of a release, or of an answer to a question."""

from __future__ import annotations

import hashlib

from features.witness import entry
from features.witness.entry import Entry, receipt_lines
from pipeline.privacy.ledger.events import ANSWER as CHARGED_AS
from pipeline.questions.manifest import MEASUREMENTS, read_answer
from pipeline.release.layout import RunDirectory
from pipeline.release.rows import release_root
from pipeline.signatures.answers import OFFICIAL, answer_leaves
from pipeline.storage.files import sha256_file

__all__ = ["entry_of"]


def entry_of(run: RunDirectory) -> Entry:
    """The entry of a finished release or an answer; ReleaseError where its manifest is damaged."""
    return answer_entry(run) if run.is_answer else entry.entry_of(run)


def answer_entry(run: RunDirectory) -> Entry:
    """The entry of an answer in a log, under the name that the ledger has its charge under."""
    manifest = read_answer(run)
    draws = f"{manifest.files.get(MEASUREMENTS, '')}  {MEASUREMENTS}\n"
    return Entry(
        release=CHARGED_AS + manifest.answer,
        status=OFFICIAL,
        manifest=sha256_file(run.answer_manifest),
        draws=hashlib.sha256(draws.encode()).hexdigest(),
        rows=release_root(answer_leaves(run, manifest)).hex(),
        key_commitment=manifest.key_commitment,
        receipts=receipt_lines(manifest.receipts),
    )

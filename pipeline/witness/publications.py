"""The entry of a publication in a log: of a release, or of an answer to a question."""

from __future__ import annotations

from pipeline.release.layout import RunDirectory
from pipeline.witness import entry
from pipeline.witness.answers import answer_entry

__all__ = ["entry_of"]


def entry_of(run: RunDirectory) -> entry.Entry:
    """The entry of a finished release or an answer; ReleaseError where its manifest is damaged."""
    return answer_entry(run) if run.is_answer else entry.entry_of(run)

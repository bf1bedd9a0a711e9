"""On the page of a version that was made with answers: which version it is, with which answers, and what changed."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.release.privacy_statement import decimal_text
from pipeline.release.versions.changes import Changes, Move, TableChanges, read_changes
from pipeline.report.sources import ReportSources

#: Moves that are listed, those of all tables together.
_LISTED = 10


@dataclass(frozen=True)
class AnswerView:
    """An answer that was added: its cost as the page shows it."""

    name: str
    question: str
    cost: str


@dataclass(frozen=True, eq=False)
class VersionView:
    """A version of a release.

    Attributes:
        answers: all that it was made with.
        moves: the numbers that changed most by their margin, each with its table.
    """

    number: int
    replaces: str
    answers: tuple[AnswerView, ...]
    changes: Changes
    moves: tuple[tuple[TableChanges, Move], ...]


def version_view(sources: ReportSources) -> VersionView | None:
    """The version that a page is about; None of a first release. ReleaseError where its changes cannot be read."""
    if (update := sources.spec.update) is None:
        return None
    changes, main = read_changes(sources.run.changes), sources.universes[0]
    unit = "ρ" if main.framework == "zcdp" else "ε"
    answers = tuple(
        AnswerView(one.query.name, one.question, f"{unit} = {decimal_text(one.cost)}") for one in main.added
    )
    moves = [(table, move) for table in changes.tables for move in table.moves]
    moves.sort(key=lambda pair: -(pair[1].margins or 0.0))
    return VersionView(update.version, update.replaces, answers, changes, tuple(moves[:_LISTED]))

"""From the sections [postprocess.shares.NAME] to what they mean; whatever does not fit is noted with its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from features.shares.public_share import PublicShare
from features.shares.section import SharesSection
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.spec.problems import Problems, dotted, unknown


def resolve_shares(
    sections: Mapping[str, SharesSection], schema: Schema, level_names: Sequence[str], problems: Problems
) -> tuple[PublicShare, ...]:
    """The public shares of a release; those that are turned off are checked, too, and left out."""
    found = []
    folded: dict[str, str] = {}
    for name, section in sections.items():
        own = problems.at(dotted([name]))
        if (other := folded.setdefault(name.casefold(), name)) != name:
            own.add("", f"differs from {other!r} in capital letters only; names must differ by more")
        share = _resolved(name, section, schema, level_names, own)
        if share is not None and section.use:
            found.append(share)
    return tuple(found)


def _resolved(
    name: str, section: SharesSection, schema: Schema, level_names: Sequence[str], problems: Problems
) -> PublicShare | None:
    before = len(problems.lines)
    levels = _levels(section, level_names, problems)
    columns: dict[int, str] = {}
    query: Query | None = None
    with problems.noted():
        query = Query.parse(section.query, schema, where=problems.full_key("query"))
        columns = _columns(section, query, problems)
    if query is None or len(problems.lines) > before:
        return None
    return PublicShare(name, section.level, levels, section.file, section.geocode, query, columns)


def _levels(section: SharesSection, level_names: Sequence[str], problems: Problems) -> tuple[str, ...]:
    """The levels at which shares are used, top first: not the top, and none below that of the file."""
    if section.level not in level_names:
        problems.add("level", unknown("level", section.level, level_names, are="the levels are"))
        return ()
    allowed = tuple(level_names)[1 : list(level_names).index(section.level) + 1]
    if not allowed:
        problems.add("level", f"found {section.level!r}, the top level, which has no siblings; name one below it")
    for level in section.levels or ():
        if level not in level_names:
            problems.add("levels", unknown("level", level, level_names, are="the levels are"))
        elif level not in allowed and allowed:
            problems.add(
                "levels",
                f"found {level!r}; the file's numbers, of level {section.level!r}, tell the shares of "
                f"{', '.join(repr(one) for one in allowed)}",
            )
    return tuple(level for level in allowed if section.levels is None or level in section.levels)


def _columns(section: SharesSection, query: Query, problems: Problems) -> dict[int, str]:
    """The file's column of each answer, by the answer's number and in their order."""
    labels = query.answer_labels()
    if section.columns is None:
        column = str(section.column)
        stated = dict.fromkeys(labels if section.answers is None else section.answers, column)
        place = "answers"
    else:
        stated, place = dict(section.columns), "columns"
    for label in stated:
        if label not in labels:
            problems.add(place, unknown(f"answer of {query.name!r}", label, labels))
    return {number: stated[label] for number, label in enumerate(labels) if label in stated}

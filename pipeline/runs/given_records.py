"""Records that the caller supplies, in memory or as files, in place of those that a spec names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.errors import InputError
from pipeline.model.memory_table import MemoryTable, Source
from pipeline.model.universe import Universe


def with_given(universes: Sequence[Universe], records: Mapping[str, Source]) -> tuple[Universe, ...]:
    """The universes with the records that were supplied for them.

    Args:
        universes: of the release.
        records: universe ("" for the release's own) -> its records; universes without an entry stay as they are, and
            amounts, and counts of what is clipped, are of the release's own records.

    Raises:
        InputError: no universe has the name, or the spec does not say how the records are read.
    """
    names = [universe.name for universe in universes if not universe.own_records]
    if unknown := [name for name in records if name not in names]:
        raise InputError(
            f'records: {unknown[0]!r} is no companion; allowed are "" for the release\'s own records'
            f"{''.join(f', {name!r}' for name in names if name)}"
        )
    changed = []
    for universe in universes:
        source = records.get("" if universe.own_records else universe.name)
        if source is not None:
            stated = universe.require_input()
            universe = replace(universe, input=replace(stated, file=source))
        changed.append(universe)
    return tuple(changed)


def require_given(universes: Sequence[Universe], why: str) -> None:
    """Raises InputError, with the reason `why`, where a universe expects a table in memory and none was supplied."""
    for universe in universes:
        source = universe.require_input().file
        if isinstance(source, MemoryTable) and not source.given:
            raise InputError(f"{source}: {why}")

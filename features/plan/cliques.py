"""Tables of some attributes each that are proposed from public data, where a feature measures such tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.spec.release_spec import ReleaseSpec

#: Cells of a table, at most, where the user does not say it.
MOST_CELLS = 10_000


class ProposedCliques(Protocol):
    """What is proposed."""

    @property
    def section(self) -> tuple[str, Mapping[str, Any]]:
        """A section of the spec, and keys that take the place of its own; None: the key is left out."""

    @property
    def lines(self) -> tuple[str, ...]:
        """For people: the section to paste, and what it is expected to gain."""

    def data(self) -> dict[str, Any]:
        """JSON-able."""


@runtime_checkable
class ProposesCliques(Protocol):
    """Keys of a feature whose tables can be proposed from public data."""

    def proposed_cliques(self, spec: ReleaseSpec, spine: Spine, like: Path, most_cells: int) -> ProposedCliques:
        """What is proposed.

        Args:
            spec: that states the keys.
            spine: the geography.
            like: an earlier release, or a file with a public sample.
            most_cells: of a table.

        Raises:
            InputError: the data cannot be read, or look as if they were confidential.
        """


def proposed_cliques(spec: ReleaseSpec, spine: Spine, like: Path, most_cells: int) -> ProposedCliques:
    """What is proposed for a spec; InputError where it has no such tables, or as `ProposesCliques`."""
    for part in spec.of_features:
        if isinstance(part, ProposesCliques):
            return part.proposed_cliques(spec, spine, like, most_cells)
    raise InputError("--cliques is for specs whose tables are cliques, with a section [marginals]; this one has none")

"""What the report shows of a universe's public facts, which features state."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pipeline.report.sources import ReportSources


@runtime_checkable
class Shown(Protocol):
    """A fact that the report shows, where it says how numbers are estimated.

    Attributes:
        template: the package and the name of a template with the macro `estimated(view, level_title)`; the latter is
            what a level is called for people.
    """

    template: tuple[str, str]

    def view(self, sources: ReportSources) -> object:
        """What the macro is given."""

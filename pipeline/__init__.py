"""Spec, schema, queries, measurements and releases. `pipeline.open_release(DIR)` opens a finished release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.reading.release import Release, open_release

__all__ = ["Release", "open_release"]


def __getattr__(name: str) -> Any:
    """The reader, imported when it is first asked for: it brings pandas, which a run does not need."""
    if name in __all__:
        from pipeline.reading import release

        return getattr(release, name)
    raise AttributeError(f"module 'pipeline' has no attribute {name!r}")

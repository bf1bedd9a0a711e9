"""Who may ask which source a universe has: its own modules, what makes it, and the lists by type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from project.conftest import PACKAGES

from pipeline.confidential.parts import installed_parts
from pipeline.model.source import OwnNoise, Source


def made_from(source: type[Any]) -> Iterator[type[Any]]:
    """Its subclasses, and theirs."""
    for one in source.__subclasses__():
        yield one
        yield from made_from(one)


def test_every_source_has_what_sees_its_records() -> None:
    parts = installed_parts()
    concrete = {one for one in made_from(Source) if one.__module__.split(".")[0] in PACKAGES}
    assert OwnNoise in concrete
    assert set(parts) == concrete
    assert all(parts[one].measure for one in parts)

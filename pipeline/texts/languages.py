"""The languages that the report's texts are in: English, and those that have a catalogue."""

from __future__ import annotations

from functools import cache
from importlib import resources

ENGLISH = "en"


@cache
def languages() -> tuple[str, ...]:
    """The tags of all languages, English first."""
    folder = resources.files("pipeline.texts").joinpath("languages")
    files = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    return (ENGLISH, *sorted(name.removesuffix(".po") for name in files if name.endswith(".po")))

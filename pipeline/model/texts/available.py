"""In which languages there are texts: English, and every one that has a catalogue."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

#: The language of the texts in the code.
SOURCE = "en"
_FOLDER, _ENDING = "languages", ".po"


@cache
def languages() -> tuple[str, ...]:
    """Their tags, English first."""
    names = [one.name for one in resources.files("pipeline.model.texts").joinpath(_FOLDER).iterdir()]
    tags = [name.removesuffix(_ENDING).replace("_", "-") for name in names if name.endswith(_ENDING)]
    return (SOURCE, *sorted(tags))


def catalogue_file(tag: str) -> Traversable:
    """The catalogue of a language."""
    return resources.files("pipeline.model.texts").joinpath(_FOLDER, tag.replace("-", "_") + _ENDING)

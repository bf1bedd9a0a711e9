"""The style of every page: light and dark, on a telephone, on paper, and in the colours of the reader's system."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def page_style() -> str:
    """The CSS, which stands in each page itself: a page needs no other file."""
    return resources.files("pipeline.model.pages").joinpath("assets", "style.css").read_text(encoding="utf-8")

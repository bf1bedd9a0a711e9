"""What an event says beyond the columns of the table: a canonical JSON object, empty for the first kinds of events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["details_text", "read_details"]


def details_text(content: Mapping[str, Any]) -> str:
    """The one text of an object: names in order, no blanks, ASCII."""
    return json.dumps(dict(content), sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def read_details(text: str, *names: str) -> dict[str, Any]:
    """The object of a text as `details_text` writes it, with just these names. ValueError for any other."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict) or details_text(content) != text or content.keys() != set(names):
        raise ValueError(f"has the details {text[:200]!r}, which do not state {', '.join(sorted(names))}")
    return content

"""What of the features sees confidential records. Only `pipeline.confidential.parts` asks for it, by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from features.registry import is_installed

#: Feature -> module and class of a source of noisy numbers, and of what sees the records that it is about.
_PARTS: Final = {
    "local": (("features.local.survey", "Survey"), ("features.local.confidential", "RandomisedReports")),
}


def parts() -> dict[type, Any]:
    """Of the installed features: type of a source -> what sees its records (`pipeline.confidential.parts.Parts`)."""
    found = dict[type, Any]()
    for feature, places in _PARTS.items():
        if is_installed(feature):
            source, part = (getattr(import_module(module), name) for module, name in places)
            found[source] = part()
    return found

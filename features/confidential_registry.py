"""What of the features sees confidential records. Only `pipeline.confidential.parts` asks for it, by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from features.registry import is_installed

#: Feature -> module and class of each source of noisy numbers, and of what sees the records that it is about.
_PARTS: Final = {
    "local": ((("features.local.survey", "Survey"), ("features.local.confidential", "RandomisedReports")),),
    "years": (
        (("features.years.source", "Periods"), ("features.years.confidential", "SeriesRecords")),
        (("features.years.source", "MixedPeriods"), ("features.years.confidential", "SeriesRecords")),
    ),
}


def parts() -> dict[type, Any]:
    """Of the installed features: type of a source -> what sees its records (`pipeline.confidential.parts.Parts`)."""
    found = dict[type, Any]()
    for feature, parts_of in _PARTS.items():
        for places in parts_of if is_installed(feature) else ():
            source, part = (getattr(import_module(module), name) for module, name in places)
            found[source] = part()
    return found

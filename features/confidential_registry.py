"""What of the features sees confidential records. Only `pipeline.confidential` asks for it, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, cast

from features.registry import is_installed

#: Feature -> module and class of each source of noisy numbers, and of what sees the records that it is about.
_PARTS: Final = {
    "local": ((("features.local.survey", "Survey"), ("features.local.confidential", "RandomisedReports")),),
    "years": (
        (("features.years.series", "Periods"), ("features.years.confidential", "SeriesRecords")),
        (("features.years.series", "MixedPeriods"), ("features.years.confidential", "SeriesRecords")),
    ),
}

#: Feature -> module and class of what it asks of the records apart from their measurements, and what answers it.
_QUESTIONS: Final = {
    "questions": (("features.questions.work", "QuestionWork"), ("features.questions.confidential", "answered")),
    "marginals": (("features.marginals.stage", "ChoiceWork"), ("features.marginals.confidential", "answered")),
}

#: Feature -> module and class of each link between universes whose records it compares, and of what compares them.
_LINKS: Final = {
    "joins": ((("features.joins.keys", "LinkedHouseholds"), ("features.joins.confidential", "JoinChecks")),)
}


def link_checks(link: type) -> Any:
    """What compares the records of two universes with a link of that type; None where nothing does."""
    parts = (part for feature, parts in _LINKS.items() if is_installed(feature) for part in parts)
    return next((_made(part) for of, part in parts if _named(of) is link), None)


def answering(question: type) -> Callable[..., Any]:
    """What sees the records for a question of that type; KeyError where no installed feature asks it."""
    answers = {_named(asked): answer for feature, (asked, answer) in _QUESTIONS.items() if is_installed(feature)}
    return cast("Callable[..., Any]", _named(answers[question]))


def makers() -> dict[type, Callable[[], Any]]:
    """Of the installed features: type of a source -> what imports and makes what sees its records."""
    return {
        _named(source): partial(_made, part)
        for feature, parts in _PARTS.items()
        if is_installed(feature)
        for source, part in parts
    }


def _named(place: tuple[str, str]) -> Any:
    module, name = place
    return getattr(import_module(module), name)


def _made(place: tuple[str, str]) -> Any:
    return _named(place)()

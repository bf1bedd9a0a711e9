"""The list of features, and which of them are installed. Importing it imports none of them.

A feature is installed if its folder is there. Keys of the spec that are of one which is not are known by name, so that
a spec which has them is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Final

from geography.errors import InputError

if TYPE_CHECKING:
    from pipeline.spec.slots import Slots


@dataclass(frozen=True)
class Feature:
    """A capability that a release can do without, in the folder `features/<name>`.

    Attributes:
        name: of the folder.
        commands: name of each command -> the module whose function `add_to` adds it to the command line.
        keys: slot of the spec and key, "postprocess.shares" -> the module and its class of `FeatureKeys`, which has it.
        pages: file that every release has of it -> the module and the object that says what comes with it.
    """

    name: str
    commands: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    pages: Mapping[str, tuple[str, str]] = field(default_factory=dict)


#: All features of this version. One that is taken away with its folder needs no change here.
FEATURES: Final = (
    Feature(
        "amounts",
        keys={
            f"companions.{key}": ("features.amounts.keys", "AmountKeys")
            for key in ("amount", "between", "unit", "missing", "count_clipped", "ends", "chosen")
        },
    ),
    Feature("audit", {"audit": "features.audit.command"}),
    Feature("cumulative", keys={"tables.cumulative": ("features.cumulative.keys", "CumulativeKeys")}),
    Feature("example", {"example": "features.example.command"}),
    Feature("exports", {"export": "features.exports.command"}),
    Feature("fitness", {"fitness": "features.fitness.command"}),
    Feature("imports", {"import": "features.imports.command"}),
    Feature("joins", keys=dict.fromkeys(("join", "household_tables"), ("features.joins.keys", "JoinsKeys"))),
    Feature("local", keys={"collect": ("features.local.keys", "LocalKeys")}),
    Feature("marginals", keys={"marginals": ("features.marginals.keys", "MarginalsKeys")}),
    Feature("plan", {"plan": "features.plan.command"}),
    Feature("published", keys={"published": ("features.published.keys", "PublishedKeys")}),
    Feature(
        "questions", {"ask": "features.questions.command"}, {"questions": ("features.questions.keys", "QuestionsKeys")}
    ),
    Feature("report", pages={"report.html": ("features.report.added", "REPORT")}),
    Feature("shares", keys={"postprocess.shares": ("features.shares.keys", "SharesKeys")}),
    Feature(
        "years",
        {"series": "features.years.series_command"},
        keys={"series": ("features.years.keys", "SeriesKeys")},
    ),
)


def installed_features() -> tuple[Feature, ...]:
    """The features whose folders are there."""
    return tuple(feature for feature in FEATURES if is_installed(feature.name))


def is_installed(name: str) -> bool:
    """Whether the folder of a feature is there."""
    return find_spec(f"features.{name}") is not None


@cache
def slots() -> Slots:
    """What the installed features add to a spec and to every release, and what those would that are not installed."""
    from pipeline.spec.slots import Slots  # brings pydantic

    places = dict.fromkeys(place for feature in installed_features() for place in feature.keys.values())
    pages = {file: place for feature in installed_features() for file, place in feature.pages.items()}
    missing = [one for one in FEATURES if not is_installed(one.name)]
    return Slots(
        filled=tuple(getattr(import_module(module), name) for module, name in places),
        missing={key: one.name for one in missing for key in one.keys},
        always={file: getattr(import_module(module), name) for file, (module, name) in pages.items()},
        unwritten={file: one.name for one in missing for file in one.pages},
    )


def part_of(name: str, module: str) -> ModuleType:
    """A module of a feature, for code above the features that works without it.

    Raises:
        InputError: the feature's folder is not there.
    """
    if not is_installed(name):
        raise InputError(f"{name}: this installation is without it; there is no folder features/{name}")
    return import_module(f"features.{name}.{module}")

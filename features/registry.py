"""The list of features, and which of them are installed. Importing it imports none of them.

A feature is installed if its folder is there. None has a section of the spec: all sections are those of
`pipeline.spec.release_spec.ReleaseSpec`, with or without the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from geography.errors import InputError


@dataclass(frozen=True)
class Feature:
    """A capability that a release can do without, in the folder `features/<name>`.

    Attributes:
        name: of the folder.
        commands: name of each command -> the module whose function `add_to` adds it to the command line.
    """

    name: str
    commands: Mapping[str, str]


#: All features of this version. One that is taken away with its folder needs no change here.
FEATURES: Final = (
    Feature("audit", {"audit": "features.audit.command"}),
    Feature("example", {"example": "features.example.command"}),
    Feature("exports", {"export": "features.exports.command"}),
    Feature("fitness", {"fitness": "features.fitness.command"}),
    Feature("imports", {"import": "features.imports.command"}),
    Feature("plan", {"plan": "features.plan.command"}),
    Feature("witness", {"prove": "features.witness.prove_command", "log": "features.witness.log_command"}),
)


def installed_features() -> tuple[Feature, ...]:
    """The features whose folders are there."""
    return tuple(feature for feature in FEATURES if is_installed(feature.name))


def is_installed(name: str) -> bool:
    """Whether the folder of a feature is there."""
    return find_spec(f"features.{name}") is not None


def part_of(name: str, module: str) -> ModuleType:
    """A module of a feature, for code above the features that works without it.

    Raises:
        InputError: the feature's folder is not there.
    """
    if not is_installed(name):
        raise InputError(f"{name}: this installation is without it; there is no folder features/{name}")
    return import_module(f"features.{name}.{module}")

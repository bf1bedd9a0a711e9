"""The list of features, and which of them are installed. Importing it imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final


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
    Feature("example", {"example": "features.example.command"}),
    Feature("exports", {"export": "features.exports.command"}),
    Feature("fitness", {"fitness": "features.fitness.command"}),
    Feature("imports", {"import": "features.imports.command"}),
    Feature("witness", {"prove": "features.witness.prove_command", "log": "features.witness.log_command"}),
)


def installed_features() -> tuple[Feature, ...]:
    """The features whose folders are there."""
    return tuple(feature for feature in FEATURES if find_spec(f"features.{feature.name}") is not None)

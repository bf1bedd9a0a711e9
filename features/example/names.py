"""Made-up names for the areas of the example: a state, its counties, and its tracts."""

from __future__ import annotations

from collections.abc import Sequence

STATE_NAME = "State of Arborea"
COUNTY_NAMES = ("Alder", "Birch", "Cedar", "Elm", "Hazel")
_BEGIN = (
    "Ash", "Bram", "Clay", "Dun", "East", "Fern", "Gold", "Heath", "Iron", "King", "Lang", "Mill", "North", "Oak",
    "Stone", "Win",
)  # fmt: skip
_END = (
    "bourne", "bridge", "bury", "combe", "dale", "field", "ford", "gate", "ham", "hurst", "ley", "mere", "stead", "ton",
    "wick", "worth",
)  # fmt: skip


def county_name(number: int) -> str:
    """The name of a county, by its number from 0, without the word county."""
    return COUNTY_NAMES[number % len(COUNTY_NAMES)]


def tract_name(number: int) -> str:
    """The name of a tract, by its number from 0; the first 256 differ, and neighbours begin alike."""
    return _BEGIN[number // len(_END) % len(_BEGIN)] + _END[number % len(_END)]


def names_csv(states: Sequence[str], counties: Sequence[str], tracts: Sequence[str]) -> str:
    """A CSV file of geocodes and names, from the codes of each level."""
    rows = [(code, STATE_NAME) for code in states]
    rows += [(code, f"{county_name(number)} County") for number, code in enumerate(counties)]
    rows += [(code, tract_name(number)) for number, code in enumerate(tracts)]
    return "".join(f"{code},{name}\n" for code, name in (("geocode", "name"), *rows))

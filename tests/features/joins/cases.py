"""Small releases of persons and their households."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matrix.case import Case, Refusal, released
from releases.homes import write_homes
from releases.households import write_quarter
from releases.one_town import write_one_town
from releases.patients import write_patients

#: Persons by what their households are, and joint draws of what the truth may be.
_BY_HOUSEHOLDS = (
    (
        "\n[companions.homes]",
        """
[household_tables]
age_by_size = { persons = "age", households = "size" }
head = { households = "head * children", levels = ["county", "block"] }

[companions.homes]""",
    ),
    ("replicates = 2", "replicates = 2\ndraws = 5"),
)

CASES: Final[Sequence[Case]] = (
    released("homes", write_homes, "release.toml", "homes", full=True),
    released("drawn", lambda folder: write_homes(folder, *_BY_HOUSEHOLDS), "release.toml", "homes"),
    released("patients", write_patients, "release.toml", "homes"),
    released("households", write_quarter, "quarter.toml", "quarter"),
    released("one_town", write_one_town, "release.toml", "one-town"),
)
REFUSALS: Final[Sequence[Refusal]] = ()

"""Keys that features add to the sections of a spec: read, refused at their places, published, and carried along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field, StrictInt, model_validator

from pipeline.errors import SpecError
from pipeline.spec.fields import File, Misfit, Name, NamedTable, Section
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.spec.slots import FeatureKeys, Slots

SPEC = """name = "town"
[privacy]
rho = "1"
[geography]
file = "areas.csv"
levels = ["county", "block"]
[schema.attributes]
age = ["young", "old"]
[strategy.queries]
total = "1"
[strategy.levels]
county = "1/2"
block = "1/2"
"""


class StormSection(Section):
    """A made-up storm."""

    file: File = Field(description="its path")
    force: StrictInt = Field(ge=1, le=12, description="on Beaufort's scale")


class StormKeys(FeatureKeys):
    """In a section, between keys of the core."""

    slot: ClassVar[str] = "postprocess"
    after: ClassVar[str] = "estimator"

    storms: NamedTable[Name, StormSection] | None = Field(default=None, description="storms by name")


class TideKeys(FeatureKeys):
    """Two keys at the top level, one of which is a table."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "publish"

    tide: StormSection = Field(description="what comes with a storm")
    ebb: StrictInt | None = Field(default=None, description="what comes after")

    @model_validator(mode="after")
    def _weaker(self) -> TideKeys:
        if self.ebb is not None and self.ebb >= self.tide.force:
            raise Misfit(("ebb", f"found {self.ebb}; less than the tide's force is needed"))
        return self


class HarborKeys(FeatureKeys):
    """In each companion."""

    slot: ClassVar[str] = "companions"
    after: ClassVar[str] = "privacy"

    harbor: Name | None = Field(default=None, description="where its ships are")


SLOTS = Slots((StormKeys, TideKeys, HarborKeys))
STATED = (
    SPEC
    + """[tide]
file = "tide.csv"
force = 3
[postprocess]
solver = "cvxpy"
[postprocess.storms.anna]
file = "storms/anna.csv"
force = 12
[companions.ships]
harbor = "east"
[companions.ships.privacy]
rho = "1"
[companions.ships.schema.attributes]
kind = ["sail", "steam"]
[companions.ships.strategy]
queries = { total = "1" }
levels = { county = "1/2", block = "1/2" }
"""
)


def refusal(text: str, slots: Slots = SLOTS) -> list[str]:
    with pytest.raises(SpecError) as error:
        parse_spec(text, slots=slots)
    return [line.removeprefix("spec: ") for line in str(error.value).splitlines()]


def test_what_is_stated_is_typed_and_file_names_are_relative_to_the_spec() -> None:
    spec = parse_spec(STATED, folder="/data", slots=SLOTS)
    storms = spec.postprocess.part(StormKeys)
    assert storms is not None
    assert storms.storms == {"anna": StormSection(file=Path("/data/storms/anna.csv"), force=12)}
    assert spec.part(TideKeys) == TideKeys(tide=StormSection(file=Path("/data/tide.csv"), force=3))
    assert spec.companions["ships"].part(HarborKeys) == HarborKeys(harbor="east")
    assert spec.of_features == (*spec.parts, storms, *spec.companions["ships"].parts)
    assert spec.postprocess.solver == "cvxpy"


def test_a_published_spec_has_the_keys_at_their_places_and_is_read_again() -> None:
    spec = parse_spec(STATED, slots=SLOTS)
    public = spec.public_dict()
    assert public["postprocess"]["storms"] == [["anna", {"file": "anna.csv", "force": 12}]]
    assert list(public["postprocess"])[:3] == ["estimator", "storms", "solver"]
    assert public["tide"] == {"file": "tide.csv", "force": 3}
    assert list(public).index("tide") == list(public).index("publish") + 1
    assert dict(public["companions"])["ships"]["harbor"] == "east"
    again = ReleaseSpec.from_public_dict(json.loads(json.dumps(public)), slots=SLOTS)
    assert again.public_dict() == public
    assert again.part(TideKeys) is not None


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (("force = 12", "force = 13"), ["postprocess.storms.anna.force: found the number 13; at most 12 is allowed"]),
        (("force = 12", "forec = 12"), [
            "postprocess.storms.anna.force: missing; needed is on Beaufort's scale",
            "postprocess.storms.anna.forec: unknown key; did you mean 'force'? allowed here are file, force",
        ]),
        (("harbor = ", "harbour = "), ["companions.ships.harbour: unknown key; did you mean 'harbor'? allowed"]),
        (("[tide]", "ebb = 3\n[tide]"), ["ebb: found 3; less than the tide's force is needed"]),
        (("force = 3", 'force = "3"'), ["tide.force: found '3'; a whole number is needed"]),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(change: tuple[str, str], lines: list[str]) -> None:
    text = STATED.replace("name = ", "ebb = 3\nname = ") if change[1].startswith("ebb") else STATED.replace(*change)
    found = refusal(text)
    assert len(found) == len(lines)
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=True)), found


def test_keys_of_a_feature_that_is_not_installed_are_refused_in_one_sentence() -> None:
    without = Slots((), {"postprocess.storms": "weather", "tide": "sea", "companions.harbor": "sea"})
    assert refusal(STATED, without) == [
        f"{key}: is of {feature}, which this installation is without; there is no folder features/{feature}"
        for key, feature in (("postprocess.storms", "weather"), ("companions.ships.harbor", "sea"), ("tide", "sea"))
    ]
    both = Slots((), {**without.missing, "ebb": "sea"})
    lines = refusal(f"ebb = 2\n{STATED}", both)
    assert [line.split(":")[0] for line in lines] == ["postprocess.storms", "companions.ships.harbor", "ebb"]
    with pytest.raises(SpecError, match=r"^manifest: tide: is of sea, which this installation is without"):
        ReleaseSpec.from_public_dict({**parse_spec(SPEC).public_dict(), "tide": {}}, "manifest", without)

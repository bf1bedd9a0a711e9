"""A made-up feature states what records add, in the release itself and in companions, and refuses what does not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field, StrictInt

from pipeline.errors import SpecError
from pipeline.model.measure import COUNTS, Counts, Measure
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Schema
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.privacy.budget import Neighbours
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.spec.resolve import MeasureScope
from pipeline.spec.slots import FeatureKeys, Slots

SPEC = """name = "town"
WEIGHED
[privacy]
rho = "1"
[geography]
file = "areas.csv"
levels = ["block"]
[schema.attributes]
age = ["young", "old"]
[strategy]
queries = { age = "1" }
levels = { block = "1" }
[input]
file = "people.csv"
form = "microdata"
geocode = "block"
[companions.homes]
WEIGHED
privacy.rho = "1"
schema.attributes.kind = ["house", "flat"]
strategy = { queries = { kind = "1" }, levels = { block = "1" } }
input = { file = "homes.csv", form = "microdata", geocode = "block" }
"""


@dataclass(frozen=True)
class Weighed(Counts):
    """Each record counts up to so many times."""

    most: int = 1
    counts = False

    def reach(self, neighbours: Neighbours) -> int:  # noqa: ARG002
        return self.most

    def content(self) -> list[object]:
        return ["weighed", self.most]

    def counted(self, texts: Texts) -> str:  # noqa: ARG002
        return "weighted persons"


class WeighedKeys(FeatureKeys):
    """The key `weighed`, wherever it stands."""

    after: ClassVar[str] = ""

    weighed: StrictInt | None = Field(default=None, description="how many times a record counts at most")

    @property
    def named_by(self) -> str:
        return "" if self.weighed is None else "weighed"

    def measure(self) -> Measure:
        return Weighed(self.weighed or 1)

    def measured(self, schema: Schema, scope: MeasureScope) -> Schema:
        if "kind" in schema.names and scope.own is None:
            scope.problems.add("weighed", "kinds have no weight")
        return schema

    def records(self, scope: MeasureScope) -> RecordSource | None:
        if scope.sections.records_per_person > 1:
            scope.problems.add("records_per_person", "not with a weight")
        source = None if scope.sections.input is None else scope.sections.input.source()
        return None if source is None else replace(source, further=("weight",))


class WeighedRelease(WeighedKeys):
    """Of the release itself."""

    slot: ClassVar[str] = ""


class WeighedCompanion(WeighedKeys):
    """Of companions."""

    slot: ClassVar[str] = "companions"


SLOTS = Slots((WeighedRelease, WeighedCompanion))


def parsed(text: str) -> ReleaseSpec:
    return parse_spec(text, folder=Path("/data"), slots=SLOTS)


def test_a_feature_states_the_measure_of_the_release_itself_and_of_a_companion() -> None:
    spec = parsed(SPEC.replace("WEIGHED", "weighed = 5"))
    public = spec.public_dict()
    again = ReleaseSpec.from_public_dict(public, slots=SLOTS)
    for one in (spec, again):
        for universe in one.universes():
            assert universe.measure == Weighed(5)
            assert universe.reach == 5
            assert universe.measure.counted(texts_in("es")) == "weighted persons"
    assert public["weighed"] == dict(public["companions"])["homes"]["weighed"] == 5
    for universe in spec.universes():
        assert universe.require_input().further == ("weight",)


def test_noise_keys_and_cost_follow_from_the_measure() -> None:
    weighed, plain = (parsed(SPEC.replace("WEIGHED", key)).universes() for key in ("weighed = 5", ""))
    assert [one.measure for one in plain] == [COUNTS, COUNTS]
    for one, other in zip(weighed, plain, strict=True):
        scales = [each.noise_at(Fraction(1), Fraction(1)).scale for each in (one, other)]
        assert scales[0] == 25 * scales[1]
        assert one.privacy_fingerprint() != other.privacy_fingerprint()


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("weighed = 5\n", "weighed = 5\nrecords_per_person = 2\n", "records_per_person: not with a weight"),
        ("age = [", "kind = [", "weighed: kinds have no weight"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_the_feature(old: str, new: str, line: str) -> None:
    text = SPEC.replace("WEIGHED", "weighed = 5", 1).replace("WEIGHED", "").replace(old, new)
    if "kind" in new:
        text = text.replace("age = ", "kind = ")
    with pytest.raises(SpecError) as error:
        parsed(text)
    assert str(error.value).splitlines() == [f"spec: {line}"]


def test_a_key_that_states_nothing_leaves_records_to_count_one_each() -> None:
    spec = parsed(SPEC.replace("WEIGHED", ""))
    assert {universe.measure for universe in spec.universes()} == {COUNTS}

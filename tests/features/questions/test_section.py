"""The section [questions] in a spec: what is refused names its key, and a release does not state it."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.asked import SPEC

from features.questions.section import QuestionsPart
from pipeline.errors import SpecError
from pipeline.spec.release_spec import parse_spec


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('["0", "60000"]', '["0"]', "wages.between: found a list of 1 entry; at least 2 are needed"),
        ('["0", "60000"]', '["0", "1", "2"]', "wages.between: found a list of 3 entries; at most 2 are allowed"),
        ('["0", "60000"]', "[0]", 'write it in quotes, "0"'),
        ('["0", "60000"]', '["0", "60050"]', "wages.between"),
        ('unit = "100"\n', "", "wages.unit: between and unit are needed together"),
        ('column = "pay"\n', 'values = ["a"]\n', "wages.values: found both of values and between"),
        ('["day", "night"]', '["day", "day"]', "shift.values: a value stands twice"),
        ('["day", "night"]', '["day", "night"]\nmissing = "dusk"', "shift.missing: found 'dusk'"),
        ('["day", "night"]', '["day", "night"]\nends = "total"', "shift.ends: only for an amount"),
    ],
)
def test_what_is_refused_is_named_by_its_key(old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(SPEC.replace(old, new), "a.toml", Path())
    assert [line for line in str(error.value).splitlines() if line.startswith("a.toml: questions.") and says in line]


def test_keys_that_are_not_published_are_in_no_public_spec() -> None:
    spec = parse_spec(SPEC, "a.toml", Path())
    part = spec.part(QuestionsPart)
    assert part is not None
    assert sorted(part.questions or ()) == ["shift", "wages"]
    without = parse_spec(SPEC[: SPEC.index("[questions.")], "a.toml", Path())
    assert spec.public_dict() == without.public_dict()

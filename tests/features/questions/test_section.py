"""The section [questions] in a spec: what is refused names its key, and a release does not state it."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.asked import SPEC

from features.questions.section import QuestionsPart
from pipeline.errors import SpecError
from pipeline.spec.release_spec import parse_spec


@pytest.mark.parametrize(
    ("between", "says"),
    [
        ('["0"]', "found a list of 1 entry; at least 2 are needed"),
        ('["0", "1", "2"]', "found a list of 3 entries; at most 2 are allowed"),
        ("[0]", 'write it in quotes, "0"'),
        ("[]", "found an empty list; at least one entry is needed"),
    ],
)
def test_ends_of_an_amount(between: str, says: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(SPEC.replace('["0", "60000"]', between), "a.toml", Path())
    lines = str(error.value).splitlines()
    assert any(line.startswith("a.toml: questions.wages.between") and says in line for line in lines), lines


def test_keys_that_are_not_published_are_in_no_public_spec() -> None:
    spec = parse_spec(SPEC, "a.toml", Path())
    part = spec.part(QuestionsPart)
    assert part is not None
    assert part.questions is not None
    assert sorted(part.questions) == ["shift", "wages"]
    without = parse_spec(SPEC[: SPEC.index("[questions.")], "a.toml", Path())
    assert spec.public_dict() == without.public_dict()
    assert "questions" not in spec.public_dict()

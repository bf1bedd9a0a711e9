"""The JSON schema of a spec with [collect]."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from releases.survey import write_survey

from pipeline.spec.release_spec import spec_json_schema


def test_with_collect_a_spec_needs_no_strategy_and_without_both_it_is_wrong(tmp_path: Path) -> None:
    """What is measured of reports follows from [collect]; of other records a strategy says it."""
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(spec_json_schema())
    survey = tomllib.loads(write_survey(tmp_path).spec.read_text("utf-8"))
    assert "strategy" not in survey
    assert validator.is_valid(survey)
    assert not validator.is_valid({key: value for key, value in survey.items() if key != "collect"})
    strategy = {"queries": {"answer": "1"}, "levels": {"county": "1"}}
    assert validator.is_valid(
        {key: value for key, value in survey.items() if key != "collect"} | {"strategy": strategy}
    )
    assert not validator.is_valid(survey | {"collect": {"mechanism": "direct_encoding", "parameter": {}}})

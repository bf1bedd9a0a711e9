"""A spec stated in Python is that of the same tables in TOML; what is wrong with it is told by key."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.small import write_town

import spinewise as sw
from pipeline.spec.release_spec import load_spec

Changed = Callable[..., sw.Spec]


def test_a_file_is_read_as_a_run_reads_it(tmp_path: Path) -> None:
    path = write_town(tmp_path)
    spec, loaded = sw.Spec.read(path), load_spec(path)
    assert spec.resolved == loaded
    assert spec.name == "town"
    assert spec.levels == ("county", "tract", "block")
    assert spec.attributes["quarters"] == ("house", "dorm", "prison")
    assert spec.tables == ("total", "sex", "detail")
    assert spec.companions == ("units",)
    (tmp_path / "again.toml").write_text(spec.to_toml())
    again = sw.Spec.read(tmp_path / "again.toml")
    assert again.to_dict() == spec.to_dict()
    assert again.resolved.model_dump() == spec.resolved.model_dump()


def test_arrays_and_exact_numbers_are_taken_and_no_key_is_shown(changed: Changed) -> None:
    spec = changed(
        privacy={"rho": Fraction(1, 3), "key": "insecure-test:1"},
        schema={"attributes": {"sex": np.array(["female", "male"]), "age": ("a", "b")}},
    )
    assert spec.resolved.privacy.rho == Fraction(1, 3)
    assert spec.attributes == {"sex": ("female", "male"), "age": ("a", "b")}
    assert repr(spec).startswith("Spec 'village'\n")
    assert "insecure" not in repr(spec) + spec._repr_html_()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privacy": {"rho": 2}}, r'^Spec: privacy.rho: found the number 2; write it in quotes, "2"'),
        ({"privcy": {}}, r"^Spec: privcy: unknown key; did you mean 'privacy'\?"),
        ({"geography": {"levels": {"county": 2}}}, "^Spec: geography.column: missing"),
        ({"input": {"form": "microdat", "geocode": "block"}}, "^Spec: input.form: found 'microdat'; allowed is"),
        ({"input": {"form": "microdata"}}, "^Spec: input.geocode: missing; needed is the column of leaf codes"),
        ({"invariants": {"stat": ["total"]}}, "^Spec: invariants.stat: 'stat' is not a level"),
    ],
)
def test_what_is_wrong_is_named(sections: dict[str, Any], message: str, changed: Changed) -> None:
    with pytest.raises(sw.SpecError, match=message):
        changed(**sections)

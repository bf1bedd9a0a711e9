"""Every public input is read by a validation as by a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import request_of, write_town

from flows.checks.validation import validate
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.inputs.public_input import InputScope
from pipeline.publishing import public_inputs
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import load_spec


def test_a_validation_reads_every_public_input(tmp_path: Path) -> None:
    """Also outlines, which were read by a run alone."""
    outlines = '[report.polygons.tract]\nfile = "tracts.geojson"\ncode = "GEOID"\n\n[companions.units]'
    spec = write_town(tmp_path, ("[companions.units]", outlines))
    (tmp_path / "tracts.geojson").write_text("{}")
    facilities = tmp_path / "facilities.csv"
    facilities.write_text(facilities.read_text().replace("dorms", "homes"))
    with pytest.raises(InputError, match=r"report\.polygons\.tract"):
        public_inputs.PolygonsInput().read(open_scope(spec))
    assert [one.part for one in validate(None, spec).findings] == ["bounds", "polygons"]
    request = request_of(spec, tmp_path / "out")
    with pytest.raises(InputError, match="no column 'dorms'"):
        open_listed(request.spec, request.universes)


def open_scope(spec: Path) -> InputScope:
    stated = load_spec(spec)
    return InputScope(stated, stated.universes(), read_spine(stated.geography))

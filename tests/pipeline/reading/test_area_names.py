"""Areas are found by their names; a name that is nobody's or several areas' is answered with what there is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from geography.build import spine_from_table
from pipeline.errors import InputError
from pipeline.model.area_names import LevelNames
from pipeline.reading.reader import AreaIndex


def names(*texts: str, **others: list[str]) -> LevelNames:
    return LevelNames({"": pa.array(texts), **{language: pa.array(of) for language, of in others.items()}})


def index() -> AreaIndex:
    """Two counties; the second is one tract, padded; county and tract have codes in common."""
    table = pa.table({"county": ["1", "1", "2"], "tract": ["1", "3", ""], "block": ["7", "8", ""]})
    spine = spine_from_table(table, ["county", "tract", "block"])
    county = names("Alder County", "R\u00edo, \u200fold", es=["Condado de Alisos", "R\u00edo"])
    return AreaIndex("r", spine, {"county": county, "tract": names("Mill", "Alder  county", "R\u00edo, old")})


def test_case_blanks_composition_and_direction_do_not_count() -> None:
    areas = index()
    for text in ("condado DE  alisos", "Condado de Alisos"):
        assert [str(area) for area in areas.named(text)] == ["county 1"]
    # The county and the tract that it is padded to have the same leaves: one area.
    assert [str(area) for area in areas.named("Ri\u0301o, old")] == ["county 2"]
    assert areas.span("county", 1) == (2, 3)


def test_a_name_of_several_areas_is_answered_with_their_levels_and_codes() -> None:
    with pytest.raises(InputError) as refusal:
        index().one("alder county")
    assert str(refusal.value) == (
        "r: 'alder county' is the name of 2 areas: county 1; tract 3 in Alder County; give the geocode of one, or "
        "level and geocode, such as 'county:1'"
    )
    found = index().one("tract:Alder County")
    assert found is not None
    assert (found.level, found.geocode, found.name) == ("tract", "3", "Alder  county")
    assert index().one("county:1") == index().named("county:1")[0]

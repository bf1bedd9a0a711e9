"""The list of leaves is read as it is, or refused with the file and the place."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pydantic import ValidationError

from geography.spine import Spine
from pipeline.errors import InputError, SpineError
from pipeline.inputs.geography import read_spine
from pipeline.spec.sections import GeographySection


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_three_forms_of_a_geography_give_the_same_spine(tmp_path: Path, suffix: str) -> None:
    blocks = ["A0101", "A0102", "A0201", "B0101"]

    def spine(content: dict[str, list[str]], **section: object) -> Spine:
        path = tmp_path / f"geography{suffix}"
        frame = pd.DataFrame(content)
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
        return read_spine(GeographySection.model_validate({"file": str(path), **section}))

    prefixes = spine({"block": blocks[::-1]}, column="block", levels={"county": 1, "tract": 3, "block": 5})
    table = spine(
        {"block": blocks, "tract": [b[:3] for b in blocks], "county": [b[0] for b in blocks]},
        levels=["county", "tract", "block"],
    )
    children = [*"AB", "A01", "A02", "B01", *blocks]
    parents = ["", "", "A", "A", "B", *(b[:3] for b in blocks)]
    pairs = spine({"of": parents, "code": children}, column="code", parent="of", levels=["county", "tract", "block"])
    assert prefixes.fingerprint() == table.fingerprint() == pairs.fingerprint()


def test_a_wrong_geography_names_its_file(tmp_path: Path) -> None:
    def read(name: str) -> Spine:
        section = {"file": str(tmp_path / name), "column": "block", "levels": {"county": 1, "block": 5}}
        return read_spine(GeographySection.model_validate(section))

    with pytest.raises(InputError, match=r"none\.csv: the file of the geography does not exist"):
        read("none.csv")
    (tmp_path / "short.csv").write_text("block\nA0101\nA01\n")
    with pytest.raises(SpineError, match=r"short\.csv: level 'block': 1 code of the wrong length: 'A01'"):
        read("short.csv")
    (tmp_path / "other.csv").write_text("code\nA0101\n")
    with pytest.raises(InputError, match=r"other\.csv: no column 'block'"):
        read("other.csv")


def test_a_leaf_may_have_several_rows_where_the_spec_says_so(tmp_path: Path) -> None:
    (tmp_path / "zones.csv").write_text("county,zone\n1,a\n1,b\n1,a\n2,c\n", encoding="utf-8")
    section = {"file": tmp_path / "zones.csv", "levels": ["county", "zone"]}
    with pytest.raises(SpineError, match="given twice"):
        read_spine(GeographySection.model_validate(section))
    spine = read_spine(GeographySection.model_validate({**section, "repeated": True}))
    assert spine.leaf_level.geocodes.tolist() == ["a", "b", "c"]
    (tmp_path / "zones.csv").write_text("county,zone\n1,a\n2,a\n", encoding="utf-8")
    with pytest.raises(SpineError, match="a under 1 and 2"):
        read_spine(GeographySection.model_validate({**section, "repeated": True}))
    with pytest.raises(ValidationError, match="only for a list of levels"):
        GeographySection.model_validate(
            {"file": tmp_path / "zones.csv", "column": "zone", "levels": {"zone": 1}, "repeated": True}
        )

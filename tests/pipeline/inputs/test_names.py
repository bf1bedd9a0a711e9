"""A file of names is read as it is, or refused with the file, the area, what was found and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.inputs.names import read_names
from pipeline.model.area_names import AreaNames
from pipeline.spec.sections import GeographySection

SPINE = spine_from_prefixes(["A01", "A02", "B01"], {"county": 1, "block": 3})


def read(folder: Path, stated: object, **files: str) -> AreaNames:
    (folder / "blocks.csv").write_text(files.pop("blocks", "block\nA01\nA02\nB01\n"), encoding="utf-8")
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    content = {"file": str(folder / "blocks.csv"), "column": "block", "levels": {"county": 1, "block": 3}}
    return read_names(GeographySection.model_validate({**content, "names": {"county": stated}}), SPINE)


def own(folder: Path, text: str, name: object = "name") -> AreaNames:
    return read(folder, {"file": str(folder / "names.csv"), "code": "code", "name": name}, names=text)


def test_a_file_may_name_the_areas_of_several_levels_in_any_order(tmp_path: Path) -> None:
    found = own(tmp_path, "code,name\nB01,Mill\nB, Birch \nA,Alder\n")["county"]
    assert found.in_language() == ["Alder", "Birch"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("code,name\nA,Alder\n", "1 area of level 'county' without a row: 'B'; each of the 2 needs a name"),
        ("code,name\nA,Alder\nB,Birch\nC,Cedar\n", "1 code that no area of the spine has: 'C'; those of level"),
        ("code,name\nA,Alder\nB,Birch\nB,Birch\n", "1 area of level 'county' named twice: 'B'; one row for each"),
        ("code,name\nA,Alder\nB,\n", "area 'B' of level 'county': found the name '', which is empty"),
        ("code,name\nA,Alder\nB,a\u202eb\n", r"found the name 'a\u202eb', which has the control character U+202E"),
        ('code,name\nA,Alder\nB,"a\tb"\n', r"found the name 'a\tb', which has the control character U+0009"),
        (f"code,name\nA,Alder\nB,{'x' * 301}\n", "which has 301 characters; at most 300 are allowed"),
        ("code,title\nA,Alder\n", "no column 'name'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError) as refusal:
        own(tmp_path, text)
    message = str(refusal.value)
    assert message.startswith(f"geography.names.county: {tmp_path / 'names.csv'}")
    assert told in message
    assert len(message.splitlines()) == 1


def test_a_name_beside_the_codes_stands_with_every_leaf_and_is_one(tmp_path: Path) -> None:
    found = read(tmp_path, "town", blocks="block,town\nA01,Alder\nB01,Birch\nA02,Alder\n")
    assert found["county"].in_language() == ["Alder", "Birch"]
    with pytest.raises(InputError, match="area 'A' of level 'county' has two names: 'Alder' and 'Elder'; one is"):
        read(tmp_path, "town", blocks="block,town\nA01,Alder\nB01,Birch\nA02,Elder\n")
    with pytest.raises(InputError, match="area 'B' of level 'county' in language 'es': found the name '', which is"):
        read(tmp_path, {"name": {"en": "a", "es": "b"}}, blocks="block,a,b\nA01,x,y\nB01,x,\nA02,x,y\n")


def test_names_in_a_table_of_levels_and_of_pairs(tmp_path: Path) -> None:
    def names(text: str, **section: object) -> tuple[Spine, AreaNames]:
        (tmp_path / "areas.csv").write_text(text)
        geography = GeographySection.model_validate({"file": str(tmp_path / "areas.csv"), **section})
        spine = read_spine(geography)
        return spine, read_names(geography, spine)

    # Tract 2 has no blocks of its own: its branch is padded, and its name is that of the area below, too.
    text = "county,tract,block,called\n1,1,7,One\n1,2,,Two\n"
    spine, found = names(text, levels=["county", "tract", "block"], names={"tract": "called", "block": "called"})
    assert spine.level("block").geocodes.tolist() == ["7", "2"]
    assert found["block"].in_language() == found["tract"].in_language() == ["One", "Two"]
    pairs = "child,parent,called\n1,,Top\n11,1,Left\n12,1,Right\n"
    section = {"levels": ["county", "block"], "column": "child", "parent": "parent"}
    _, found = names(pairs, **section, names={"county": "called", "block": "called"})
    assert [found[level].in_language() for level in ("county", "block")] == [["Top"], ["Left", "Right"]]

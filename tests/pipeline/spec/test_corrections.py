"""Which keys of a spec are texts for readers: those of a list written here, every other one is refused, in one line."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from releases.small import SPEC

from auditor.check.update import _without_texts
from pipeline.errors import SpecError
from pipeline.release.run_directory import WITH_TEXTS
from pipeline.spec.problems import _plain
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from pipeline.spec.slots import fields_of, installed_slots
from pipeline.spec.wording.corrections import Corrections, corrected, read_corrections, split_texts

#: A correction of every key that can be corrected, of the town: place in its spec -> another text.
TEXTS: dict[str, str] = {
    "report.title": '"The town"',
    "report.publisher": '"Office of the town"',
    "report.language": '"es"',
    "report.reference_date": "2031-04-01",
    "report.publication_date": "2032-04-01",
    "report.version": '"2, corrected"',
    "report.next_release": '"in 2041"',
    "report.contact": '"town@example.org"',
    "report.licence": '"CC0-1.0"',
    "report.citation": '"Office of the town (2032)"',
    "report.software_url": '"https://example.org"',
    "report.notes": '["Read this."]',
    "report.definitions": '{ dorm = "A house of students." }',
    "geography.labels": '{ county = "County", tract = { en = "Tract", es = "Sección" } }',
    "schema.labels.records": '"residents"',
    "schema.labels.attributes": '{ age = "Age group" }',
    "schema.labels.values": '{ sex = { f = "women", m = "men" } }',
    "schema.labels.tables": '{ sex = "Women and men" }',
    "companions.units.schema.labels.records": '"dwellings"',
    "companions.units.schema.labels.attributes": '{ status = "Use" }',
    "companions.units.schema.labels.values": '{ status = { vacant = "empty" } }',
    "companions.units.schema.labels.tables": '{ status = "Dwellings" }',
}


def spec_of(folder: Path) -> ReleaseSpec:
    """The town's spec as a release has it."""
    path = folder / "release.toml"
    path.write_text(SPEC, "utf-8")
    return ReleaseSpec.from_public_dict(json.loads(json.dumps(load_spec(path).public_dict())), "the release")


def corrections(folder: Path, text: str) -> Path:
    path = folder / "corrections.toml"
    path.write_text(text, "utf-8")
    return path


def sections_in(annotation: Any) -> Iterator[type[BaseModel] | None]:
    """The sections that a value may have: None for one that is no section; of tables of sections, those."""
    annotation = _plain(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) is dict:
        yield from sections_in(typing.get_args(annotation)[1])
    else:
        yield None


def all_keys(model: type[BaseModel], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The place of each key of a spec, those of features too; an entry of a table by a name that there is."""
    for key, field in fields_of(model, installed_slots()).items():
        annotation = _plain(field.annotation)
        for section in sections_in(annotation):
            named = typing.get_origin(annotation) is dict and section is not None
            below = (*place, key, "units") if named else (*place, key)
            if section is None:
                yield below
            else:
                yield from all_keys(section, below)


KEYS = sorted(set(all_keys(ReleaseSpec)))


def test_the_list_is_what_can_be_corrected() -> None:
    places = {".".join(key) for key in all_keys(Corrections)}
    assert places == set(TEXTS)
    assert len(KEYS) > 100  # so that the test below is of something
    assert places <= {".".join(key) for key in KEYS}
    assert {f"the spec's {place.split('.')[0]}" for place in places} == WITH_TEXTS


@pytest.mark.parametrize("key", [key for key in KEYS if ".".join(key) not in TEXTS], ids=".".join)
def test_every_other_key_is_refused_in_one_line(tmp_path: Path, key: tuple[str, ...]) -> None:
    path = corrections(tmp_path, f'{".".join(key)} = "x"\n')
    with pytest.raises(SpecError) as caught:
        read_corrections(path)
    (line,) = str(caught.value).splitlines()
    beginnings = [".".join(key[: 1 + number]) for number in range(len(key))]
    first = next(one for one in beginnings if not any(f"{text}.".startswith(f"{one}.") for text in TEXTS))
    assert line.startswith(f"{path}: {first}: ")
    assert "is no text for readers, which alone can be corrected without another run; " in line
    assert caught.value.exit_status == 2


def leaves(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from leaves(content[key], (*place, key))
    else:
        yield place


def test_both_programs_leave_out_the_same_of_a_published_spec(tmp_path: Path) -> None:
    """Each leaf of a spec with all texts is changed: what is left is another just where the leaf is of no text."""
    spec = spec_of(tmp_path)
    path = corrections(tmp_path, "".join(f"{key} = {text}\n" for key, text in TEXTS.items()))
    full = json.loads(json.dumps(corrected(spec, read_corrections(path), str(path)).public_dict()))
    seen = set()
    for place in leaves(full):
        changed = json.loads(json.dumps(full))
        inner = changed
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = "another"
        names = [part for part in place if isinstance(part, str)]
        within = names[1:] if names[0] == "companions" else names  # their names are in a list of pairs
        text = within[:2] in (["geography", "labels"], ["schema", "labels"]) or ".".join(within[:2]) in TEXTS
        assert (split_texts(changed)[1] == split_texts(full)[1]) == text, place
        assert (_without_texts(changed) == _without_texts(full)) == text, place
        seen.add(text)
    assert seen == {True, False}

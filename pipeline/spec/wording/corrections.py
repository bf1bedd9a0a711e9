"""Corrections of a finished release: other texts for readers in the place of its own, on which no number depends.

The keys of `Corrections` are the whole list of what can be corrected. Whatever else of a spec is to be another makes
another release, by a run of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, Field, ValidationError

from pipeline.errors import InputError, SpecError
from pipeline.spec.fields import Name, NamedTable, Section, Table
from pipeline.spec.problems import Problems, dotted, note_nul, note_validation_error
from pipeline.spec.release_spec import ReleaseSpec, read_toml
from pipeline.spec.sections import SchemaSection
from pipeline.spec.slots import keys_of, stated_in
from pipeline.spec.wording.fields import Texts
from pipeline.spec.wording.sections import LabelsSection, ReportTexts

S = TypeVar("S", bound=Section)


class GeographyTexts(Section):
    """The texts of [geography]."""

    labels: Table[Texts] | None = Field(default=None, description="level -> its label for readers")


class SchemaTexts(Section):
    """The texts of [schema]."""

    labels: LabelsSection | None = Field(default=None, description="labels of attributes, values and tables")


class CompanionTexts(Section):
    """The texts of a companion."""

    schema_section: SchemaTexts = Field(default=SchemaTexts(), alias="schema", description="a table with its labels")


class Corrections(Section):
    """Texts for readers, each with its key in the spec; what is not stated stays as it is."""

    unknown_key: ClassVar[str] = "is no text for readers, which alone can be corrected without another run;"

    report: ReportTexts = Field(default=ReportTexts(), description="texts of the report")
    geography: GeographyTexts = Field(default=GeographyTexts(), description="a table with labels of levels")
    schema_section: SchemaTexts = Field(default=SchemaTexts(), alias="schema", description="a table with labels")
    companions: NamedTable[Name, CompanionTexts] = Field(default={}, description="the same of companions, by name")


def read_corrections(path: Path) -> Corrections:
    """The corrections in a TOML file.

    Raises:
        SpecError: it cannot be read, or has something else than texts for readers; one line for each problem.
    """
    content, problems = read_toml(path), Problems(str(path))
    note_nul(content, problems)
    problems.raise_if_any()
    try:
        return Corrections.model_validate(content)
    except ValidationError as error:
        note_validation_error(error, Corrections, problems)
        problems.raise_if_any()
        raise


#: Key -> how many tables of names it holds, one in the other; of these, only what is named gets another text.
_TABLES: Final = {"definitions": 1, "attributes": 1, "tables": 1, "values": 2}


def corrected(spec: ReleaseSpec, stated: Corrections, source: str) -> ReleaseSpec:
    """The spec of a release with the texts that are stated in the place of its own.

    Args:
        spec: published.
        stated: the corrections.
        source: what messages call them.

    Raises:
        SpecError: one is of something that the release does not have.
        InputError: all are as the release has them.
    """
    problems = Problems(source)
    for name in stated.companions:
        problems.known(dotted(["companions", name]), "companion", name, tuple(spec.companions))
    problems.raise_if_any()
    companions = {
        name: section.model_copy(update={"schema_section": _relabelled(section.schema_section, texts.schema_section)})
        for name, section in spec.companions.items()
        for texts in [stated.companions.get(name, CompanionTexts())]
    }
    labels = _merged(spec.geography.labels, stated.geography.labels, 1)
    new = spec.model_copy(
        update={
            "report": _with_texts(spec.report, stated.report),
            "geography": spec.geography.model_copy(update={"labels": labels}),
            "schema_section": _relabelled(spec.schema_section, stated.schema_section),
            "companions": companions,
        }
    )
    try:
        new.universes()
    except SpecError as error:
        raise SpecError(str(error).replace(f"{spec.source}: ", f"{source}: ")) from None
    if not text_changes(spec.public_dict(), new.public_dict()):
        raise InputError(f"{source}: corrects nothing; every text is as the release has it")
    return new


def _relabelled(schema: SchemaSection, stated: SchemaTexts) -> SchemaSection:
    if stated.labels is None:
        return schema
    return schema.model_copy(update={"labels": _with_texts(schema.labels or LabelsSection(), stated.labels)})


def _with_texts(section: S, stated: Section) -> S:
    """The section with what is stated of its keys."""
    texts = {key: value for key, value in stated_in(stated).items() if value is not None}
    merged = {key: _merged(getattr(section, key), value, _TABLES.get(key, 0)) for key, value in texts.items()}
    return section.model_copy(update=merged)


def _merged(own: Any, stated: Any, tables: int) -> Any:
    """What is stated in the place of one's own; of so many tables of names, one in the other, what is named there."""
    if stated is None:
        return own
    if not tables:
        return stated
    own = own or {}
    return {**own, **{name: _merged(own.get(name), text, tables - 1) for name, text in stated.items()}}


# -- in published specs -----------------------------------------------------------------------------------------------


def split_texts(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The texts of a published spec that can be corrected, and the rest of it, both in its form."""
    texts, rest = dict[str, Any](), dict(content)
    models: dict[str, type[BaseModel]] = {"report": ReportTexts, "geography": GeographyTexts, "schema": SchemaTexts}
    for key, model in models.items():
        texts[key], rest[key] = _split(content.get(key, {}), keys_of(model))
    companions = [(name, *_split_schema(companion)) for name, companion in content.get("companions", ())]
    texts["companions"] = [[name, own] for name, own, _ in companions]
    rest["companions"] = [[name, others] for name, _, others in companions]
    return texts, rest


def _split_schema(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same of one universe."""
    labels, schema = _split(content.get("schema", {}), keys_of(SchemaTexts))
    return {"schema": labels}, {**content, "schema": schema}


def _split(section: Mapping[str, Any], keys: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    stated = {key: value for key, value in section.items() if key in keys}
    return stated, {key: value for key, value in section.items() if key not in keys}


def text_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str | None, str | None]]:
    """Key, text before and after of each text that two published specs do not both have; None where one has none."""
    old, new = (dict(_texts(split_texts(content)[0])) for content in (before, after))
    return [(key, old.get(key), new.get(key)) for key in {**new, **old} if old.get(key) != new.get(key)]


def _texts(content: Any, place: tuple[int | str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Key and text of everything in a part of a published spec, in which tables of names are lists of pairs."""
    if isinstance(content, str):
        yield dotted(place), content
        return
    if isinstance(content, Mapping):
        named: Any = content.items()
    else:
        named = content if any(isinstance(one, list) for one in content) else enumerate(content)
    for name, value in named:
        yield from _texts(value, (*place, name) if name != "" else place)

"""What a published spec says of the version before, and of answers to questions: added ones, and one that chose an end.

No spec file has the section "update". `spinewise update` writes it into the spec of the manifest, from which everything
is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import numpy as np
from pydantic import Field, StrictInt

from pipeline.model.promise import Promise
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.strategy import AddedAnswer
from pipeline.privacy.noise.mechanisms import NOISE, NoiseName
from pipeline.spec.fields import Budget, File, FilledTable, FilledValues, Name, NamedTable, Section, Value
from pipeline.spec.privacy_section import PrivacySection
from pipeline.spec.problems import Problems
from postprocess.arrays import IntArray

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TermSection(Section):
    """One of the terms that an answer tells apart: an attribute, or groups of its values as they were asked for."""

    attribute: Name = Field(description="of the schema")
    groups: FilledTable[FilledValues] = Field(description="label of each group: its values; others do not count")


class AddedSection(Section):
    """An answer whose counts are used beside the measurements of the release."""

    name: Name = Field(description="of the answer")
    sha256: Hash = Field(description="of its answer.json")
    question: str = Field(description="canonical text")
    level: Name = Field(description="whose areas it counts")
    by: NamedTable[Value, TermSection] = Field(description="the terms that it tells apart, in the schema's order")
    where: NamedTable[Name, FilledValues] = Field(description="of attributes that it does not tell apart: what counts")
    mechanism: NoiseName = Field(description="of the noise on each count")
    scale: Budget = Field(description="sigma^2 or b, exact")


class ChosenSection(Section):
    """Where the upper end of an amount is from: a clip that was chosen privately, for a cost of its own."""

    answer: File = Field(description="the folder of the answer; a published spec has its name")
    sha256: Hash = Field(description="of its answer.json")
    question: str = Field(description="canonical text")
    dataset: str = Field(description="that it was charged to")
    ledger: str = Field(description="id of the ledger that it was charged to")


class UpdateSection(Section):
    """Which version of a release this is, and with which answers it was made; one without new ones corrects texts."""

    version: Annotated[StrictInt, Field(ge=2)] = Field(description="the first release is version 1")
    replaces: Hash = Field(description="SHA-256 of the manifest of the version before")
    answers: tuple[AddedSection, ...] = Field(
        description="all that were added, those of earlier versions first; none where texts alone were corrected"
    )


def resolve_added(
    section: UpdateSection | None,
    schema: Schema,
    level_names: Sequence[str],
    privacy: PrivacySection,
    records_per_person: int,
    problems: Problems,
) -> tuple[AddedAnswer, ...]:
    """The answers that a version was made with; what does not fit is noted."""
    added: list[AddedAnswer] = []
    for number, one in enumerate(() if section is None else section.answers):
        own, before = problems.at(f"answers[{number}]"), len(problems.lines)
        own.known_level("level", one.level, level_names)
        if (kind := NOISE.get(privacy.framework)) is None or one.mechanism != kind.mechanism:
            own.add(
                "mechanism", f"found {one.mechanism!r}; it is not that of counts with framework {privacy.framework!r}"
            )
        if any(one.name == other.query.name for other in added):
            own.add("name", f"{one.name!r} stands twice; each answer is used once")
        query = _query(one, schema, own)
        if len(problems.lines) == before:
            noise = NOISE[privacy.framework](one.scale)
            promise = Promise(privacy.framework, privacy.neighbours, Fraction(0), records_per_person)
            added.append(AddedAnswer(one.level, query, noise, promise.cost(noise), one.question, one.sha256))
    return tuple(added)


def _query(one: AddedSection, schema: Schema, problems: Problems) -> Query:
    """What the answer counts; values beyond its conditions have the number after the last group."""
    groups = {attribute.name: np.zeros(len(attribute.values), dtype=np.int64) for attribute in schema.attributes}
    labels: dict[str, tuple[str, ...]] = dict.fromkeys(groups, ())
    terms: dict[str, str] = {}
    for term, section in one.by.items():
        if section.attribute not in groups or section.attribute in terms:
            problems.add(f"by.{term}", f"found {section.attribute!r}; another attribute of the schema is needed")
            continue
        terms[section.attribute] = term
        labels[section.attribute] = tuple(section.groups)
        attribute = schema.attribute(section.attribute)
        groups[section.attribute] = _numbered(attribute, list(section.groups.values()), problems)
    for name, values in one.where.items():
        if name not in groups or name in terms:
            problems.add(f"where.{name}", "an attribute of the schema is needed that is not told apart")
            continue
        groups[name] = _numbered(schema.attribute(name), [values], problems)
    ordered = tuple(terms[name] for name in schema.names if name in terms)
    asked = tuple(np.arange(int(group.max()) + 1) < (len(labels[name]) or 1) for name, group in groups.items())
    answered = () if all(part.all() for part in asked) else asked
    return Query(one.name, tuple(groups.values()), answered, terms=ordered, labels=tuple(labels.values()))


def _numbered(attribute: Attribute, groups: Sequence[Sequence[str]], problems: Problems) -> IntArray:
    """The number of the group of each value; of values in none, the number after the last."""
    named = [value for group in groups for value in group]
    if len(set(named)) < len(named) or not set(named) <= set(attribute.values):
        problems.add("", f"its groups of {attribute.name!r} have a value twice, or one that the attribute has not")
    group_of = {value: number for number, group in enumerate(groups) for value in group}
    return np.array([group_of.get(value, len(groups)) for value in attribute.values], dtype=np.int64)

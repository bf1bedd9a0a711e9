"""The domain of a spec's questions, and how the records are read for one of them."""

from __future__ import annotations

from dataclasses import replace

from features.questions.section import QuestionsPart
from pipeline.errors import SpecError
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Attribute, Schema
from pipeline.questions.domain import Domain
from pipeline.questions.resolved import Resolved, records_of_unit
from pipeline.spec.release_spec import ReleaseSpec

__all__ = ["domain_of", "source_for"]


def domain_of(spec: ReleaseSpec, schema: Schema) -> Domain:
    """What questions on the records of a release may name.

    Args:
        spec: its spec.
        schema: of its own universe.

    Raises:
        SpecError: a column of [questions] is called as an attribute, a recode or a level.
    """
    columns: dict[str, Attribute] = {}
    files: dict[str, str] = {}
    texts: dict[str, dict[str, str]] = {}
    keys = spec.part(QuestionsPart)
    stated = {} if keys is None or keys.questions is None else keys.questions.columns
    taken = {*schema.names, *(recode.name for recode in schema.recodes), *spec.geography.level_names}
    for name, section in stated.items():
        if name in taken:
            raise SpecError(
                f"{spec.source}: questions.columns.{name}: found the name of an attribute, a recode or a level; a "
                "further column needs a name of its own"
            )
        if section.ends == "total" and spec.privacy.unit is None:
            raise SpecError(
                f"{spec.source}: questions.columns.{name}.ends: found 'total', and no units: say in [privacy] which "
                "column has them (unit), and how many records of each are counted (at_most)"
            )
        if section.values is None:
            columns[name] = section.amount(name)
        else:
            columns[name] = Attribute(name, section.values)
            if section.missing is not None:
                texts[name] = {"": section.missing}
        if section.column is not None:
            files[name] = section.column
    at_most = spec.privacy.at_most
    units = None if at_most is None else records_of_unit(at_most)
    return Domain(spec.geography.level_names, schema, columns, files, texts, units)


def source_for(records: RecordSource, question: Resolved, domain: Domain) -> RecordSource:
    """How the records are read for a question.

    Raises:
        SpecError: the records are of the wide form, which has no further columns.
    """
    further = {name: column for name in question.read.names if (column := domain.further(name)) is not None}
    if records.form == "wide" and further:
        raise SpecError(
            f'question: found {next(iter(further.values()))!r} and records of the form "wide"; a column beyond the '
            'schema needs the form "microdata" or "long"'
        )
    return replace(
        records,
        columns={**records.columns, **{name: domain.files.get(column, column) for name, column in further.items()}},
        values={**records.values, **{name: domain.texts[name] for name in further if name in domain.texts}},
        further=tuple(further),
    )

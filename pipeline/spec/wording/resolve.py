"""The words of a spec, checked against what they are for, and chosen in one language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pipeline.model.labels import Labels, in_language
from pipeline.model.schema import Schema
from pipeline.model.texts.available import languages
from pipeline.model.universe import Universe
from pipeline.spec.problems import Problems, dotted
from pipeline.spec.sections import GeographySection
from pipeline.spec.wording.sections import LabelsSection, NamesSection


def note_names(geography: GeographySection, problems: Problems) -> None:
    """Note what in the names and labels of levels does not fit; `problems` are those of [geography]."""
    levels = geography.level_names
    for table in ("names", "labels"):
        for level in getattr(geography, table) or {}:
            problems.known_level(dotted([table, level]), level, levels)
    _note_alike("labels", levels, geography.labels or {}, problems)
    for level, section in (geography.names or {}).items():
        _note_file(section, problems.at(dotted(["names", level])))
        if geography.regroup is not None and level == levels[-2]:
            problems.add(
                dotted(["names", level]), "the units of this level are made by regroup and have no names; leave it out"
            )


def _note_file(section: NamesSection, problems: Problems) -> None:
    if section.file is not None and section.code is None:
        problems.add("code", "missing; with a file, name its column of geocodes")
    if section.file is None and section.code is not None:
        problems.add("code", "only with a file; the names stand beside the codes in geography.file")


def note_language(
    language: str | None, geography: GeographySection, labels: Sequence[LabelsSection | None], problems: Problems
) -> None:
    """Note a language that neither a name or label nor the report's texts are in; `problems` are those of [report]."""
    if language is None:
        return
    texts = [section.name for section in (geography.names or {}).values()] + [*(geography.labels or {}).values()]
    for section in labels:
        if section is not None:
            texts += [*([section.records] if section.records else []), *(section.attributes or {}).values()]
            texts += [*(section.tables or {}).values()]
            texts += [text for values in (section.values or {}).values() for text in values.values()]
    stated = sorted({tag for one in texts for tag in one if tag})
    known = [*stated, *(one for one in languages() if one not in stated)]
    if language.partition("-")[0] not in known:
        problems.known(
            "language", "language of names, labels or the report's texts", language, known, are="they are in"
        )


def note_labels(section: LabelsSection | None, universe: Universe, problems: Problems) -> None:
    """Note labels of what the universe does not have; `problems` are those of [schema.labels]."""
    if section is None:
        return
    tables = [table.name for table in universe.tables]
    note_unknown_labels(section, universe.schema, tables, problems)
    _note_alike("tables", tables, section.tables or {}, problems)
    for term, known in universe.schema.terms.items():
        _note_alike(f"values.{term}", known, (section.values or {}).get(term, {}), problems)


def note_unknown_labels(section: LabelsSection, schema: Schema, tables: Sequence[str], problems: Problems) -> None:
    """Note labels of what neither a schema nor one of the tables, by name, is; `problems` are of [schema.labels]."""
    values = schema.terms
    _note_unknown("attributes", section.attributes or (), "attribute or recode", tuple(values), problems)
    _note_unknown("values", section.values or (), "attribute or recode", tuple(values), problems)
    for term, labels in (section.values or {}).items():
        if term in values:
            _note_unknown(f"values.{term}", labels, f"value of {term}", values[term], problems)
    _note_unknown("tables", section.tables or (), "published table", tables, problems)


def _note_unknown(key: str, names: Iterable[str], kind: str, known: Sequence[str], problems: Problems) -> None:
    for name in names:
        problems.known(dotted([*key.split(".", 1), name]), kind, name, known)


def _note_alike(key: str, known: Sequence[str], stated: Mapping[str, Mapping[str, str]], problems: Problems) -> None:
    """Two values, levels or tables with one label would be two columns or bars that nobody can tell apart."""
    for language in sorted({one for texts in stated.values() for one in texts}):
        labels = _texts(stated, language)
        seen: dict[str, str] = {}
        for name in known:
            label = labels.get(name, name)
            if (other := seen.setdefault(label, name)) != name:
                problems.add(
                    dotted([*key.split(".", 1), name]), f"{label!r} is the label of {other!r} too; labels must differ"
                )


def labels_of(geography: GeographySection, section: LabelsSection | None, language: str) -> Labels:
    """The labels of levels and of one universe in a language."""
    own = section or LabelsSection()
    return Labels(
        records="" if own.records is None else in_language(own.records, language),
        levels=_texts(geography.labels or {}, language),
        attributes=_texts(own.attributes or {}, language),
        values={term: _texts(values, language) for term, values in (own.values or {}).items()},
        tables=_texts(own.tables or {}, language),
    )


def _texts(texts: Mapping[str, Mapping[str, str]], language: str) -> dict[str, str]:
    return {name: in_language(one, language) for name, one in texts.items()}

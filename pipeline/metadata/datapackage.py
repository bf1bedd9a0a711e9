"""A Data Package (Frictionless): every file with the schema of its columns, and who publishes them on which terms.

It follows version 2 (https://datapackage.org/standard/data-package/) in what version 1 reads, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.metadata.contents import Axis, Column, DataFile
from pipeline.metadata.facts import fact_lines, is_address, licence_of
from pipeline.model.about import About
from pipeline.storage.files import sha256_file

#: Of this profile; read by name, never fetched.
PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")
#: Suffix -> type.
MEDIA = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
_EMAIL = re.compile(r"[^\s@<>]+@[^\s@<>]+\.[^\s@<>]+")


def data_package(
    name: str, about: About, language: str, facts: Mapping[str, str], resources: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The descriptor.

    Args:
        name: of the release.
        about: what it says of itself.
        language: of labels, "" where it is not stated.
        facts: from `release_facts`; in the description, too, which every reader of packages shows.
        resources: from `resource`.
    """
    package: dict[str, Any] = {
        "$schema": PROFILE,
        "profile": "data-package",
        "name": slug(name),
        "title": about.title or name,
        "description": "\n".join([fact_lines(facts), "\n\n".join(about.notes)]).strip(),
        "status": facts["status"],
        "epsilon": facts["epsilon"],
        "sources": [{"title": facts["source"]}],
    }
    if about.publisher or about.contact:
        package["contributors"] = [contributor(about)]
    if licence := licence_of(about.licence):
        stated = {"name": licence.name, "title": licence.title, "path": licence.address}
        package["licenses"] = [{key: text for key, text in stated.items() if text}]
    if about.reference_date:
        package["reference_date"] = about.reference_date
    if about.period:
        package["temporal"] = {"name": about.period.name, "start": about.period.first, "end": about.period.last}
    if about.publication_date:
        package["created"] = f"{about.publication_date}T00:00:00Z"
    if about.version:
        package["version"] = about.version
    if about.citation:
        package["citation"] = about.citation
    if language:
        package["language"] = language
    if about.definitions:
        package["definitions"] = dict(about.definitions)
    return package | {"resources": list(resources)}


def contributor(about: About) -> dict[str, Any]:
    """The publisher, with an address where the contact is one."""
    found: dict[str, Any] = {"title": about.publisher or about.contact, "role": "publisher", "roles": ["publisher"]}
    if is_address(about.contact):
        found["path"] = about.contact
    elif address := _EMAIL.search(about.contact):
        found["email"] = address.group()
    return found


def resource(file: DataFile, path: str, written: Path | None = None) -> dict[str, Any]:
    """One file of a package.

    Args:
        file: what it holds.
        path: relative to the descriptor.
        written: whose size and hash are stated; neither where it is None.
    """
    suffix = path.rpartition(".")[2]
    described: dict[str, Any] = {
        "profile": "tabular-data-resource" if suffix == "csv" else "data-resource",
        "type": "table",
        "name": slug(path.removesuffix(f".{suffix}").replace("/", ".")),
        "path": path,
        "title": file.title,
        "format": suffix,
        "mediatype": MEDIA[suffix],
        **({"encoding": "utf-8"} if suffix == "csv" else {}),
        **({"description": file.note} if file.note else {}),
        "schema": table_schema(file),
    }
    if suffix != "csv":
        del described["type"]
    if written is not None:
        described |= {"bytes": written.stat().st_size, "hash": f"sha256:{sha256_file(written)}"}
    return described


def measured(file: DataFile, path: str) -> dict[str, Any]:
    """A published measurement: its answers are one list a row, whose places the field `value` names.

    Args:
        file: of measurements, with a column for each answer; with none where the answers are many.
        path: relative to the descriptor.
    """
    geocode, *answers, variance = file.columns
    n_answers = len(answers) or math.prod(len(axis.values) for axis in file.axes)
    described = resource(file, path)
    value: dict[str, Any] = {
        "name": "value",
        "type": "array",
        "title": "The answers, in the order of `answers`",
        "constraints": {"required": True, "minLength": n_answers, "maxLength": n_answers},
        "arrayItem": {"type": "integer"},
    }
    if answers:
        value["answers"] = [{"name": one.name, "title": one.title} for one in answers]
    else:
        value["title"] = "The answers, in the order of the combinations of `terms`, the last of which runs fastest"
        value["terms"] = [_term(axis) for axis in file.axes]
    fields = [_field(geocode), value, _field(variance) | {"name": "variance"}]
    return described | {"schema": {"fields": fields, "missingValues": [""], "primaryKey": ["geocode"]}}


def drawn_where_positive(file: DataFile, path: str) -> dict[str, Any]:
    """Published answers that were drawn where the released parent is positive: two lists a row.

    Args:
        file: with the columns of geocodes and variances, and the terms of its query.
        path: relative to the descriptor.
    """
    geocode, variance = file.columns
    n_answers = math.prod(len(axis.values) for axis in file.axes)
    lists = {"type": "array", "constraints": {"required": True, "maxLength": n_answers}}
    answer: dict[str, Any] = lists | {
        "name": "answer",
        "title": "The numbers of the answers that were drawn, from 0, in the order of the combinations of `terms`, the "
        "last of which runs fastest",
        "arrayItem": {"type": "integer"},
        "terms": [_term(axis) for axis in file.axes],
    }
    value: dict[str, Any] = lists | {
        "name": "value",
        "title": "The noisy answers, in the order of `answer`",
        "arrayItem": {"type": "integer"},
    }
    fields = [_field(geocode), answer, value, _field(variance)]
    return resource(file, path) | {"schema": {"fields": fields, "missingValues": [""], "primaryKey": ["geocode"]}}


def _term(axis: Axis) -> dict[str, Any]:
    """A term of a query, with its values in their order."""
    values = zip(axis.values, axis.labels, strict=True)
    return {
        "name": axis.term,
        "title": axis.label,
        "values": [{"name": name, "title": title} for name, title in values],
    }


def selected(file: DataFile, path: str) -> dict[str, Any]:
    """Published answers of chosen detail: what is in the list of a row follows from the version beside it.

    Args:
        file: with the other columns, and the answers of each version.
        path: relative to the descriptor.
    """
    geocode, version, variance = file.columns
    sizes = [len(one) for one in file.versions.values()]
    value = {
        "name": "value",
        "type": "array",
        "title": "The answers of the version, in the order of `answers`",
        "constraints": {"required": True, "minLength": min(sizes), "maxLength": max(sizes)},
        "arrayItem": {"type": "integer"},
        "answers": {
            name: [{"name": one.name, "title": one.title} for one in columns] for name, columns in file.versions.items()
        },
    }
    fields = [_field(geocode), _field(version), value, _field(variance)]
    return resource(file, path) | {"schema": {"fields": fields, "missingValues": [""], "primaryKey": ["geocode"]}}


def table_schema(file: DataFile) -> dict[str, Any]:
    """The Table Schema of a file."""
    schema: dict[str, Any] = {"fields": [_field(column) for column in file.columns], "missingValues": [""]}
    return schema | ({"primaryKey": list(file.keys)} if file.keys else {})


def slug(text: str) -> str:
    """A name in small letters, digits and ._-; what a release or a table may be called beyond that becomes -."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-") or "release"


def _field(column: Column) -> dict[str, Any]:
    limits: dict[str, Any] = {"required": True} if column.filled else {}
    if column.values:
        limits["enum"] = list(column.values)
    field: dict[str, Any] = {"name": column.name, "type": column.type, "title": column.title}
    return field | ({"constraints": limits} if limits else {})

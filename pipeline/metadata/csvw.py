"""CSV on the Web: what the columns of CSV files are (https://www.w3.org/TR/tabular-metadata/)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from pipeline.metadata.contents import Column, DataFile
from pipeline.metadata.facts import licence_of
from pipeline.model.about import About, Period

_CONTEXT = "http://www.w3.org/ns/csvw"


def table_group(about: About, name: str, language: str, tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The metadata of all files together.

    Args:
        about: what the release says of itself.
        name: of the release.
        language: of labels; "" where it is not stated, which is "und" of BCP 47.
        tables: from `csvw_table`.
    """
    licence = licence_of(about.licence)
    stated = {
        "dc:title": about.title or name,
        "dc:publisher": about.publisher,
        "dc:date": about.reference_date,
        "dc:temporal": _temporal(about.period),
        "dc:license": {"@id": licence.address} if licence and licence.address else about.licence,
        "dc:bibliographicCitation": about.citation,
        "dc:description": "\n\n".join(about.notes),
    }
    return {
        "@context": [_CONTEXT, {"@language": language or "und"}],
        **{key: text for key, text in stated.items() if text},
        "tables": list(tables),
    }


def _temporal(period: Period | None) -> str:
    """A period as the DCMI Period Encoding Scheme writes it; "" for none."""
    if period is None:
        return ""
    return f"name={period.name}; start={period.first}; end={period.last}; scheme=W3C-DTF;"


def csvw_table(file: DataFile, path: str) -> dict[str, Any]:
    """The metadata of one file.

    Args:
        file: what it holds.
        path: of the CSV from the metadata file.
    """
    columns = [_column(number, column) for number, column in enumerate(file.columns, 1)]
    by_name = {column.name: one["name"] for column, one in zip(file.columns, columns, strict=True)}
    schema: dict[str, Any] = {"columns": columns}
    if file.keys:
        schema |= {"primaryKey": [by_name[key] for key in file.keys]}
        schema["aboutUrl"] = "#" + "/".join(f"{{{by_name[key]}}}" for key in file.keys)
    described: dict[str, Any] = {"url": quote(path), "dc:title": file.title}
    if file.note:
        described["dc:description"] = file.note
    return described | {"tableSchema": schema}


def _column(number: int, column: Column) -> dict[str, Any]:
    """Its heading in the file is the first of its titles; its name, for templates, is one that any reader allows."""
    titles = [column.name] if column.title == column.name else [column.name, column.title]
    name = column.name if column.name.isidentifier() and column.name.isascii() else f"column.{number}"
    return {
        "name": name,
        "titles": titles,
        "datatype": "double" if column.type == "number" else column.type,
        "required": column.filled,
    }

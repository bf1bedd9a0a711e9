"""Writes the tables of keys in docs/spec.md from the models that check a spec: `make docs`.

A table stands below `<!-- keys: <model> -->`, up to the next line that is none of a table; the rest is written by hand.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.spec.release_spec import spec_json_schema

SPEC_PAGE = Path(__file__).resolve().parents[2] / "docs" / "spec.md"
ROOT = "ReleaseSpec"
_BLOCK = re.compile(r"(<!-- keys: (\w+) -->\n\n)(?:\|.*\n)*")
#: Model -> the one of which it has keys as they are there, and what that is called; these keys share a row.
_AS_IN = {
    "CompanionSection": (ROOT, "the top level"),
    "CompanionPrivacySection": ("PrivacySection", "privacy"),
    "InputSpec": ("GeographySection", "geography"),
}
_TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false", "null": "none"}


def models() -> dict[str, dict[str, Any]]:
    """JSON schema of each table of a spec, by the name of its model."""
    schema = spec_json_schema()
    tables = {name: one for name, one in schema["$defs"].items() if one.get("type") == "object"}
    return {ROOT: schema, **tables}


def with_tables(page: str) -> str:
    """The page with the tables of keys that the models give."""
    known = models()
    return _BLOCK.sub(lambda block: f"{block[1]}{_table(block[2], known)}", page)


@cache
def anchors() -> dict[str, str]:
    """Model -> anchor of the section of the page that has its table."""
    found, heading = {}, ""
    for line in SPEC_PAGE.read_text("utf-8").splitlines():
        heading = line.lstrip("# ") if line.startswith("##") else heading
        if (block := re.fullmatch(r"<!-- keys: (\w+) -->", line)) is not None:
            found[block[1]] = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return found


def tables_of(page: str) -> list[str]:
    """The models whose tables stand in the page."""
    return [block[2] for block in _BLOCK.finditer(page)]


def _table(name: str, known: dict[str, dict[str, Any]]) -> str:
    """The keys of a model; those of a companion that are as those of the release share a row."""
    rows = _rows(known[name])
    other, called = _AS_IN.get(name, ("", ""))
    shared = [key for key, row in rows.items() if row == _rows(known[other]).get(key)] if other else []
    lines = ["| key | what it holds | default | meaning |", "|---|---|---|---|"]
    lines += [row for key, row in rows.items() if key not in shared]
    if shared:
        lines.append(f"| {', '.join(f'`{key}`' for key in shared)} | | | as at [{called}](#{anchors()[other]}) |")
    return "\n".join(lines) + "\n"


def _rows(model: dict[str, Any]) -> dict[str, str]:
    required = model.get("required", [])
    rows = {}
    for key, field in model["properties"].items():
        cells = [
            f"`{key}`",
            _type(field),
            "required" if key in required else _default(field),
            field.get("description", ""),
        ]
        rows[key] = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    return rows


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        return f"[table](#{anchors()[name]})"
    if "anyOf" in field:
        kinds = dict.fromkeys(_type(one) for one in field["anyOf"] if one.get("type") != "null")
        return " or ".join(kinds)
    if "enum" in field:
        return " or ".join(f'`"{value}"`' for value in field["enum"])
    if "$comment" in field:
        return "exact number in quotes, " + field["$comment"].rsplit(", ", 1)[-1]
    kind = field.get("type")
    if kind == "array":
        return f"list of {_plural(_type(field['items']))}"
    if kind == "object":
        inner = field.get("additionalProperties")
        return f"table of {_plural(_type(inner))}" if isinstance(inner, dict) else "table"
    return _TYPES[str(kind)]


def _plural(kind: str) -> str:
    if kind.startswith("[table]"):
        return kind.replace("[table]", "[tables]", 1)
    if kind.startswith("text"):
        return kind.replace("text", "texts", 1).replace("or list of", "or lists of").replace("[table]", "[tables]")
    head, of, rest = kind.partition(" of ")
    return f"{head}s of {rest}" if of else kind.replace("number", "numbers", 1)


def _default(field: dict[str, Any]) -> str:
    value = field.get("default", {"": ""} if "$ref" in field else {})
    if value is None:
        return "optional"
    if isinstance(value, dict) and value:
        return "its defaults"
    return f"`{json.dumps(value)}`" if value not in ({}, []) else "empty"


def main() -> None:
    SPEC_PAGE.write_text(with_tables(SPEC_PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()

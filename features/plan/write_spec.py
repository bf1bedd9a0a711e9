"""A copy of a spec with another budget and another division of it; comments and everything else stay as they are."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import InlineTable

from pipeline.errors import InputError
from pipeline.model.exact import exact_text
from pipeline.model.universe import Universe
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.files import write_page_file


def write_divided(spec: Path, target: Path, universe: Universe) -> None:
    """Write the spec at `spec` to `target`, with the budget and the strategy of `universe`.

    File names in it are stated relative to the folder in which it is written.

    Raises:
        InputError: there is a file already, or it cannot be written.
    """
    if target.exists():
        raise InputError(f"--write {target}: there is a file already; name another, nothing is overwritten")
    document = tomlkit.parse(spec.read_text("utf-8-sig"))
    _move_files(document, spec.parent.resolve(), target.parent.resolve())
    companions: Any = document.get("companions", {})
    section: MutableMapping[str, Any] = companions[universe.name] if universe.name else document
    _set_budget(section, universe)
    _set_strategy(section, universe)
    text = tomlkit.dumps(document)
    written = parse_spec(text, str(target), target.parent).universes()
    resolved = next(candidate for candidate in written if candidate.name == universe.name)
    if resolved.privacy_fingerprint() != universe.privacy_fingerprint():
        raise RuntimeError(f"{target}: the spec as written is not the intended one; a defect")
    write_page_file("--write", target, text)


def _set_budget(section: MutableMapping[str, Any], universe: Universe) -> None:
    key = BUDGET_NAMES[universe.framework]
    if "privacy" not in section:
        section["privacy"] = tomlkit.table()
    privacy = section["privacy"]
    comment = privacy[key].trivia.comment if key in privacy else ""
    privacy[key] = exact_text(universe.budget)
    if comment:
        privacy[key].comment(comment.lstrip("# "))


def _set_strategy(section: MutableMapping[str, Any], universe: Universe) -> None:
    inline = isinstance(section, InlineTable)
    strategy: MutableMapping[str, Any] = tomlkit.inline_table() if inline else tomlkit.table()
    levels: MutableMapping[str, Any] = tomlkit.inline_table() if inline else tomlkit.table()
    for level in universe.strategy.levels:
        section_of_level = tomlkit.inline_table()
        section_of_level["share"] = exact_text(level.share)
        if level.queries:
            queries = tomlkit.inline_table()
            for measured in level.queries:
                stated: str | InlineTable = exact_text(measured.share)
                if measured.where_positive:
                    stated = tomlkit.inline_table()
                    stated |= {"share": exact_text(measured.share), "where": "parent positive"}
                queries[measured.query.name] = stated
            section_of_level["queries"] = queries
        levels[level.level] = section_of_level
    if universe.preset:
        strategy["preset"] = universe.preset  # whose recodes the queries may use
    strategy["levels"] = levels
    section.pop("strategy", None)
    section["strategy"] = strategy


def _move_files(document: tomlkit.TOMLDocument, old: Path, new: Path) -> None:
    """State the file names of a spec in `old` relative to `new`."""
    companions: Any = document.get("companions", {})
    universes: list[Any] = [document, *companions.values()]
    report: Any = document.get("report", {})
    sections: list[Any] = [document["geography"], *report.get("polygons", {}).values()]
    sections += [document["geography"]["regroup"]] if "regroup" in document["geography"] else []
    sections += list(document.get("postprocess", {}).get("shares", {}).values())
    names = document["geography"].get("names", {}).values()
    sections += [section for section in names if isinstance(section, dict) and "file" in section]
    for universe in universes:
        sections += [universe["input"]] if "input" in universe else []
        sections += list(universe.get("bounds", []))
    for section in sections:
        file = str(section["file"])
        if old != new and not Path(file).is_absolute():
            comment = section["file"].trivia.comment
            section["file"] = os.path.relpath(old / file, new)
            if comment:
                section["file"].comment(comment.lstrip("# "))

"""The spec of a release as a value: read from a TOML file, or stated by the same fields as keyword arguments."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from copy import deepcopy
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.model.memory_table import MemoryTable, Source, areas_place, records_place
from pipeline.model.universe import Universe
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.spec.release_spec import ReleaseSpec, read_toml, spec_of
from spinewise.frames import as_source

#: The name, in messages, of a spec that was never in a file.
_SOURCE = "Spec"


class Spec:
    """What one release measures and publishes, with which budget; checked when it is made, never changed.

    The keyword arguments are the tables of the TOML file ([every key](../spec.md)): `name`, `privacy`, `geography`,
    `schema`, `strategy`, `input`, `tables`, `invariants`, `structural_zeros`, `bounds`, `select`, `postprocess`,
    `publish`, `report` and `companions`. Exact numbers are text or fractions, as there. `file` may be left out of
    `geography` and `input`, and the areas and records handed to `run` instead.

    Raises:
        SpecError: a key or value is wrong; one line for each, which names the key and what is allowed.

    Example:
        >>> spec = Spec(
        ...     name="little-state",
        ...     privacy={"rho": "1"},
        ...     geography={"column": "block", "levels": {"county": 2, "block": 4}},
        ...     schema={"attributes": {"sex": ["female", "male"]}},
        ...     strategy={"queries": {"total": "1/2", "sex": "1/2"}, "levels": {"county": "1/2", "block": "1/2"}},
        ...     input={"form": "microdata", "geocode": "block"},
        ... )
        >>> spec.levels
        ('county', 'block')
    """

    def __init__(self, **sections: Any) -> None:
        self._set(_plain(sections), _SOURCE, Path.cwd())

    @classmethod
    def read(cls, path: Path | str) -> Spec:
        """The spec in a TOML file; file names in it are relative to its folder.

        Raises:
            SpecError: the file cannot be read, or something in it is wrong.
        """
        path = Path(path).expanduser()
        spec = cls.__new__(cls)
        spec._set(read_toml(path), str(path), path.parent)
        return spec

    def _set(self, content: dict[str, Any], source: str, folder: Path) -> None:
        self._content = content
        self._resolved = spec_of(_with_places(content), source, folder)
        self._universes = self._resolved.universes()

    @property
    def name(self) -> str:
        """The release's name, which is also that of its directory."""
        return self._resolved.name

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of the spine, top first."""
        return self._resolved.geography.level_names

    @property
    def attributes(self) -> dict[str, tuple[str, ...]]:
        """The attributes of a record, each with its values."""
        return {attribute.name: attribute.values for attribute in self._universes[0].schema.attributes}

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that will be published."""
        return tuple(table.name for table in self._universes[0].tables)

    @property
    def companions(self) -> tuple[str, ...]:
        """The names of the companions."""
        return tuple(universe.name for universe in self._universes[1:])

    @property
    def resolved(self) -> ReleaseSpec:
        """The checked spec, as the modules of `flows` take it."""
        return self._resolved

    def to_dict(self) -> dict[str, Any]:
        """The tables as they were stated."""
        return deepcopy(self._content)

    def to_toml(self) -> str:
        """The text of a spec file with the same content; file names in it are as they were stated."""
        import tomlkit

        return tomlkit.dumps(self._content)

    def __repr__(self) -> str:
        return "\n".join([f"Spec {self.name!r}", *(f"  {key}: {text}" for key, text in self._facts())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(key)}</th><td style="text-align:left">{html.escape(text)}'
            "</td></tr>"
            for key, text in self._facts()
        )
        return f"<p><strong>Spec {html.escape(self.name)}</strong></p><table>{rows}</table>"

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "levels", ", ".join(self.levels)
        yield "areas", _place(self._resolved.geography.file)
        for universe in self._universes:
            of = f" of {universe.name}" if universe.name else ""
            yield f"budget{of}", _budget(universe) if universe.promises else "none; others published the numbers"
            schema = universe.schema
            sizes = ", ".join(f"{attribute.name} ({len(attribute.values)})" for attribute in schema.attributes)
            yield f"attributes{of}", f"{sizes}: {schema.n_cells:,} cells"
            queries = ", ".join(query.name for query in universe.strategy.distinct_queries())
            yield f"measured{of}", queries
            yield f"tables{of}", ", ".join(table.name for table in universe.tables)
            if universe.invariants:
                yield f"exact{of}", ", ".join(f"{query.name} at {level}" for level, query in universe.invariants)
            if universe.input is None and universe.promises:
                yield f"records{of}", "not stated; a run needs [input]"
            if (stated := universe.input) is not None:
                yield f"records{of}", f"{stated.form}, areas in {stated.geocode!r}, {_place(stated.file)}"


def as_spec(stated: Spec | Path | str) -> Spec:
    """A spec, or that of the file at a path; SpecError as `Spec.read`."""
    return stated if isinstance(stated, Spec) else Spec.read(stated)


def with_areas(spec: Spec, areas: object) -> ReleaseSpec:
    """The checked spec with the list of areas that the caller supplies, published under the spec's name for it.

    Raises:
        InputError: neither a table nor a path is given, and the spec names no file.
    """
    resolved = spec.resolved
    stated = resolved.geography.file
    if areas is None and isinstance(stated, MemoryTable):
        raise InputError(f"{resolved.source}: geography.file: missing; give areas=..., or name the file in the spec")
    if areas is None:
        return resolved
    file = as_source(areas, "areas", stated.name)
    changed = resolved.model_copy(update={"geography": resolved.geography.model_copy(update={"file": file})})
    changed._source = resolved.source
    return changed


def _budget(universe: Universe) -> str:
    unit = BUDGET_NAMES[universe.framework]
    return f"{unit} = {universe.budget} ({universe.framework}, {universe.neighbours})"


def _place(source: Source) -> str:
    return "to be handed over" if isinstance(source, MemoryTable) else str(source)


def _with_places(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the place of a table wherever a file is left out that can be handed over instead."""
    filled = _with_records(content, "")
    geography = filled.get("geography")
    if isinstance(geography, Mapping) and "file" not in geography:
        filled["geography"] = {**geography, "file": areas_place()}
    companions = filled.get("companions")
    if isinstance(companions, Mapping):
        filled["companions"] = {
            name: _with_records(section, str(name)) if isinstance(section, Mapping) else section
            for name, section in companions.items()
        }
    return filled


def _with_records(sections: Mapping[str, Any], universe: str) -> dict[str, Any]:
    stated = sections.get("input")
    if isinstance(stated, Mapping) and "file" not in stated:
        return {**sections, "input": {**stated, "file": records_place(universe)}}
    return dict(sections)


def _plain(value: Any) -> Any:
    """The value as TOML could state it: arrays as lists, paths and exact numbers as text, what is None left out."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path | Fraction | Decimal):
        return str(value)
    return _plain(value.tolist()) if hasattr(value, "tolist") else value

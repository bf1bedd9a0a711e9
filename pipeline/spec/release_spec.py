"""The release spec: a TOML file that states one release; read, checked, and resolved without reading any data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from pipeline.errors import SpecError
from pipeline.model.join import Join
from pipeline.model.universe import Universe
from pipeline.spec.fields import PUBLIC, Name, NamedTable
from pipeline.spec.join_section import JoinSection
from pipeline.spec.privacy_section import CompanionPrivacySection, PrivacySection
from pipeline.spec.problems import Problems, dotted, note_validation_error, unknown
from pipeline.spec.provenance_section import ProvenanceSection
from pipeline.spec.public import encode, encode_budget, encode_universe
from pipeline.spec.resolve import UniverseContext, UniverseResolver
from pipeline.spec.resolve_joins import resolve_joins
from pipeline.spec.sections import (
    CompanionSection,
    GeographySection,
    PostprocessSection,
    PublishSection,
    ReportSection,
    UniverseSections,
)
from pipeline.storage.toml import TomlError, parse_toml, read_toml_text

_TOML_PLACE = re.compile(r"(?P<what>.*) \((?P<place>at .*)\)", re.DOTALL)
_TOML_KEYS = re.compile(r"\('([^)]*)',?\)")


class ReleaseSpec(UniverseSections):
    """One release, as its spec file states it; file names in it are absolute."""

    name: Name = Field(description="the release's name (letters, digits, - and _); it names the release's folder")
    purpose: Literal["example"] | None = Field(
        default=None, description='"example" where the records are made up: the release says so; leave it out otherwise'
    )
    privacy: PrivacySection = Field(
        default_factory=lambda: PrivacySection.model_validate({}), description="the privacy-loss budget"
    )
    geography: GeographySection = Field(description="a table with the file and the levels of the public list of leaves")
    postprocess: PostprocessSection = Field(
        default_factory=lambda: PostprocessSection.model_validate({}), description="how the release is computed"
    )
    publish: PublishSection = Field(
        default_factory=lambda: PublishSection.model_validate({}), description="what is published"
    )
    report: ReportSection = Field(
        default_factory=lambda: ReportSection.model_validate({}), description="the report for readers"
    )
    companions: NamedTable[Name, CompanionSection] = Field(
        default={}, description="further histograms measured in the same run, by name"
    )
    join: tuple[JoinSection, ...] = Field(
        default=(), description="what a household of each kind, a companion's record, implies for the persons in it"
    )
    provenance: ProvenanceSection | None = Field(
        default=None, description="where the public inputs come from: public sources, or the records"
    )
    _source: str = PrivateAttr(default="spec")

    @property
    def source(self) -> str:
        """The spec file as it was named to `load_spec`, for messages."""
        return self._source

    def universes(self) -> tuple[Universe, ...]:
        """The release's own universe, then its companions'; resolved from the spec alone.

        Raises:
            SpecError: something in the spec does not fit together, its joins included; one line for each problem.
        """
        return self._universes_and_joins()[0]

    def joins(self) -> tuple[Join, ...]:
        """What households of companions imply for the persons in them, in the spec's order; errors as `universes`."""
        return self._universes_and_joins()[1] if self.join else ()

    def _universes_and_joins(self) -> tuple[tuple[Universe, ...], tuple[Join, ...]]:
        problems = Problems(self._source)
        resolved = [self._resolved(self, "", self.privacy, self.postprocess.passes, problems)]
        folded: dict[str, str] = {}
        for name, companion in self.companions.items():
            companion_problems = problems.at(f"companions.{name}")
            if (other := folded.setdefault(name.casefold(), name)) != name:
                companion_problems.add("", f"differs from {other!r} in capital letters only")
            resolved.append(self._resolved(companion, name, companion.privacy, companion.passes, companion_problems))
        for level in self.report.polygons:
            if level not in self.geography.level_names:
                allowed = self.geography.level_names
                problems.add(
                    dotted(["report", "polygons", level]), unknown("level", level, allowed, are="the levels are")
                )
        universes = tuple(universe for universe in resolved if universe is not None)
        joins = resolve_joins(self.join, universes, tuple(self.companions), self.geography.level_names, problems)
        problems.raise_if_any()
        return universes, joins

    def _resolved(
        self,
        sections: UniverseSections,
        name: str,
        own_privacy: PrivacySection | CompanionPrivacySection,
        passes: Sequence[str],
        problems: Problems,
    ) -> Universe | None:
        context = UniverseContext(
            name=name,
            privacy=self.privacy,
            own_privacy=own_privacy,
            passes=passes,
            passes_key="passes" if name else "postprocess.passes",
            level_names=self.geography.level_names,
            bypass=bool(self.geography.bypass),
            shares={} if name else self.postprocess.shares or {},
        )
        return UniverseResolver(sections, context, problems).universe()

    def public_dict(self) -> dict[str, Any]:
        """The spec as JSON-able public data, see `pipeline.spec.public`; `from_public_dict` reads it back."""
        main, *others = self.universes()
        privacy = encode(self.privacy, without=("key", "rho", "epsilon", "delta"))
        if self.privacy.framework == "zcdp":
            privacy["delta"] = str(main.delta)
        companions = [
            [
                universe.name,
                {
                    **encode_universe(self.companions[universe.name], universe),
                    "privacy": encode_budget(universe) | ({"dataset": universe.dataset} if universe.dataset else {}),
                    "passes": [query.name for query in universe.passes],
                },
            ]
            for universe in others
        ]
        content = encode_universe(self, main)
        if not self.join:
            del content["join"]
        return {
            **content,
            "privacy": {**privacy, **encode_budget(main)},
            "postprocess": {**encode(self.postprocess), "passes": [query.name for query in main.passes]},
            "companions": companions,
        }

    @classmethod
    def from_public_dict(cls, content: Mapping[str, Any], source: str = "public spec") -> ReleaseSpec:
        """The spec of a `public_dict`: it resolves to the same universes, without input and key.

        Raises:
            SpecError: the dictionary is not the public form of a spec.
        """
        return _validated(content, source, PUBLIC)


def load_spec(path: Path | str) -> ReleaseSpec:
    """The spec in the TOML file at `path`, checked as far as it can be without data.

    Raises:
        SpecError: the file cannot be read or something in it is wrong; one line for each problem.
    """
    path = Path(path)
    return _validated(read_toml(path), str(path), {"folder": path.parent.resolve()})


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of the TOML file at `path`, not checked any further.

    Raises:
        SpecError: the file cannot be read, or is not TOML.
    """
    try:
        text = read_toml_text(path)
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file; a spec in TOML is needed") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: byte {error.start:,} is not UTF-8; a spec is TOML text in UTF-8") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror or error}); a spec in TOML is needed") from None
    return _parsed(text, str(path))


def as_spec(spec: Path | str | ReleaseSpec) -> ReleaseSpec:
    """The spec itself, or that of the file at a path; errors as `load_spec`."""
    return spec if isinstance(spec, ReleaseSpec) else load_spec(spec)


def parse_spec(text: str, source_name: str = "spec", folder: Path | str = ".") -> ReleaseSpec:
    """The spec of a TOML text, checked as `load_spec` does.

    Args:
        text: the spec, in TOML.
        source_name: what messages call it.
        folder: what file names in it are relative to.

    Raises:
        SpecError: one line for each problem: source, key, what was found, what is allowed.
    """
    return _validated(_parsed(text, source_name), source_name, {"folder": Path(folder).resolve()})


def spec_of(content: Mapping[str, Any], source_name: str = "Spec", folder: Path | str = ".") -> ReleaseSpec:
    """The spec of the tables that its TOML text would have; arguments and errors as those of `parse_spec`."""
    return _validated(content, source_name, {"folder": Path(folder).resolve()})


def spec_json_schema() -> dict[str, Any]:
    """The JSON schema of the spec file, for editors that complete and check TOML."""
    schema = ReleaseSpec.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Spinewise release spec"}


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except TomlError as error:
        raise SpecError(f"{source}: {_toml_problem(str(error))}") from None


def _validated(content: Mapping[str, Any], source: str, context: Any) -> ReleaseSpec:
    problems = Problems(source)
    try:
        spec = ReleaseSpec.model_validate(content, context=context)
    except ValidationError as error:
        note_validation_error(error, ReleaseSpec, problems)
        problems.raise_if_any()
        raise
    spec._source = source
    spec.universes()
    return spec


def _toml_problem(text: str) -> str:
    """The place first: "Invalid value (at line 3, column 5)" -> "line 3, column 5: not valid TOML: Invalid value"."""
    text = _TOML_KEYS.sub(lambda match: "[" + match[1].replace("', '", ".") + "]", text)
    text = text.replace("Cannot overwrite a value", "Cannot overwrite a value (the key is given twice)")
    if (match := _TOML_PLACE.fullmatch(text)) is None:
        return f"not valid TOML: {text}"
    return f"{match['place'].removeprefix('at ')}: not valid TOML: {match['what']}"

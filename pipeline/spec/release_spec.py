"""The release spec: a TOML file that states one release; read, checked, and resolved without reading any data."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, ValidationError

from pipeline.errors import SpecError
from pipeline.model.about import LINES, About
from pipeline.model.labels import Labels
from pipeline.model.link import Link, StatedLinks, links_of_measures
from pipeline.model.universe import Universe
from pipeline.spec.fields import PUBLIC, Misfit, Name, NamedTable, check_name
from pipeline.spec.kind import Kind
from pipeline.spec.privacy_section import PrivacySection
from pipeline.spec.problems import Problems, dotted, note_nul, note_validation_error
from pipeline.spec.provenance_section import ProvenanceSection
from pipeline.spec.public import encode, encode_budget, encode_universe
from pipeline.spec.resolve import UniverseResolver
from pipeline.spec.sections import (
    CompanionSection,
    GeographySection,
    PostprocessSection,
    PublishSection,
    ReportSection,
    TableSection,
    UniverseSections,
)
from pipeline.spec.slots import FeatureKeys, Slots, installed_slots, json_schema_of, keys_of
from pipeline.spec.update import ChosenSection, UpdateSection
from pipeline.spec.wording.resolve import labels_of, note_labels, note_language, note_names
from pipeline.storage.paths import TomlError, parse_toml, read_toml_text

_TOML_PLACE = re.compile(r"(?P<what>.*) \((?P<place>at .*)\)", re.DOTALL)
_TOML_KEYS = re.compile(r"\('([^)]*)',?\)")


class ReleaseSpec(UniverseSections):
    """One release, as its spec file states it; file names in it are absolute."""

    slot: ClassVar[str] = ""

    name: Name = Field(description="the release's name (letters, digits, - and _); it names the release's folder")
    purpose: Literal["example"] | None = Field(
        default=None, description='"example" where the records are made up: the release says so; leave it out otherwise'
    )
    privacy: PrivacySection = Field(default_factory=PrivacySection, description="the privacy-loss budget")
    geography: GeographySection = Field(description="a table with the file and the levels of the public list of leaves")
    postprocess: PostprocessSection = Field(
        default_factory=PostprocessSection, description="how the release is computed"
    )
    publish: PublishSection = Field(default_factory=PublishSection, description="what is published")
    report: ReportSection = Field(default_factory=ReportSection, description="the report for readers")
    companions: NamedTable[Name, CompanionSection] = Field(
        default={}, description="further histograms measured in the same run, by name"
    )
    provenance: ProvenanceSection | None = Field(
        default=None, description="where the public inputs come from: public sources, or the records"
    )
    _source: str = PrivateAttr(default="spec")
    _update: UpdateSection | None = PrivateAttr(default=None)
    _always: Mapping[str, Kind] = PrivateAttr(default={})

    @property
    def source(self) -> str:
        """The spec file as it was named to `load_spec`, for messages."""
        return self._source

    @property
    def of_features(self) -> tuple[Kind, ...]:
        """What it states of features, of those in companions and tables once each, and what every release has."""
        of_companions = [part for companion in self.companions.values() for part in companion.parts]
        of_tables = [part for *_, table in self.stated_tables() for part in table.parts]
        first = {type(part): part for part in reversed([*of_companions, *of_tables])}
        return (*self.parts, *self.postprocess.parts, *reversed(first.values()), *self._always.values())

    def stated_tables(self) -> Iterator[tuple[str, str, TableSection]]:
        """The tables that it states, each with its universe and its name."""
        for universe, sections in (("", self), *self.companions.items()):
            for name, table in (sections.tables or {}).items():
                yield universe, name, table

    @property
    def chosen_ends(self) -> Mapping[str, ChosenSection]:
        """Companion -> the answer to a question that chose one of its keys; none of most."""
        stated = {name: part.chosen_end() for name, companion in self.companions.items() for part in companion.parts}
        return {name: chosen for name, chosen in stated.items() if chosen is not None}

    def as_released(self, files: Collection[str]) -> ReleaseSpec:
        """The published spec of a release with these files: what another installation did not write is not missing."""
        spec = self.model_copy()
        spec._always = {file: one for file, one in self._always.items() if file in files}
        return spec

    @property
    def update(self) -> UpdateSection | None:
        """The answers that this version of a published release was made with; None of a first release."""
        return self._update

    def updated(self, section: UpdateSection | None) -> ReleaseSpec:
        """The published spec of a version made with answers; SpecError where these do not fit it."""
        spec = self.model_copy()
        spec._update = section
        spec.universes()
        return spec

    def with_part(self, part: FeatureKeys, name: str) -> ReleaseSpec:
        """The spec with other keys of one of the features that it states, under another name of the release.

        Raises:
            SpecError: these do not fit, or it cannot be called so.
        """
        try:
            check_name(name)
        except ValueError as error:
            raise SpecError(f"{self.source}: name: {error}") from None
        spec = self.model_copy(update={"name": name})
        spec._parts = tuple(part if type(one) is type(part) else one for one in self._parts)
        spec.universes()
        return spec

    def universes(self) -> tuple[Universe, ...]:
        """The release's own universe, then its companions'; resolved from the spec alone.

        Raises:
            SpecError: something in the spec does not fit together, its joins included; one line for each problem.
        """
        return self._resolved_parts()[0]

    def stated_links(self) -> tuple[StatedLinks, ...]:
        """What features state of links between its universes; errors as `universes`."""
        stated = any(part.states_links for part in self.of_features)
        return self._resolved_parts()[1] if stated else ()

    def links(self, universes: Sequence[Universe] | None = None) -> tuple[Link, ...]:
        """What universes have in common of which one is released first; errors as `universes`.

        Args:
            universes: some of the release's own, with other tables than the spec's; by default all as the spec has
                them.
        """
        linked = self.universes() if universes is None else universes
        return (*(link for stated in self.stated_links() for link in stated.links(linked)), *links_of_measures(linked))

    def _resolved_parts(self) -> tuple[tuple[Universe, ...], tuple[StatedLinks, ...]]:
        problems = Problems(self._source)
        resolved = [UniverseResolver(self, "", problems).universe()]
        for name in self.companions:
            resolved.append(UniverseResolver(self, name, problems.at(f"companions.{name}")).universe())
        problems.at("companions").note_alike(self.companions)
        for level in self.report.polygons:
            problems.known_level(dotted(["report", "polygons", level]), level, self.geography.level_names)
        schemas = [self.schema_section, *(one.schema_section for one in self.companions.values())]
        note_language(self.report.language, self.geography, [one.labels for one in schemas], problems.at("report"))
        note_names(self.geography, problems.at("geography"))
        universes = tuple(universe for universe in resolved if universe is not None)
        for link in links_of_measures(universes):
            for table, why in link.unfit(margins=self.publish.margins):
                key = dotted(["tables", table.name])
                problems.add(f"companions.{link.of}.{key}" if link.of else key, why)
        for universe in universes:
            section, key = self._sections(universe.name).schema_section.labels, universe.key("schema.labels")
            note_labels(section, universe, problems.at(key))
        for part in self.of_features:
            part.note_apart(self, problems)
        links: list[StatedLinks] = []
        for part in self.of_features:
            if (stated := part.stated_links(self, universes, problems)) is not None:
                links.append(stated)
                universes = stated.universes
        problems.raise_if_any()
        return self._together(universes), tuple(links)

    def _together(self, universes: tuple[Universe, ...]) -> tuple[Universe, ...]:
        """The universes, with what features state of them together."""
        for part in self.of_features:
            if (together := part.together(universes)) is not None:
                own, *others = (replace(one, together=together) for one in universes)
                if (earlier := together.earlier) is not None:
                    own = replace(own, earlier=earlier, budget=own.budget + earlier.cost)
                universes = (own, *others)
        return universes

    def _sections(self, universe: str) -> UniverseSections:
        return self.companions[universe] if universe else self

    def labels(self, universe: str = "", language: str | None = None) -> Labels:
        """What levels, attributes, values and tables of a universe are called for people.

        Args:
            universe: "" for the release's own, else the companion's name.
            language: a tag; by default the report's.
        """
        wanted = (self.report.language or "") if language is None else language
        return labels_of(self.geography, self._sections(universe).schema_section.labels, wanted)

    @property
    def about(self) -> About:
        """What the release says of itself to people."""
        stated = self.report
        texts = {key: getattr(stated, key) or "" for key in LINES}
        periods = [period for part in self.of_features if (period := part.counted_in())]
        return About(
            **texts,
            notes=stated.notes or (),
            definitions=stated.definitions or {},
            period=periods[0] if periods else None,
        )

    def public_dict(self) -> dict[str, Any]:
        """The spec as JSON-able public data, see `pipeline.spec.public`; `from_public_dict` reads it back."""
        main, *others = self.universes()
        privacy: dict[str, Any] = {}
        for _ in main.promises:
            privacy = encode(self.privacy, without=("key", "rho", "epsilon", "delta")) | encode_budget(main)
            if self.privacy.framework == "zcdp":
                privacy["delta"] = str(main.delta)
        companions = [
            [
                universe.name,
                {
                    **encode_universe(self.companions[universe.name], universe),
                    "privacy": encode(self.companions[universe.name].privacy, without=("rho", "epsilon"))
                    | encode_budget(universe),
                    "passes": [query.name for query in universe.passes],
                },
            ]
            for universe in others
        ]
        content = encode_universe(self, main)
        for part in self.parts:
            resolved = part.published(self)
            for key in keys_of(type(part)) if resolved is not None or not part.is_published else ():
                content.pop(key, None)
            content |= resolved or {}
        if self._update is not None:
            content["update"] = encode(self._update)
        return {
            **content,
            "privacy": privacy,
            "postprocess": {**encode(self.postprocess), "passes": [query.name for query in main.passes]},
            "companions": companions,
        }

    @classmethod
    def from_public_dict(
        cls, content: Mapping[str, Any], source: str = "public spec", slots: Slots | None = None
    ) -> ReleaseSpec:
        """The spec of a `public_dict`: it resolves to the same universes, without input and key.

        Args:
            content: as `public_dict` gave it.
            source: what messages call it.
            slots: what features add to a spec; None for the features that are installed.

        Raises:
            SpecError: the dictionary is not the public form of a spec.
        """
        stated = dict(content)
        section = stated.pop("update", None)
        spec = _validated(stated, source, PUBLIC, slots)
        if section is None:
            return spec
        problems = Problems(source)
        try:
            return spec.updated(UpdateSection.model_validate(section, context=PUBLIC))
        except ValidationError as error:
            note_validation_error(error, UpdateSection, problems.at("update"))
            problems.raise_if_any()
            raise


def load_spec(path: Path | str, slots: Slots | None = None) -> ReleaseSpec:
    """The spec in the TOML file at `path`, checked as far as it can be without data.

    Args:
        path: the file.
        slots: what features add to a spec; None for the features that are installed.

    Raises:
        SpecError: the file cannot be read or something in it is wrong; one line for each problem.
    """
    path = Path(path)
    return _validated(read_toml(path), str(path), {"folder": path.parent.resolve()}, slots)


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


def parse_spec(
    text: str, source_name: str = "spec", folder: Path | str = ".", slots: Slots | None = None
) -> ReleaseSpec:
    """The spec of a TOML text, checked as `load_spec` does.

    Args:
        text: the spec, in TOML.
        source_name: what messages call it.
        folder: what file names in it are relative to.
        slots: what features add to a spec; None for the features that are installed.

    Raises:
        SpecError: one line for each problem: source, key, what was found, what is allowed.
    """
    return _validated(_parsed(text, source_name), source_name, {"folder": Path(folder).resolve()}, slots)


def spec_of(
    content: Mapping[str, Any], source_name: str = "Spec", folder: Path | str = ".", slots: Slots | None = None
) -> ReleaseSpec:
    """The spec of the tables that its TOML text would have; arguments and errors as those of `parse_spec`."""
    return _validated(content, source_name, {"folder": Path(folder).resolve()}, slots)


def spec_json_schema(slots: Slots | None = None) -> dict[str, Any]:
    """The JSON schema of the spec file, for editors that complete and check TOML; `slots` as for `load_spec`."""
    schema = json_schema_of(
        ReleaseSpec,
        installed_slots() if slots is None else slots,
        (PostprocessSection, CompanionSection, TableSection),
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Spinewise release spec"}


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except TomlError as error:
        raise SpecError(f"{source}: {_toml_problem(str(error))}") from None


def _validated(
    content: Mapping[str, Any], source: str, context: Mapping[str, object], slots: Slots | None
) -> ReleaseSpec:
    slots = installed_slots() if slots is None else slots
    problems = Problems(source)
    note_nul(content, problems)
    problems.raise_if_any()
    try:
        spec = ReleaseSpec.model_validate(_with_implied(content, slots), context={**context, "slots": slots})
    except Misfit as error:
        for key, text in error.problems:
            problems.add(key, text)
        problems.raise_if_any()
        raise
    except ValidationError as error:
        note_validation_error(error, ReleaseSpec, problems, slots)
        problems.raise_if_any()
        raise
    spec._source = source
    spec._always = slots.always
    spec.universes()
    return spec


def _with_implied(content: Mapping[str, Any], slots: Slots) -> Mapping[str, Any]:
    """With what follows from the keys of features that it states; Misfit as `FeatureKeys.implied`."""
    for keys in slots.of(ReleaseSpec):
        if isinstance(content, Mapping) and any(key in content for key in keys_of(keys)):
            content = keys.implied(content)
    return content


def _toml_problem(text: str) -> str:
    """The place first: "Invalid value (at line 3, column 5)" -> "line 3, column 5: not valid TOML: Invalid value"."""
    text = _TOML_KEYS.sub(lambda match: "[" + match[1].replace("', '", ".") + "]", text)
    text = text.replace("Cannot overwrite a value", "Cannot overwrite a value (the key is given twice)")
    if (match := _TOML_PLACE.fullmatch(text)) is None:
        return f"not valid TOML: {text}"
    return f"{match['place'].removeprefix('at ')}: not valid TOML: {match['what']}"

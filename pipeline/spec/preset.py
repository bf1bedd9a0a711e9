"""Presets: strategies that come with Spinewise, kept as TOML in `pipeline/spec/presets`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any

from pipeline.errors import SpecError
from pipeline.model.exact import parse_exact, sum_text
from pipeline.model.schema import Attribute, Recode
from pipeline.spec.problems import unknown
from pipeline.spec.sections import QuerySection


def fold(name: str) -> str:
    """`name` without what presets ignore: capitals, spaces, - and _."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


@dataclass(frozen=True)
class PresetLevel:
    """One level: its share of the preset's rho, and its queries as a spec would state them."""

    name: str
    share: Fraction
    queries: Mapping[str, QuerySection]


@dataclass(frozen=True)
class Preset:
    """A strategy over attributes and levels that a spec has still to provide.

    Attributes:
        name: as a spec's `strategy` gives it.
        about: one line on where it comes from.
        rho: the whole budget, zCDP.
        epsilon: the whole budget with framework "pure"; None where the strategy is not for it.
        attributes: the attributes that its queries name.
        recodes: recodes of those attributes that its queries name; a spec may bring its own under the same name.
        levels: their shares add up to 1.
        aliases: other names of its levels (folded) -> their names.

    Raises:
        SpecError: shares do not add up to 1.
    """

    name: str
    about: str
    rho: Fraction
    attributes: tuple[str, ...]
    recodes: tuple[Recode, ...]
    levels: tuple[PresetLevel, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        for subject, shares in (
            ("levels", {level.name: level.share for level in self.levels}),
            *(
                (f"queries of {level.name}", {query: one.share for query, one in level.queries.items()})
                for level in self.levels
            ),
        ):
            if sum(shares.values()) != 1:
                raise SpecError(f"preset {self.name}: the shares of its {subject} add up to {sum_text(shares)}")

    def match_levels(self, names: Sequence[str]) -> dict[str, PresetLevel]:
        """The preset's level of each of the spec's level `names` that it knows.

        Capitals, spaces, - and _ do not matter.

        Raises:
            SpecError: two names are the same level of the preset.
        """
        own = {fold(level.name): level for level in self.levels}
        own.update({alias: own[fold(name)] for alias, name in self.aliases})
        matched: dict[str, PresetLevel] = {}
        for name in names:
            if (level := own.get(fold(name))) is None:
                continue
            if twin := next((other for other, used in matched.items() if used is level), None):
                raise SpecError(
                    f"geography.levels: {twin!r} and {name!r} are both the level {level.name} of {self.name}"
                )
            matched[name] = level
        return matched

    def recodes_for(self, attributes: Sequence[Attribute], names_in_use: Sequence[str]) -> tuple[Recode, ...]:
        """The preset's recodes that can be made of the spec's `attributes`, stated in their own values.

        Values are matched as level names are. A recode is left out if its name is among
        `names_in_use` or its values do not match.
        """
        by_name = {attribute.name: attribute for attribute in attributes}
        recodes: list[Recode] = []
        for recode in self.recodes:
            if recode.name in names_in_use or recode.attribute not in by_name:
                continue
            value_of = {fold(value): value for value in by_name[recode.attribute].values}
            grouped = [fold(value) for _, values in recode.groups for value in values]
            if sorted(grouped) == sorted(map(fold, by_name[recode.attribute].values)):
                groups = tuple((label, tuple(value_of[fold(v)] for v in values)) for label, values in recode.groups)
                recodes.append(Recode(recode.name, recode.attribute, groups))
        return tuple(recodes)


def preset_names() -> tuple[str, ...]:
    """The names of all presets, sorted."""
    files = (entry.name for entry in resources.files("pipeline.spec.presets").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


@cache
def load_preset(name: str) -> Preset:
    """The preset called `name`.

    Raises:
        SpecError: there is none of that name.
    """
    if name not in preset_names():
        raise SpecError(f"strategy.preset: {unknown('preset', name, preset_names(), are='the presets are')}")
    content = _content(name)
    if "like" in content:
        content = {**_content(content["like"]), **content}
    positive = content.get("where_positive", ())
    shared = load_preset(content["recodes_of"]).recodes if "recodes_of" in content else ()
    return Preset(
        name=name,
        about=content["about"],
        rho=parse_exact(content["rho"]),
        attributes=tuple(content["attributes"]),
        recodes=shared
        + tuple(
            Recode(
                key, recode["attribute"], tuple((label, tuple(values)) for label, values in recode["groups"].items())
            )
            for key, recode in content.get("recodes", {}).items()
        ),
        levels=tuple(
            PresetLevel(
                key,
                parse_exact(level["share"]),
                {
                    query: QuerySection(
                        share=parse_exact(share), where="parent positive" if query in positive else None
                    )
                    for query, share in level["queries"].items()
                },
            )
            for key, level in content["levels"].items()
        ),
        aliases=tuple(content.get("aliases", {}).items()),
        epsilon=parse_exact(content["epsilon"]) if "epsilon" in content else None,
    )


def _content(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("pipeline.spec.presets").joinpath(f"{name}.toml").read_text("utf-8"))

"""What no release of marginals was tried with: keys of a spec, and of its companions, that are refused beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipeline.spec.problems import Problems
from pipeline.spec.resolve import StatesMeasure
from pipeline.spec.sections import CompanionSection, PostprocessSection

__all__ = ["NOT_WITH", "note_untried_keys", "note_untried_of_companion"]

NOT_WITH: Final = "not together with [marginals] yet; leave one of the two out"
#: Sections and keys of any universe.
_UNTRIED: Final = ("bounds", "select", "join", "household_tables", "questions", "collect", "series")


def note_untried_keys(content: Mapping[str, Any], problems: Problems) -> None:
    """Note those of a spec's tables, so far as tables are tables."""

    def of(section: str) -> Mapping[str, Any]:
        found = content.get(section)
        return found if isinstance(found, Mapping) else {}

    privacy, postprocess = of("privacy"), of("postprocess")
    found = [key for key in _UNTRIED if content.get(key)]
    found += [f"privacy.{key}" for key in ("unit", "at_most") if privacy.get(key)]
    found += [f"publish.{key}" for key in ("unbiased", "draws") if of("publish").get(key)]
    found += ["geography.bypass"] if of("geography").get("bypass") else []
    found += ["schema.recodes"] if of("schema").get("recodes") else []
    found += ["postprocess.shares"] if postprocess.get("shares") else []
    found += ["postprocess.passes"] if postprocess.get("passes", ["total"]) not in (["total"], ("total",)) else []
    for key in ("estimator", "solver", "complete"):
        default = PostprocessSection.model_fields[key].default
        found += [f"postprocess.{key}"] if postprocess.get(key, default) != default else []
    found += ["privacy.framework"] if privacy.get("framework") == "local" else []
    for key in found:
        problems.add(key, NOT_WITH)


def note_untried_of_companion(section: CompanionSection, problems: Problems) -> None:
    """Note those of a companion, as `problems` of it."""
    found = [key for key in _UNTRIED if getattr(section, key, None)]
    found += [part.named_by for part in section.parts if isinstance(part, StatesMeasure) and part.named_by]
    found += ["schema.recodes"] if section.schema_section.recodes else []
    found += ["passes"] if tuple(section.passes) != ("total",) else []
    found += ["privacy.unit"] if section.privacy.unit is not None else []
    for key in found:
        problems.add(key, NOT_WITH)

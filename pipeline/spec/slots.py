"""Slots in the sections of a spec: keys that features add to them, as models of their own.

A section of the core that has a slot keeps what is stated of features in `parts`, typed by their models. Whoever reads
a spec needs the list of features; the spec carries what it states, also to other processes, so that nobody else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ModelWrapValidatorHandler, PrivateAttr, ValidationError, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

from pipeline.spec.fields import Section
from pipeline.spec.kind import Kind

F = TypeVar("F", bound="FeatureKeys")


class FeatureKeys(Section, Kind):
    """Keys that a feature adds to a section of the core; what they mean is asked as of every kind.

    Attributes:
        slot: of the section.
        after: the core's key that they stand after, in lists of keys, in published specs and in the JSON schema; "" for
            before all others.
        stand_for: required keys of the section that may be left out with these.
        is_published: whether the spec of a release has them.
    """

    slot: ClassVar[str]
    after: ClassVar[str]
    stand_for: ClassVar[tuple[str, ...]] = ()
    is_published: ClassVar[bool] = True

    @classmethod
    def implied(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tables of a section that states them, with what follows from them where it states nothing else.

        Raises:
            Misfit: something else in the section does not go with them; keys are those of the section.
        """
        return content


@dataclass(frozen=True)
class Slots:
    """What fills the slots.

    Attributes:
        filled: the keys of features that are installed.
        missing: slot and key, "postprocess.shares" -> the feature that they are of, which is not.
        always: file that every release has of an installed feature, whatever its spec states -> what comes with it.
        unwritten: the same of features that are not installed -> the feature.
    """

    filled: tuple[type[FeatureKeys], ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    always: Mapping[str, Kind] = field(default_factory=dict)
    unwritten: Mapping[str, str] = field(default_factory=dict)

    @property
    def features(self) -> tuple[Kind | type[Kind], ...]:
        """All that is installed: keys, and what comes with every release."""
        return (*self.filled, *self.always.values())

    def of(self, section: type[BaseModel]) -> tuple[type[FeatureKeys], ...]:
        """Those of a section; none of one without a slot."""
        return tuple(keys for keys in self.filled if issubclass(section, SlottedSection) and keys.slot == section.slot)


#: Of the core alone.
NO_SLOTS = Slots()


def installed_slots() -> Slots:
    """The slots of this installation.

    The list of features is asked by name: the core imports no feature, and its list is above the core.
    """
    return cast("Slots", import_module("features.registry").slots())


class SlottedSection(Section):
    """A section with a slot for keys of features."""

    slot: ClassVar[str]
    _parts: tuple[FeatureKeys, ...] = PrivateAttr(default=())

    @property
    def parts(self) -> tuple[FeatureKeys, ...]:
        """The keys of features that are stated, of all features."""
        return self._parts

    def part(self, kind: type[F]) -> F | None:
        """The keys of one feature; None where none of them is stated."""
        return next((one for one in self._parts if isinstance(one, kind)), None)

    @model_validator(mode="wrap")
    @classmethod
    def _with_parts(cls, stated: Any, handler: ModelWrapValidatorHandler[Any], info: ValidationInfo) -> Any:
        slots = info.context.get("slots", NO_SLOTS) if isinstance(info.context, Mapping) else NO_SLOTS
        models = slots.of(cls)
        if not models or not isinstance(stated, Mapping):
            return handler(stated)
        own, wrong = dict(stated), list[Any]()
        parts = []
        for model in models:
            if keys := {key: own.pop(key) for key in keys_of(model) if key in own}:
                try:
                    parts.append(model.model_validate(keys, context=info.context))
                except ValidationError as error:
                    wrong += _details(error)
        try:
            section = handler(own)
        except ValidationError as error:
            wrong += _details(error)
        if wrong:
            place = {key: number for number, key in enumerate(fields_of(cls, slots))}
            wrong.sort(key=lambda one: place.get(str((*one.get("loc", ()), "")[0]), len(place)))
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        section._parts = tuple(parts)
        return section


def _details(error: ValidationError) -> list[Any]:
    """What was found, at the same places, as pydantic makes an error of it."""
    found = error.errors(include_url=False)
    return [{"type": one["type"], "loc": one["loc"], "input": one["input"], "ctx": one.get("ctx", {})} for one in found]


def stated_in(section: BaseModel, without: Sequence[str] = ()) -> dict[str, Any]:
    """Key -> value of a section's fields but some, by their names, with those of features at their places."""
    fields = ((name, one.alias or name) for name, one in type(section).model_fields.items() if name not in without)
    found = [(key, getattr(section, name)) for name, key in fields]
    for part in reversed(section.parts) if isinstance(section, SlottedSection) else ():
        at = 0 if not part.after else len(found)
        at = next((1 + number for number, (key, _) in enumerate(found) if key == part.after), at)
        found[at:at] = stated_in(part).items()
    return dict(found)


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a model's own fields, as a spec has them."""
    return tuple(one.alias or name for name, one in model.model_fields.items())


def fields_of(model: type[BaseModel], slots: Slots) -> dict[str, FieldInfo]:
    """Key -> field of a section, with those that features add, in the order of lists, published specs and schema."""
    found = list(zip(keys_of(model), model.model_fields.values(), strict=True))
    for keys in reversed(slots.of(model)):  # so that those after the same key are in the order of the list
        at = 1 + [key for key, _ in found].index(keys.after) if keys.after else 0
        found[at:at] = zip(keys_of(keys), keys.model_fields.values(), strict=True)
    return dict(found)


def json_schema_of(model: type[BaseModel], slots: Slots, below: Sequence[type[SlottedSection]] = ()) -> dict[str, Any]:
    """The JSON schema of a section, with the keys that features add to it and to those `below` it."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    for section in (model, *below):
        table = schema if section is model else schema["$defs"][section.__name__]
        for keys in slots.of(section):
            own = keys.model_json_schema(by_alias=True, mode="validation")
            schema.setdefault("$defs", {}).update(own.get("$defs", {}))
            table["properties"] |= own["properties"]
            if required := [*table.get("required", ()), *own.get("required", ())]:
                table["required"] = required
        properties = table.get("properties", {})
        table["properties"] = {key: properties[key] for key in fields_of(section, slots) if key in properties}
    for keys in slots.of(model):
        if keys.stand_for:
            schema["required"] = [key for key in schema["required"] if key not in keys.stand_for]
            schema["anyOf"] = [{"required": [key]} for key in (*keys.stand_for, *keys_of(keys))]
    if "$defs" in schema:
        schema["$defs"] = dict(sorted(schema["$defs"].items()))
    return schema

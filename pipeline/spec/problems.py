"""Problems of a spec in plain words: one line each, with the file, the key, what was found and what is allowed."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from pipeline.errors import SpecError
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.spec.fields import Misfit, as_text_advice, describe
from pipeline.spec.slots import NO_SLOTS, Slots, SlottedSection, fields_of, json_schema_of

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LIMITS = {"greater_than_equal": "at least {ge} is needed", "less_than_equal": "at most {le} is allowed"}
_NEEDED = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list in [ ]",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


class Problems:
    """Collects the problems of one spec, so that all are reported at once.

    Attributes:
        source: the spec, as messages name it.
        key: the part of the spec that keys are below; "" for the whole.
        lines: what was noted, of all parts.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.key = ""
        self.lines: list[str] = []

    def at(self, key: str) -> Problems:
        """The same collection, for the part below `key`, which is itself below this one's."""
        part = Problems(self.source)
        part.key, part.lines = self.full_key(key), self.lines
        return part

    def full_key(self, key: str) -> str:
        """`key` with what it is below: "companions.units.strategy", "passes[0]"."""
        if not self.key or not key:
            return self.key or key
        return f"{self.key}{key}" if key.startswith("[") else f"{self.key}.{key}"

    def add(self, key: str, text: str) -> None:
        """Note a problem of a dotted key below this part; of the part itself where the key is empty."""
        key = self.full_key(key)
        self.lines.append(f"{key}: {text}" if key else text)

    @contextmanager
    def noted(self, *, below: bool = False) -> Iterator[None]:
        """Note a SpecError raised inside, whose text begins with its key: the whole one, or `below` this part."""
        try:
            yield
        except SpecError as error:
            self.lines.append(self.full_key(str(error)) if below else str(error))

    def known(self, key: str, kind: str, name: str, allowed: Collection[str], *, are: str = "allowed are") -> bool:
        """Whether a name is one of those allowed; noted at `key` where it is not."""
        if name not in allowed:
            self.add(key, unknown(kind, name, allowed, are=are))
        return name in allowed

    def known_level(self, key: str, level: str, levels: Sequence[str]) -> bool:
        """The same of a level."""
        return self.known(key, "level", level, levels, are="the levels are")

    def query(self, key: str, text: str, schema: Schema) -> Query | None:
        """The query of a text that stands at `key`; None where it is none, which is noted."""
        query: Query | None = None
        with self.noted():
            query = Query.parse(text, schema, where=self.full_key(key))
        return query  # noqa: RET504 - None where a problem was noted

    def note_alike(self, names: Iterable[str]) -> None:
        """Note names below this part that differ from an earlier one in capital letters only."""
        folded: dict[str, str] = {}
        for name in names:
            if (other := folded.setdefault(name.casefold(), name)) != name:
                self.add(dotted([name]), f"differs from {other!r} in capital letters only; names must differ by more")

    def raise_if_any(self) -> None:
        """Raises SpecError with one line for each problem, if there is any."""
        if self.lines:
            raise SpecError("\n".join(f"{self.source}: {line}" for line in dict.fromkeys(self.lines)))


def unknown(kind: str, name: str, allowed: Collection[str], *, are: str = "allowed are") -> str:
    """The message of an unknown name: "'stat' is not a level; did you mean 'state'? allowed are state, county"."""
    article = "an" if kind[0] in "aeiou" else "a"
    return f"{name!r} is not {article} {kind};{_hint(name, allowed)} {are} {', '.join(allowed) or 'none'}"


def _hint(name: str, allowed: Collection[str]) -> str:
    close = difflib.get_close_matches(name, allowed, n=1, cutoff=0.65)
    return f" did you mean {close[0]!r}?" if close else ""


def dotted(location: Sequence[int | str]) -> str:
    """The key as TOML writes it, list positions in brackets from 0."""
    text = ""
    for part in location:
        if part == "[key]":  # pydantic's mark for "the key itself"
            continue
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        key = part if _BARE_KEY.fullmatch(part) else f'"{part}"'
        text += f".{key}" if text else key
    return text


def note_nul(content: object, problems: Problems, location: tuple[int | str, ...] = ()) -> None:
    """Note each key and text of a spec with a NUL character: two that differ in one at the end alone would meet."""
    if isinstance(content, str):
        if "\0" in content:
            shown = "text" if location[:2] == ("privacy", "key") else describe(content)
            problems.add(dotted(location), f"found {shown} with a NUL character; no text of a spec may have one")
    elif isinstance(content, Mapping):
        for name, value in content.items():
            note_nul(name, problems, location)
            note_nul(value, problems, (*location, str(name)))
    elif isinstance(content, list | tuple):
        for number, value in enumerate(content):
            note_nul(value, problems, (*location, number))


def note_validation_error(
    error: ValidationError, model: type[BaseModel], problems: Problems, slots: Slots = NO_SLOTS
) -> None:
    """Note each problem that pydantic found in a spec of type `model`, of which features fill the slots.

    Of the keys that a section has of a feature which is not installed the first is noted, which is enough.
    """
    details, keys = error.errors(include_url=False), _Keys(model, slots)
    missing: set[tuple[object, ...]] = set()
    for detail in details:
        location = detail["loc"]
        if detail["type"] == "too_short" and detail["input"] and _has_wrong_entries(details, location):
            continue  # pydantic counts only the valid entries; what is wrong with the others is reported with these
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, Misfit):
            for key, text in cause.problems:
                # A list position continues the key, "levels[1]"; a name is a key below it.
                below = (*location, key) if key else location
                problems.add(f"{dotted(location)}{key}" if key.startswith("[") else dotted(below), text)
            continue
        feature = keys.missing(location) if detail["type"] == "extra_forbidden" else None
        place = (*location[:-1], feature)
        if feature is None or place not in missing:
            secret = location[:2] == ("privacy", "key")
            problems.add(dotted(location), _in_words(detail, keys, secret=secret))
        missing.add(place)


def _has_wrong_entries(details: Sequence[Any], location: Sequence[int | str]) -> bool:
    return any(len(one["loc"]) > len(location) and one["loc"][: len(location)] == location for one in details)


def _in_words(detail: Mapping[str, Any], keys: _Keys, *, secret: bool) -> str:
    """The problem in our own wording, not a library's; `secret` keeps the value out of the message."""
    kind, value, location, context = detail["type"], detail["input"], detail["loc"], detail.get("ctx", {})
    if kind == "missing":
        return f"missing; needed is {keys.description(location)}"
    if kind == "extra_forbidden":
        return keys.unknown(location)
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"found {describe(value)}; allowed is {context['expected']}"
    if secret:
        return f"found no text; needed is {keys.description(location)}"
    if kind == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return as_text_advice(value)
    if kind in _NEEDED:
        return f"found {describe(value)}; {_NEEDED[kind]} is needed"
    if kind in _LIMITS:
        return f"found {describe(value)}; {_LIMITS[kind].format(**context)}"
    if kind in ("too_short", "too_long", "string_too_short"):
        return _of_length(value, context)
    return f"found {describe(value)}; {keys.description(location)} is needed"


def _of_length(value: Any, context: Mapping[str, Any]) -> str:
    """What is too short or too long: "found a list of 1 entry; at least 2 are needed"."""
    if not value or isinstance(value, str):
        return f"found an empty {describe(value).removeprefix('a ')}; at least one entry is needed"
    n, least, most = len(value), context.get("min_length"), context.get("max_length")
    needed = f"at least {least} are needed" if least is not None else f"at most {most} are allowed"
    return f"found a list of {n:,} {'entry' if n == 1 else 'entries'}; {needed}"


@dataclass(frozen=True)
class _Keys:
    """The keys of a spec of type `model`, of which features fill the slots."""

    model: type[BaseModel]
    slots: Slots

    def unknown(self, location: Sequence[int | str]) -> str:
        """What to say of a key that no section at its place has."""
        section, key = self._section(location[:-1]), str(location[-1])
        if feature := self.missing(location):
            return f"is of {feature}, which this installation is without; there is no folder features/{feature}"
        allowed = self._allowed(section) if section else []
        hint = _hint(key, allowed)
        if len(location) > 1 and key in fields_of(self.model, self.slots):
            hint = f" {key} = ... stands before the first [table], or as a [table] of its own;"
        elif len(location) == 1 and (tables := self._tables_with(key)):
            hint = f" {key} = ... stands in {' or '.join(f'[{name}]' for name in tables)};"
        return f"{getattr(self.model, 'unknown_key', 'unknown key;')}{hint} allowed here are {', '.join(allowed)}"

    def description(self, location: Sequence[int | str]) -> str:
        """The description of the field at `location`."""
        section = self._section(location[:-1])
        for key, field in fields_of(section, self.slots).items() if section else ():
            if location[-1] == key:
                return field.description or key
        return "another kind of value"

    def missing(self, location: Sequence[int | str]) -> str | None:
        """The feature of the key at `location`, where it is not installed."""
        section = self._section(location[:-1])
        if section is None or not issubclass(section, SlottedSection):
            return None
        return self.slots.missing.get(f"{section.slot}.{location[-1]}".lstrip("."))

    def _allowed(self, section: type[BaseModel]) -> list[str]:
        """The keys that a user may write: not those of published specs alone, which the JSON schema is without."""
        stated = json_schema_of(section, self.slots)["properties"]
        return [key for key in fields_of(section, self.slots) if key in stated]

    def _tables_with(self, key: str) -> list[str]:
        """The tables of a spec that have the key, for one that stands outside of them."""
        sections = {name: self._section((name,)) for name in fields_of(self.model, self.slots)}
        return [name for name, section in sections.items() if section and key in fields_of(section, self.slots)]

    def _section(self, location: Sequence[int | str]) -> type[BaseModel] | None:
        """The model of the table at `location` below `model`."""
        annotation: Any = self.model
        for part in location:
            annotation = _plain(annotation)
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                field = fields_of(annotation, self.slots).get(str(part))
                annotation = None if field is None else field.annotation
            else:
                arguments = typing.get_args(annotation)
                annotation = (arguments[-1] if isinstance(part, str) else arguments[0]) if arguments else None
        annotation = _plain(annotation)
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _plain(annotation: Any) -> Any:
    """The annotation without Annotated[...] and without "| None"."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif origin in (typing.Union, types.UnionType):
            annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
        else:
            return annotation

"""The kinds of fields that the sections of a release spec are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    PlainValidator,
    StrictInt,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from pipeline.model.exact import EXACT_ALLOWED, parse_exact
from pipeline.model.memory_table import MemoryTable, Source
from pipeline.model.text_format import check_encoding, check_separator
from pipeline.storage.paths import NOT_REGULAR, is_special

K = TypeVar("K")
T = TypeVar("T")

#: Validation context of a public dictionary: tables are lists of pairs, files are bare names.
PUBLIC: Mapping[str, object] = {"public": True}

_NAME = re.compile(r"[^\W_][\w-]{0,99}")
_TABLE_NAME = re.compile(r"[^\W_][\w.-]{0,99}(?<!\.)")
_EXACT_PATTERN = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$|^\s*[+-]?[0-9]+/[0-9]+\s*$"


class Misfit(ValueError):  # noqa: N818 - a note for the one SpecError that is made of all of them
    """Problems that a validator found: (key below the validated place, message); "" is the place itself."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


class Section(BaseModel):
    """A table of the spec: no other keys than its own, never changed.

    Attributes:
        unknown_key: what messages say of another key, where this is the whole file.
        of_runs: keys that a run states in what it publishes, and no user.
    """

    unknown_key: ClassVar[str] = "unknown key;"
    of_runs: ClassVar[tuple[str, ...]] = ()

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _stated_by_users(cls, stated: Any, info: ValidationInfo) -> Any:
        if cls.of_runs and isinstance(stated, Mapping) and not is_public(info):
            if found := [key for key in cls.of_runs if key in stated]:
                raise Misfit((found[0], "is stated by a run, in what it publishes; leave it out"))
            return {**stated, **cls.stated_by_runs(stated)}
        return stated

    @classmethod
    def stated_by_runs(cls, stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """Those of the keys of runs that follow from what a user has stated."""
        del stated
        return {}


def is_public(info: ValidationInfo) -> bool:
    """Whether a public dictionary is read."""
    return isinstance(info.context, Mapping) and bool(info.context.get("public"))


def folder_of(info: ValidationInfo) -> Path | None:
    """What file names are relative to; None where they stay as they are."""
    return info.context.get("folder") if isinstance(info.context, Mapping) else None


def describe(value: object) -> str:
    """A description of the value: "the number 2.56", "'abc'", "a table"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{value[:60]!r}... ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if isinstance(value, list | tuple) else f"the date or time {value}"


def as_text_advice(value: object) -> str:
    """Why a number cannot stand for text, and how to write it."""
    return f'found {describe(value)}; write it in quotes, "{value}"'


@dataclass(frozen=True)
class _Exact:
    """What a field is that states an exact number as text: what must hold of the number, and that in words."""

    allowed: str
    fits: Callable[[Fraction], bool]

    def read(self, value: object) -> Fraction:
        """The number that is stated; ValueError where it is none, or not one that is allowed."""
        if isinstance(value, Fraction):
            number = value
        elif isinstance(value, str):
            number = parse_exact(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            raise ValueError(f"{as_text_advice(value)}, so that it is exact")
        else:
            raise ValueError(f"found {describe(value)}; allowed is {EXACT_ALLOWED}")
        if not self.fits(number):
            raise ValueError(f"found {describe(value)}; it must be {self.allowed}")
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return handler.generate_schema(
            Annotated[Fraction, PlainValidator(self.read), PlainSerializer(str, return_type=str)]
        )

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        comment = f"an exact decimal or fraction as text, {self.allowed}"
        return {"type": "string", "pattern": _EXACT_PATTERN, "examples": ["2.56", "542/339"], "$comment": comment}


#: A whole budget, rho or epsilon.
Budget = Annotated[Fraction, _Exact("greater than 0", lambda number: number > 0)]
#: A level's share of the budget.
Share = Annotated[Fraction, _Exact("from 0 to 1", lambda number: 0 <= number <= 1)]
#: A query's share of its level's budget.
QueryShare = Annotated[Fraction, _Exact("greater than 0 and at most 1", lambda number: 0 < number <= 1)]
#: A mean number of persons.
Mean = Annotated[Fraction, _Exact("at least 0", lambda number: number >= 0)]
#: The delta of an (epsilon, delta) statement.
Delta = Annotated[Fraction, _Exact("greater than 0 and less than 1", lambda number: 0 < number < 1)]


def check_name(name: str) -> str:
    """`name` if it can name a file: letters, digits, - and _; ValueError otherwise."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"found {describe(name)}; it names files, so allowed are letters, digits, - and _ "
            "(up to 100, a letter or digit first)"
        )
    return name


def _check_table_name(name: str) -> str:
    if not _TABLE_NAME.fullmatch(name):
        raise ValueError(
            f"found {describe(name)}; it names files, so allowed are letters, digits, -, _ and . "
            "(up to 100, a letter or digit first, no . at the end)"
        )
    return name


def _check_value(value: str) -> str:
    if not value or value != value.strip():
        raise ValueError(f"found {value!r}; a value is text that is not empty and has no blanks around it")
    if " * " in value:
        raise ValueError(f"found {value!r}; a value cannot contain ' * ', which joins the values of a combination")
    return value


def _from_pairs(value: object, info: ValidationInfo) -> object:
    """A table, from the list of pairs that stands for it in a public dictionary."""
    if not is_public(info) or not isinstance(value, list):
        return value
    return pairs_of(value, "a list of pairs of a name and what it names is needed", "each name stands once")


def pairs_of(value: Sequence[object], needed: str, once: str) -> dict[str, object]:
    """The table that a list of pairs stands for in a public dictionary, in its order.

    Raises:
        ValueError: it holds something else than pairs, or a name twice; the message ends with `needed`, or `once`.
    """
    pairs = [(pair[0], pair[1]) for pair in value if isinstance(pair, list) and len(pair) == 2]
    table = {name: named for name, named in pairs if isinstance(name, str)}
    if len(pairs) < len(value) or not all(isinstance(name, str) for name, _ in pairs):
        raise ValueError(f"found {describe(value)}; {needed}")
    if len(table) < len(pairs):
        raise ValueError(f"found {describe(value)}; {once}")
    return table


def _rule_or_table(value: object, table: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    return value if isinstance(value, str) and not is_public(info) else table(value)


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple | Mapping) else [value]


def _file(value: object, info: ValidationInfo) -> Path:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ValueError(f'found {describe(value)}; a file name in quotes is needed, such as "blocks.parquet"')
    folder = folder_of(info)
    if folder is None:
        return Path(value)
    path = Path((folder / expanded(value)).resolve())
    if is_special(path):
        raise ValueError(f"found {describe(str(value))}, which {NOT_REGULAR}; a file is needed")
    return path


def in_short(key: str, section: type[BaseModel], *types: type) -> BeforeValidator:
    """Lets a section be stated by one of its keys alone: by a text, or by what is of another of these types."""

    def whole(value: object) -> object:
        return {key: value} if isinstance(value, (str, *types)) else value

    return BeforeValidator(whole, json_schema_input_type=str | section)


def expanded(name: str | Path) -> Path:
    """A path with the home directory that it begins with; ValueError where nobody has that."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise ValueError(f"found {describe(str(name))}; there is no such home directory") from None


def _read_levels(value: object, info: ValidationInfo) -> dict[str, int] | tuple[str, ...]:
    if is_public(info) and isinstance(value, list) and all(isinstance(item, list) for item in value):
        needed = "pairs of a level's name and its prefix length are needed"
        value = pairs_of(value, needed, "each level is named once")
    if not isinstance(value, Mapping | list | tuple):
        raise ValueError(
            f"found {describe(value)}; allowed are a table of prefix lengths, {{ county = 5, block = 15 }}, "
            'or a list of columns, ["county", "block"]'
        )
    problems: list[tuple[str, str]] = []
    for number, name in enumerate(value):
        key = f"[{number}]" if not isinstance(value, Mapping) else ""
        try:
            if not isinstance(name, str):
                raise ValueError(as_text_advice(name))
            check_name(name)
        except ValueError as error:
            problems.append((key, str(error)))
    if not problems:
        problems = _misfits_of_levels(value)
    if problems:
        raise Misfit(*problems)
    return dict(value) if isinstance(value, Mapping) else tuple(value)


def _misfits_of_levels(value: Mapping[str, object] | Sequence[str]) -> list[tuple[str, str]]:
    if not value:
        return [("", "found none; at least one level is needed")]
    folded: dict[str, str] = {}
    for name in value:
        if (other := folded.get(name.casefold())) is not None:
            return [("", f"found {other!r} and {name!r}; names must differ by more than capital letters")]
        folded[name.casefold()] = name
    if not isinstance(value, Mapping):
        return []
    shorter = 0
    for name, length in value.items():
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            return [(name, f"found {describe(length)}; a prefix length is a whole number, at least 1")]
        if length <= shorter:
            return [(name, f"found {describe(length)} after {shorter}; lengths must increase from the top level down")]
        shorter = length
    return []


#: What stands between the fields of a CSV file.
Separator = Annotated[str, AfterValidator(check_separator)]
#: The encoding of a CSV file.
Encoding = Annotated[str, AfterValidator(check_encoding)]
#: Name of the release, a level or a companion.
Name = Annotated[str, AfterValidator(check_name)]
#: Name of a published table.
TableName = Annotated[str, AfterValidator(_check_table_name)]
#: A value of an attribute, or the label of a group of values.
Value = Annotated[str, AfterValidator(_check_value)]
#: One or several values.
Values = Annotated[tuple[Value, ...], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]
#: The same, at least one.
FilledValues = Annotated[
    tuple[Value, ...], Field(min_length=1), BeforeValidator(_as_list, json_schema_input_type=str | list[str])
]
#: A table whose keys the user names; their order is kept.
Table = Annotated[dict[str, T], BeforeValidator(_from_pairs)]
#: The same with at least one entry.
FilledTable = Annotated[dict[str, T], Field(min_length=1), BeforeValidator(_from_pairs)]
#: The same with checked keys.
NamedTable = Annotated[dict[K, T], BeforeValidator(_from_pairs)]
#: Impossible records: each a combination of values, or an edit rule, which is a sentence.
StructuralZeros = Annotated[
    tuple[
        Annotated[
            FilledTable[FilledValues],
            WrapValidator(_rule_or_table, json_schema_input_type=str | FilledTable[FilledValues]),
        ],
        ...,
    ],
    BeforeValidator(_as_list, json_schema_input_type=str | list[str | FilledTable[FilledValues]]),
]
#: A file, made absolute against the spec's folder.
File = Annotated[
    Path,
    PlainValidator(_file),
    PlainSerializer(lambda path: path.name, return_type=str),
    WithJsonSchema({"type": "string"}),
]
#: A file, or a table in memory in its place.
FileOrTable = Annotated[
    Source,
    PlainValidator(lambda value, info: value if isinstance(value, MemoryTable) else _file(value, info)),
    PlainSerializer(lambda source: source.name, return_type=str),
    WithJsonSchema({"type": "string"}),
]
#: Levels of the spine, top first: names with prefix lengths, or names alone.
Levels = Annotated[
    dict[str, int] | tuple[str, ...],
    PlainValidator(_read_levels, json_schema_input_type=dict[str, StrictInt] | list[str]),
]

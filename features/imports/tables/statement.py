"""What a user states of a table: every part of its reading, as options or as a recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from features.imports.tables.databases import describe_source, is_database
from features.imports.toml_text import assigned, quoted, read_toml_of
from pipeline.errors import InputError
from pipeline.model.text_format import check_encoding, check_separator

#: Between the conditions of --only.
_AND = re.compile(r"\s+and\s+(?=[^=!]*(?:==|!=|\sin\s))")
#: A value of a list, with the comma behind it.
_VALUE = re.compile(r"\s*(\"[^\"]*\"|'[^']*'|[^,]*)(?:,|$)")
_FORM = re.compile(r"\s*(?P<column>\"[^\"]+\"|.+?)\s*(?P<sign>==|!=|\s(?:not\s+)?in\s)\s*(?P<values>.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class RowCondition:
    """Rows are kept whose column has one of the values, or none of them.

    Attributes:
        kept: whether rows with the values are those that are kept.
    """

    column: str
    values: tuple[str, ...]
    kept: bool

    def holds(self, text: str) -> bool:
        """Whether a row with this text is kept."""
        return (text in self.values) is self.kept


def _condition(text: str, part: str) -> RowCondition:
    """A part of a text of --only; InputError where it is no condition."""
    match = _FORM.fullmatch(part)
    if match is None:
        raise InputError(
            f"--only {text!r}: found {part!r}; COLUMN == VALUE, COLUMN != VALUE or COLUMN in VALUE, VALUE is needed, "
            "more of them joined by and"
        )
    sign = " ".join(match["sign"].split())
    values = [match["values"]]
    if sign not in ("==", "!="):
        values = [one.strip() for one in _VALUE.findall(values[0])[:-1] or values]
    if sign != "==" and sign != "!=" and not all(values):
        raise InputError(f"--only {text!r}: an empty value stands in the list")
    return RowCondition(_unquoted(match["column"]), tuple(map(_unquoted, values)), sign in ("==", "in"))


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


@dataclass(frozen=True)
class TableStatement:
    """The reading of a table, each field the text of the option of its name; None or empty where it is not stated."""

    source: str
    query: str | None = None
    sheet: str | None = None
    header: str | None = None
    last: int | None = None
    separator: str | None = None
    encoding: str | None = None
    geography: str | None = None
    levels: str | None = None
    areas: str | None = None
    level: str | None = None
    drop_level: str | None = None
    count: str | None = None
    records: bool = False
    wide: str | None = None
    attributes: str | None = None
    schema: str | None = None
    only: tuple[str, ...] = ()
    zeros: int | None = None
    missing: str | None = None
    households: str | None = None
    households_query: str | None = None
    key: str | None = None
    household_attributes: str | None = None
    name: str | None = None
    expect_records: int | None = None
    expect_areas: int | None = None
    unproved: bool = False
    #: Parsed parts. `counted_by`: column -> the name of a stock list of its values, if one is stated; `places`: column
    #: of codes or names of areas -> the column with their names, if it is another; `gone`: what means that there is no
    #: value, the empty text among it.
    conditions: tuple[RowCondition, ...] = field(init=False)
    prefixes: Mapping[str, int] = field(init=False)
    places: Mapping[str, str | None] = field(init=False)
    counted_by: Mapping[str, str | None] = field(init=False)
    gone: tuple[str, ...] = field(init=False)
    header_rows: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (
            ("conditions", tuple(_condition(text, part) for text in self.only for part in _AND.split(text))),
            ("prefixes", parse_levels(self.levels)),
            ("counted_by", parse_assigned("--attributes", self.attributes)),
            ("places", parse_assigned("--geography", self.geography)),
            ("gone", tuple(part.strip() for part in (self.missing or "").split(","))),
            ("header_rows", _header_rows(self.header)),
        ):
            object.__setattr__(self, name, value)
        _check_query(self.source, self.query, "--query")
        if self.households is not None:
            _check_query(self.households, self.households_query, "--households-query")
        elif self.households_query is not None:
            raise InputError("--households-query: there is no --households to ask; give both, or neither")
        for option, check in (("separator", check_separator), ("encoding", check_encoding)):
            if (value := getattr(self, option)) is not None:
                try:
                    check("\t" if value == "tab" else value)
                except ValueError as error:
                    raise InputError(f"--{option}: {error}") from None

    @property
    def is_stated(self) -> bool:
        """Whether anything is stated of what the rows are, or of a second table."""
        return bool(self.places or self.count or self.records or self.wide or self.households)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the levels, top first."""
        return tuple(self.places)

    @property
    def lowest(self) -> str:
        """The column of the lowest level."""
        return self.columns[-1]

    def check_complete(self) -> None:
        """InputError unless the statement says how rows are counted, where, by what, and what proves it."""
        ways = [name for name in ("count", "records", "wide") if getattr(self, name)]
        if len(ways) != 1:
            found = " and ".join(f"--{name}" for name in ways) or "none"
            raise InputError(
                f"{self.label}: what counts is to be stated by one of --count COLUMN (a row is a cell with its count), "
                f"--records (a row is a record) and --wide PATTERN (a row is an area); found {found}"
            )
        if not self.columns:
            raise InputError(f"{self.label}: --geography COLUMN[,COLUMN...] is needed, the levels top first")
        if self.prefixes and len(self.columns) > 1:
            raise InputError("--levels: lengths are of the codes of one column; name only this one as --geography")
        if self.drop_level is not None and self.level is None:
            raise InputError("--drop-level: there is no --level COLUMN whose values they are")
        if self.schema is not None and self.attributes is not None:
            raise InputError("--schema: the list names the attributes; leave out --attributes")
        if self.schema is None and self.attributes is None and self.records:
            raise InputError(
                f"{self.label}: --attributes COLUMN[,COLUMN...] is needed, the columns to count by, or --schema FILE"
            )
        if (self.key is not None or self.households is not None) and not self.records:
            raise InputError("--key, --households: only records (--records) belong to households")
        if self.households is not None and self.key is None:
            raise InputError("--households: --key COLUMN is needed, the column of both tables that links them")
        lacking = [
            option
            for option, value in (("--expect-records N", self.expect_records), ("--expect-areas M", self.expect_areas))
            if value is None
        ]
        if lacking and not self.unproved:
            raise InputError(
                f"{self.label}: {' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} needed: how many people "
                "the table holds, and how many areas, from another place than the table; where nobody knows, "
                "--unproved writes a spec that run refuses until [input] expect is filled in"
            )
        if not lacking and self.unproved:
            raise InputError("--unproved: both numbers are stated; leave it out")

    @property
    def label(self) -> str:
        """What messages call the source."""
        return describe_source(self.source)

    def recipe(self) -> str:
        """The text of import.toml; without the source and the numbers that prove it, which are another year's."""
        lines = [
            "# What was stated of the table. Next year: spinewise import table --recipe import.toml FILE --out DIR",
            "# --expect-records N --expect-areas M",
        ]
        for name in PARTS:
            value = getattr(self, name)
            if value in (None, (), False):
                continue
            if isinstance(value, tuple):
                text = f"[{', '.join(map(quoted, value))}]"
            elif isinstance(value, bool):
                text = "true"
            else:
                text = str(value) if isinstance(value, int) else quoted(value)
            lines.append(assigned(name.replace("_", "-"), text))
        return "\n".join(lines) + "\n"


_KINDS: Final = {one.name: str(one.type) for one in fields(TableStatement) if one.init}
#: The parts that a recipe states: not the source, and not what proves the reading, which are another year's.
PARTS: Final = tuple(name for name in _KINDS if name not in ("source", "expect_records", "expect_areas", "unproved"))


def read_recipe(path: Path) -> dict[str, Any]:
    """The parts that a recipe states, by field.

    Raises:
        InputError: it cannot be read, or states what is no option.
    """
    content = read_toml_of("--recipe", path)
    stated: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in PARTS:
            allowed = ", ".join(part.replace("_", "-") for part in PARTS)
            raise InputError(f"--recipe {path}: found {key!r}; allowed are {allowed}")
        kind = _KINDS[name]
        if kind.startswith("tuple"):
            fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
            value = tuple(value) if fits else value
        else:
            wanted: type = bool if kind == "bool" else int if kind.startswith("int") else str
            fits = type(value) is wanted
        if not fits:
            raise InputError(f"--recipe {path}: {key}: found {value!r}; write it as the option --{key} has it")
        stated[name] = value
    return stated


def _check_query(source: str, query: str | None, option: str) -> None:
    if query is None and is_database(source):
        raise InputError(f'{describe_source(source)}: a database needs a query; give {option} "select ..."')
    if query is not None and not is_database(source):
        raise InputError(
            f"{source}: a query needs a database: a .duckdb or .sqlite file, a URL such as "
            "postgresql://USER@HOST/DATABASE, or duckdb: for queries over files"
        )


def parse_names(text: str | None) -> tuple[str, ...]:
    """The columns of an option: names between commas."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def parse_assigned(option: str, text: str | None) -> dict[str, str | None]:
    """Column -> what is stated of it or None, of `sex,age=ages five-year`."""
    found: dict[str, str | None] = {}
    for part in parse_names(text):
        name, _, about = part.partition("=")
        if name.strip() in found:
            raise InputError(f"{option}: column {name.strip()!r} stands twice")
        found[name.strip()] = about.strip() or None
    return found


def parse_levels(text: str | None) -> dict[str, int]:
    """The levels of `state=2,county=5`.

    Raises:
        InputError: the text is not of that form, or the lengths do not rise.
    """
    lengths: dict[str, int] = {}
    for part in parse_names(text):
        name, _, length = part.partition("=")
        number = int(length) if length.strip().isdecimal() else 0
        if not name.strip() or name.strip() in lengths or number <= max(lengths.values(), default=0):
            raise InputError(
                f"--levels: found {part!r}; names with the lengths of their codes are needed, top first and rising, "
                "such as state=2,county=5,tract=11"
            )
        lengths[name.strip()] = number
    return lengths


def _header_rows(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    first, _, last = text.partition(":")
    if not first.isdecimal() or not (last or first).isdecimal() or not 1 <= int(first) <= int(last or first):
        raise InputError(f"--header: found {text!r}; the row of the names, or the first and last, such as 5:6")
    return int(first), int(last or first)

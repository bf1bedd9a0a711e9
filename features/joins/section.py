"""The section [[join]] of a spec: what a household of each kind implies for the persons in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, StrictBool, StrictInt, model_validator

from pipeline.spec.fields import FilledTable, Mean, Misfit, Section, Table, Values, describe

#: Members of one household that a spec can state.
MOST_MEMBERS = 1_000_000

Form = Literal["size", "householder", "present", "table"]

#: Form -> its keys: those that it needs, and the others.
_KEYS: dict[Form, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "size": (("size",), ("most", "mean")),
    "householder": (("householder",), ("exactly",)),
    "present": (("present", "members"), ()),
    "table": (("table", "persons", "households"), ()),
}


def _members(value: object) -> tuple[int, ...]:
    """(least, most), or (least,) where nothing limits them."""
    stated = list(value) if isinstance(value, list | tuple) else [value, value]
    numbers = [n for n in stated if isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST_MEMBERS]
    if len(numbers) < len(stated) or len(stated) not in (1, 2) or numbers[0] > numbers[-1]:
        found = f"[{', '.join(map(describe, stated))}]" if isinstance(value, list | tuple) else describe(value)
        raise ValueError(
            f"found {found.replace('the number ', '')}; allowed are a number of members such as 2, the least and the "
            f"most, [1, 3], or the least alone, [1]; whole numbers up to {MOST_MEMBERS:,}"
        )
    return tuple(numbers)


#: Members of one household.
Members = Annotated[tuple[int, ...], PlainValidator(_members, json_schema_input_type=int | list[int])]


class JoinSection(Section):
    """What a household of each kind implies for the persons in it; one of four forms."""

    name: str | None = Field(
        default=None, min_length=1, description="the name of the join in messages; default: the companion and form"
    )
    companion: str = Field(description="the companion whose records are the households")
    where: Table[Annotated[Values, Field(min_length=1)]] = Field(
        default={},
        description="the persons who live in households: attribute or recode -> value, or the values of one group of a "
        "recode; default: everybody",
    )
    others: StrictBool = Field(
        default=False,
        description="whether persons outside of households count in the same answers: households limit them from below "
        "only",
    )
    size: str | None = Field(
        default=None,
        description="form size: the households' attribute or recode whose labels are numbers of members, "
        '"1", "2", ..., "7+"',
    )
    most: Annotated[StrictInt, Field(ge=0, le=MOST_MEMBERS)] | None = Field(
        default=None, description='form size: the most members that "7+" stands for'
    )
    mean: Mean | None = Field(
        default=None,
        description='form size: the members to expect in "7+", as exact text; default: its least and a half',
    )
    householder: FilledTable[str] | None = Field(
        default=None,
        description="form householder: persons' attribute or recode -> the households' one with the value of its "
        "householder",
    )
    exactly: StrictBool = Field(
        default=False,
        description="form householder: `where` are the householders alone, one in each household",
    )
    present: FilledTable[Annotated[Values, Field(min_length=1)]] | None = Field(
        default=None,
        description="form present: households' attribute or recode -> the value or values with at least one of "
        "`members`",
    )
    members: FilledTable[Annotated[Values, Field(min_length=1)]] | None = Field(
        default=None,
        description="form present: the persons of whom there is at least one in these households, none in all others",
    )
    persons: str | None = Field(default=None, description="form table: a query on persons")
    households: str | None = Field(default=None, description="form table: a query on the companion")
    table: FilledTable[FilledTable[Members]] | None = Field(
        default=None,
        description="form table: the persons' answer -> the households' answer -> members of one household: the "
        "number, [least, most], or [least]",
    )

    @model_validator(mode="after")
    def _one_form(self) -> JoinSection:
        given = {form: [key for key in (*a, *b) if self._has(key)] for form, (a, b) in _KEYS.items()}
        stated = [form for form, keys in given.items() if keys]
        if not stated:
            raise Misfit(("", f"has no form; one of the keys {', '.join(_KEYS)} is needed"))
        if len(stated) > 1:
            found = " and ".join(f"{given[form][0]} (form {form})" for form in stated)
            raise Misfit(("", f"has keys of {len(stated)} forms, {found}; a join has one form, so state two joins"))
        needed, _ = _KEYS[stated[0]]
        if missing := [key for key in needed if not self._has(key)]:
            raise Misfit(*((key, f"missing; the form {stated[0]} needs {' and '.join(needed)}") for key in missing))
        if stated[0] == "table" and self.where:
            raise Misfit(("where", "not with the form table, whose query on persons names the answers"))
        return self

    def _has(self, key: str) -> bool:
        return getattr(self, key) not in (None, False)

    @property
    def form(self) -> Form:
        """Which of the forms it has."""
        return next(form for form, (needed, _) in _KEYS.items() if self._has(needed[0]))

    @property
    def words(self) -> str:
        """What it says, for people."""
        people = f" among persons with {_in_words(self.where)}" if self.where else ""
        if self.size is not None:
            most = "" if self.most is None else f" (the open one: at most {self.most:,})"
            text = f"as many members as its {self.size} says{most}"
        elif self.householder:
            text = f"{'one' if self.exactly else 'a'} member with its householder's {' and '.join(self.householder)}"
            text += f" ({' and '.join(self.householder.values())})"
        elif self.present and self.members:
            text = f"somebody with {_in_words(self.members)} if {_in_words(self.present)}, else nobody"
        else:
            text = f"by {self.households} the members by {self.persons} that its table states"
        others = "; other persons count there, too" if self.others else ""
        return f"each of {self.companion} has {text}{people}{others}"

    @property
    def title(self) -> str:
        """Its name; the companion and what is joined where it has none."""
        return self.name or f"{self.companion} {' and '.join(self.present) if self.present else self.form}"


class HouseholdTableSection(Section):
    """A published table of the persons who live in households of a joined companion, by what these are."""

    persons: str = Field(default="total", description="a query on persons")
    households: str = Field(description="a query on the companion: what the persons' households are")
    companion: str | None = Field(
        default=None, description="the joined companion whose records are the households; default: the only one"
    )
    levels: tuple[str, ...] | None = Field(
        default=None, description="the levels it is published for; default: all of them"
    )


def _in_words(values: Mapping[str, Sequence[str]]) -> str:
    """Terms and their values, for people."""
    return " and ".join(f"{term} {' or '.join(labels)}" for term, labels in values.items())

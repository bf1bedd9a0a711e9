"""The sections [[join]] and [household_tables.NAME] of a spec, and what the forms of a join mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PlainValidator, StrictBool, StrictInt, model_validator

from features.joins.link import Join
from features.joins.mathematics.membership import NO_MOST
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.spec.fields import FilledTable, Mean, Misfit, Section, Table, Values, describe
from pipeline.spec.problems import Problems, dotted
from postprocess.arrays import BoolArray, FloatArray, IntArray

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
        """The companion and what is joined, for messages."""
        return f"{self.companion} {' and '.join(self.present) if self.present else self.form}"


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


_SIZE = re.compile(r"([0-9]{1,7})(\+?)", re.ASCII)


@dataclass(frozen=True, eq=False)
class StatedJoin:
    """A join with its place in the spec.

    Attributes:
        key: "join[0]".
        people: `(n_cells,)` of the release's own schema, True for the persons who live in the join's households.
    """

    key: str
    join: Join
    people: BoolArray


class JoinForms:
    """Resolves one section; what does not fit is noted in its problems.

    Args:
        section: to be resolved.
        persons: schema of the release's own universe.
        households: schema of the companion.
        problems: of the section.
        title: of the join, for messages.
    """

    def __init__(
        self, section: JoinSection, persons: Schema, households: Schema, problems: Problems, title: str
    ) -> None:
        self.section = section
        self.title = title
        self.persons = persons
        self.households = households
        self.problems = problems

    def stated(self) -> StatedJoin | None:
        """The join that the section states; None where problems were noted."""
        before = len(self.problems.lines)
        where = self._one_label_each("where", self.section.where)
        make = {"size": self._size, "householder": self._householder, "present": self._present, "table": self._table}
        join = make[self.section.form](where) if where is not None else None
        if join is None or len(self.problems.lines) > before:
            return None
        people = join.inside[join.persons.cell_answer]
        if self.section.form != "table" and where is not None:
            query = Query.parse(_product(where), self.persons)
            people = _answers_with(query, {term: (label,) for term, label in where.items()})[query.cell_answer]
        return StatedJoin(self.problems.key, join, people)

    def _size(self, where: Mapping[str, str]) -> Join | None:
        term = str(self.section.size)
        persons = self.problems.query("where", _product(where), self.persons)
        if not self._known("size", term, self.households) or persons is None:
            return None
        households = Query.parse(term, self.households)
        sizes = [_SIZE.fullmatch(label) for label in households.answer_labels()]
        if strange := [label for label, size in zip(households.answer_labels(), sizes, strict=True) if not size]:
            self.problems.add(
                "size",
                f"{term!r} has the label {strange[0]!r}, which is no number of members; allowed are whole numbers and "
                'one such as "7+"',
            )
            return None
        least = np.array([int(size[1]) for size in sizes if size], dtype=np.int64)
        opened = np.array([size[2] == "+" for size in sizes if size])
        most, expected = least.copy(), least.astype(np.float64)
        if opened.sum() > 1:
            labels = ", ".join(np.array(households.answer_labels())[opened])
            self.problems.add("size", f"{term!r} has several open labels, {labels}; one is allowed")
            return None
        for number in np.flatnonzero(opened):
            limits = self._open_size(households.answer_labels()[number], int(least[number]))
            most[number], expected[number] = limits if limits is not None else (0, 0)
        if not opened.any():
            for key in ("most", "mean"):
                if getattr(self.section, key) is not None:
                    self.problems.add(key, f'{term!r} has no open label such as "7+"; leave it out')
        inside = _answers_with(persons, {name: (label,) for name, label in where.items()})
        return self._join(
            persons, households, inside, np.where(inside[:, None], np.stack([least, most])[:, None], 0), expected
        )

    def _open_size(self, label: str, least: int) -> tuple[int, float] | None:
        """The most members, and those to expect, of an open label; None where a problem was noted."""
        most, mean = self.section.most, self.section.mean
        if most is None and not self.section.others:
            self.problems.add(
                "most",
                f"missing; {label} needs `most`, the most members that it stands for, such as most = {least + 8} (with "
                "others = true it can be left out)",
            )
            return None
        highest = NO_MOST if most is None else most
        if highest < least:
            self.problems.add("most", f"found {most}; at least {least} is needed, the least that {label} stands for")
            return None
        if mean is None:
            mean = min(least + Fraction(1, 2), Fraction(highest))
        if not least <= mean <= highest:
            allowed = f"from {least}" if most is None else f"from {least} to {most}"
            self.problems.add("mean", f"found {mean}; {label} stands for {allowed}")
            return None
        return highest, float(mean)

    def _householder(self, where: Mapping[str, str]) -> Join | None:
        pairs, before = self.section.householder or {}, len(self.problems.lines)
        for own, theirs in pairs.items():
            key = dotted(["householder", own])
            known = self._known(key, own, self.persons) and self._known(key, theirs, self.households)
            if known and (extra := [x for x in self.households.terms[theirs] if x not in self.persons.terms[own]]):
                self.problems.add(
                    key,
                    f"{theirs!r} has the label {extra[0]!r}, which {own!r} does not have; its labels are "
                    f"{', '.join(self.persons.terms[own])}",
                )
        if clash := [term for term in pairs if term in where]:
            self.problems.add(dotted(["householder", clash[0]]), "stands in `where`, too; leave one of them out")
        if len(self.problems.lines) > before:
            return None
        persons = self.problems.query("householder", _product([*where, *pairs]), self.persons)
        households = self.problems.query("householder", _product(list(pairs.values())), self.households)
        if persons is None or households is None:
            return None
        inside = _answers_with(persons, {term: (label,) for term, label in where.items()})
        equal = np.broadcast_to(inside[:, None], (persons.size, households.size)).copy()
        for own, theirs in pairs.items():
            equal &= persons.labels_of(own)[:, None] == households.labels_of(theirs)[None, :]
        least = equal.astype(np.int64)
        if self.section.exactly:
            return self._join(persons, households, inside, np.stack([least, least]), least.astype(np.float64))
        most = np.where(inside[:, None], np.full_like(least, NO_MOST), 0)
        return self._join(persons, households, inside, np.stack([least, most]), np.array(np.nan))

    def _present(self, where: Mapping[str, str]) -> Join | None:
        present, before = self.section.present or {}, len(self.problems.lines)
        members = self._one_label_each("members", self.section.members or {})
        for term, values in present.items():
            if self._known(key := dotted(["present", term]), term, self.households):
                self._known_labels(key, term, values, self.households)
        if clash := [term for term in members or {} if term in where]:
            self.problems.add(dotted(["members", clash[0]]), "stands in `where`, too; leave one of them out")
        if members is None or len(self.problems.lines) > before:
            return None
        persons = self.problems.query("members", _product([*where, *members]), self.persons)
        households = self.problems.query("present", _product(list(present)), self.households)
        if persons is None or households is None:
            return None
        inside = _answers_with(persons, {term: (label,) for term, label in {**where, **members}.items()})
        some = _answers_with(households, present)
        least = (inside[:, None] & some[None, :]).astype(np.int64)
        return self._join(persons, households, inside, np.stack([least, least * NO_MOST]), np.array(np.nan))

    def _table(self, where: Mapping[str, str]) -> Join | None:
        del where  # the answers are named one by one
        persons = self.problems.query("persons", str(self.section.persons), self.persons)
        households = self.problems.query("households", str(self.section.households), self.households)
        if persons is None or households is None:
            return None
        answers, kinds = persons.answer_labels(), households.answer_labels()
        limits = np.zeros((2, persons.size, households.size), dtype=np.int64)
        inside = np.zeros(persons.size, dtype=np.bool_)
        for answer, row in (self.section.table or {}).items():
            key = dotted(["table", answer])
            if not self.problems.known(key, f"answer of {persons.name!r}", answer, answers):
                continue
            for kind in row:
                self.problems.known(dotted(["table", answer, kind]), f"answer of {households.name!r}", kind, kinds)
            if missing := [kind for kind in kinds if kind not in row]:
                more = " and others" if len(missing) > 3 else ""
                self.problems.add(
                    key,
                    f"says nothing of {', '.join(map(repr, missing[:3]))}{more}; each of the {len(kinds):,} answers of "
                    f"{households.name!r} is needed",
                )
                continue
            number = answers.index(answer)
            inside[number] = True
            for at, kind in enumerate(kinds):
                least, *most = row[kind]
                limits[:, number, at] = least, *(most or [NO_MOST])
        exact = (limits[0] == limits[1]).all(axis=1)
        return self._join(persons, households, inside, limits, np.where(exact[:, None], limits[0], np.nan))

    def _join(
        self,
        persons: Query,
        households: Query,
        inside: BoolArray,
        limits: IntArray,
        expected: FloatArray,
    ) -> Join:
        """Args: `limits` are least and most, `(2, persons.size, households.size)`; `expected` can be broadcast."""
        section = self.section
        return Join(
            name=self.title,
            companion=section.companion,
            persons=persons,
            households=households,
            least=limits[0],
            most=limits[1],
            inside=inside,
            others=section.others,
            expected=np.where(inside[:, None], np.broadcast_to(expected, limits[0].shape), 0.0),
        )

    def _known(self, key: str, term: str, schema: Schema) -> bool:
        """Whether the term is an attribute or recode; noted otherwise."""
        return self.problems.known(key, "attribute or recode", term, schema.terms)

    def _known_labels(self, key: str, term: str, values: Sequence[str], schema: Schema) -> bool:
        labels = schema.terms[term]
        known = [self.problems.known(key, f"value of {term}", value, labels) for value in values]  # each is noted
        return all(known)

    def _one_label_each(self, table: str, terms: Mapping[str, Sequence[str]]) -> dict[str, str] | None:
        """Attribute or recode -> the one label that stands for the values; None where there is none, which is noted."""
        found: dict[str, str] = {}
        before = len(self.problems.lines)
        for term, values in terms.items():
            key = dotted([table, term])
            if not self._known(key, term, self.persons) or not self._known_labels(key, term, values, self.persons):
                continue
            stated = (term, values[0]) if len(values) == 1 else self._group(term, values)
            if stated is None:
                self.problems.add(
                    key,
                    f"no recode has a group of just {', '.join(values)}; state one, [schema.recodes.NAME] with "
                    f"attribute = {self._attribute(term)!r}, and name it here: a join is about answers of a query",
                )
            elif found.setdefault(*stated) != stated[1]:
                self.problems.add(key, f"nobody is in both groups of {stated[0]!r}; name one of them")
        return found if len(self.problems.lines) == before else None

    def _attribute(self, term: str) -> str:
        recode = self.persons.recode(term)
        return term if recode is None else recode.attribute

    def _group(self, term: str, labels: Sequence[str]) -> tuple[str, str] | None:
        """The recode and its group that has just the values that the labels of a term stand for."""
        own = self.persons.recode(term)
        values = set(labels) if own is None else {v for label, group in own.groups if label in labels for v in group}
        for recode in self.persons.recodes:
            for label, group in recode.groups:
                if recode.attribute == self._attribute(term) and set(group) == values:
                    return recode.name, label
        return None


def _product(terms: Sequence[str] | Mapping[str, str]) -> str:
    return " * ".join(terms) or "total"


def _answers_with(query: Query, values: Mapping[str, Sequence[str]]) -> BoolArray:
    """`(query.size,)`: whether an answer has one of the values of each term."""
    fits = np.ones(query.size, dtype=np.bool_)
    for term, labels in values.items():
        fits &= np.isin(query.labels_of(term), labels)
    return fits

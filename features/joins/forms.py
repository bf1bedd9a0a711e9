"""Each form of [[join]], as a query on persons, one on households, and the members of a household for their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from features.joins.join import Join
from features.joins.mathematics.membership import NO_MOST
from features.joins.section import JoinSection
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.spec.problems import Problems, dotted, unknown

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
    people: NDArray[np.bool_]


class JoinForms:
    """Resolves one section; what does not fit is noted in its problems.

    Args:
        section: to be resolved.
        persons: schema of the release's own universe.
        households: schema of the companion.
        problems: of the section.
    """

    def __init__(self, section: JoinSection, persons: Schema, households: Schema, problems: Problems) -> None:
        self.section = section
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
        persons = self._query("where", _product(where), self.persons)
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
            if known and (
                extra := [x for x in _labels(theirs, self.households) if x not in _labels(own, self.persons)]
            ):
                self.problems.add(
                    key,
                    f"{theirs!r} has the label {extra[0]!r}, which {own!r} does not have; its labels are "
                    f"{', '.join(_labels(own, self.persons))}",
                )
        if clash := [term for term in pairs if term in where]:
            self.problems.add(dotted(["householder", clash[0]]), "stands in `where`, too; leave one of them out")
        if len(self.problems.lines) > before:
            return None
        persons = self._query("householder", _product([*where, *pairs]), self.persons)
        households = self._query("householder", _product(list(pairs.values())), self.households)
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
        persons = self._query("members", _product([*where, *members]), self.persons)
        households = self._query("present", _product(list(present)), self.households)
        if persons is None or households is None:
            return None
        inside = _answers_with(persons, {term: (label,) for term, label in {**where, **members}.items()})
        some = _answers_with(households, present)
        least = (inside[:, None] & some[None, :]).astype(np.int64)
        return self._join(persons, households, inside, np.stack([least, least * NO_MOST]), np.array(np.nan))

    def _table(self, where: Mapping[str, str]) -> Join | None:
        del where  # the answers are named one by one
        persons = self._query("persons", str(self.section.persons), self.persons)
        households = self._query("households", str(self.section.households), self.households)
        if persons is None or households is None:
            return None
        answers, kinds = persons.answer_labels(), households.answer_labels()
        limits = np.zeros((2, persons.size, households.size), dtype=np.int64)
        inside = np.zeros(persons.size, dtype=np.bool_)
        for answer, row in (self.section.table or {}).items():
            key = dotted(["table", answer])
            if answer not in answers:
                self.problems.add(key, unknown(f"answer of {persons.name!r}", answer, answers))
                continue
            for kind in row:
                if kind not in kinds:
                    self.problems.add(
                        dotted(["table", answer, kind]), unknown(f"answer of {households.name!r}", kind, kinds)
                    )
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
        inside: NDArray[np.bool_],
        limits: NDArray[np.int64],
        expected: NDArray[np.float64],
    ) -> Join:
        """Args: `limits` are least and most, `(2, persons.size, households.size)`; `expected` can be broadcast."""
        section = self.section
        return Join(
            name=section.title,
            companion=section.companion,
            persons=persons,
            households=households,
            least=limits[0],
            most=limits[1],
            inside=inside,
            others=section.others,
            expected=np.where(inside[:, None], np.broadcast_to(expected, limits[0].shape), 0.0),
        )

    def _query(self, key: str, text: str, schema: Schema) -> Query | None:
        query: Query | None = None
        with self.problems.noted():
            query = Query.parse(text, schema, where=self.problems.full_key(key))
        return query  # noqa: RET504 - None where a problem was noted

    def _known(self, key: str, term: str, schema: Schema) -> bool:
        """Whether the term is an attribute or recode; noted otherwise."""
        if term not in (known := _terms(schema)):
            self.problems.add(key, unknown("attribute or recode", term, known))
        return term in known

    def _known_labels(self, key: str, term: str, values: Sequence[str], schema: Schema) -> bool:
        labels = _labels(term, schema)
        strange = [value for value in values if value not in labels]
        for value in strange:
            self.problems.add(key, unknown(f"value of {term}", value, labels))
        return not strange

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


def _terms(schema: Schema) -> list[str]:
    return [*schema.names, *(recode.name for recode in schema.recodes)]


def _labels(term: str, schema: Schema) -> tuple[str, ...]:
    recode = schema.recode(term)
    return schema.attribute(term).values if recode is None else recode.labels


def _answers_with(query: Query, values: Mapping[str, Sequence[str]]) -> NDArray[np.bool_]:
    """`(query.size,)`: whether an answer has one of the values of each term."""
    fits = np.ones(query.size, dtype=np.bool_)
    for term, labels in values.items():
        fits &= np.isin(query.labels_of(term), labels)
    return fits

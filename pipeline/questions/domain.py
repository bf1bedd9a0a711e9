"""What a question may name: levels, attributes, recodes and further columns, each with its public values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction

from pipeline.model.schema import AmountAttribute, Attribute, ClippedAttribute, ListedAttribute, Schema
from pipeline.questions.text import Word


@dataclass(frozen=True)
class Domain:
    """The names of questions and what they stand for; all of it is public, and none of it comes from the records.

    Attributes:
        levels: of the spine, top first.
        schema: the release's attributes and recodes.
        columns: name -> categories or amounts beyond the schema.
        files: name -> the records' column of those whose column is called otherwise.
        texts: name -> text in the file -> value, of categories beyond the schema.
        units: how many records a unit has, as an attribute, where the records have units.
    """

    levels: tuple[str, ...]
    schema: Schema
    columns: Mapping[str, Attribute] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    units: Attribute | None = None

    def attribute(self, name: str) -> Attribute | None:
        """The attribute, category or amount of that name; None where there is none."""
        if name in self.columns:
            return self.columns[name]
        return self.schema.attribute(name) if name in self.schema.names else None

    def clip(self, amount: AmountAttribute) -> ClippedAttribute:
        """Whether records are beyond the ends of an amount, under a name that nothing else has."""
        return ClippedAttribute.of(self._free(amount.name, "clipped"), amount.low, amount.high, amount.missing)

    def further(self, name: str) -> str | None:
        """The further column that an attribute of a question is read from; None for those of the schema."""
        if name in self.columns:
            return name
        names = {self._free(column, kind): column for column in self.columns for kind in ("clipped", "ends")}
        return names.get(name)

    def ends(self, word: Word, listed: Sequence[Fraction]) -> ListedAttribute:
        """Where an amount is among listed ends, under a name that nothing else has.

        Raises:
            QuestionError: the word names no amount, or one whose ends are those of a unit's total.
        """
        amount = self.amount(word)
        if amount.total:
            raise word.refused(
                'its ends are those of a unit\'s total (ends = "total"), and a clip is chosen for the amount of each '
                "record: ask of a column with ends of each record"
            )
        return ListedAttribute.of(self._free(amount.name, "ends"), listed, amount.missing)

    def _free(self, column: str, kind: str) -> str:
        name = f"{column}_{kind}"
        while name in self.columns or name in self.schema.names:
            name += "_"
        return name

    def amount(self, word: Word) -> AmountAttribute:
        """The amount that a word names; QuestionError where there is none."""
        found = self.attribute(word.text)
        if isinstance(found, AmountAttribute):
            return found
        amounts = [name for name, column in self.columns.items() if isinstance(column, AmountAttribute)]
        has = f"the amounts are {', '.join(amounts)}" if amounts else "there are no amounts"
        what = "is an attribute and no amount" if found is not None else "is no amount"
        raise word.refused(
            f"it {what}; {has}: declare it in the spec under [questions.NAME] with between and unit, or ask "
            "with --between LOW HIGH --unit UNIT"
        )

    def with_amount(self, name: str, low: Fraction, high: Fraction, unit: Fraction) -> Domain:
        """The domain with an amount between other ends, or one that is not declared; SpecError where it cannot be."""
        before = self.columns.get(name)
        missing, total = (before.missing, before.total) if isinstance(before, AmountAttribute) else (None, False)
        amount = AmountAttribute.of(name, low, high, unit, missing, total=total)
        return replace(self, columns={**self.columns, name: amount})

    def unknown(self, word: Word, what: str, *, levels: bool) -> Exception:
        """The error that a name makes which nothing has."""
        recodes = [recode.name for recode in self.schema.recodes]
        names = [*(self.levels if levels else ()), *self.schema.names, *recodes, *self.columns]
        close = get_close_matches(word.text, names, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        return word.refused(f"{what}; allowed are {', '.join(dict.fromkeys(names))}{hint}")

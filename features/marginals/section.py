"""The section [marginals] of a release spec, and bins of amounts.

`[marginals.amounts]` says of a column what `[schema.attributes]` and `[input.values]` could say by hand: the bins are
the attribute's values, and a number in the file has the bin that it is in. So an amount is counted, measured and
released as any attribute is; what is more, the microdata have a number drawn inside each record's bin (`records.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StrictBool,
    StrictInt,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from geography.errors import InputError
from pipeline.model.number_ranges import RANGE_ALLOWED, NumberRange, number_range
from pipeline.model.schema import NumberColumn
from pipeline.model.texts.message import marked
from pipeline.spec.fields import Budget, Misfit, NamedTable, QueryShare, Section, folder_of
from pipeline.spec.problems import Problems, dotted

#: Of the column of drawn numbers, after the attribute's name.
SUFFIX: Final = "_drawn"
_TITLE: Final = marked("{what}: a whole number drawn at random inside the record's bin; it says nothing beyond the bin")


@dataclass(frozen=True)
class Bins:
    """The bins of one amount.

    Attributes:
        name: of the amount, an attribute.
        ranges: rising, each beginning where the one before it ends.
    """

    name: str
    ranges: tuple[NumberRange, ...]

    @classmethod
    def of(cls, name: str, texts: Sequence[str]) -> Bins:
        """Those that a spec states; InputError for a text that is no bin, a gap, and bins that overlap."""
        ranges = tuple(map(_bin, texts))
        for before, bin_ in pairwise(ranges):
            if bin_.first > before.last + 1:
                raise InputError(
                    f"found {bin_.text!r} after {before.text!r}, a gap: {before.last + 1} would be in no bin; each bin "
                    "begins where the one before it ends"
                )
            if bin_.last < before.first:
                raise InputError(f"found {bin_.text!r} after {before.text!r}; the lower bin comes first")
            if bin_.first <= before.last:
                raise InputError(
                    f"found {bin_.text!r} after {before.text!r}, which overlap: {max(bin_.first, before.first)} would "
                    "be in both; each number is in one bin"
                )
        return cls(name, ranges)

    @property
    def values(self) -> tuple[str, ...]:
        """Of the attribute."""
        return tuple(one.text for one in self.ranges)

    @property
    def column(self) -> NumberColumn:
        """The column of drawn numbers."""
        return NumberColumn(self.name + SUFFIX, _TITLE, self.name)


def _bin(text: str) -> NumberRange:
    found = number_range(text)
    if found is None:
        raise InputError(f"found {text!r}; {RANGE_ALLOWED}: both ends of a bin are public, numbers are drawn inside")
    return found


def with_amounts(
    content: Mapping[str, Any], amounts: Mapping[str, Sequence[str]], problems: Problems
) -> dict[str, Any]:
    """A spec's tables with the attributes that its amounts make, behind the others, and how they are read.

    What `[input.values]` says of an amount itself goes before: of a missing number, or of those beyond the bins.

    Args:
        content: tables that are right by themselves.
        amounts: of its section, which is, too.
        problems: takes what does not go with amounts.
    """
    schema, given = content["schema"], content.get("input")
    attributes: dict[str, Sequence[str]] = dict(schema["attributes"])
    bins = [Bins.of(name, texts) for name, texts in amounts.items()]
    for one in bins:
        key = dotted(["marginals", "amounts", one.name])
        if one.name in attributes:
            problems.add(key, "found in [schema.attributes], too; state it in one of the two")
        if one.column.name in (*attributes, *amounts):
            problems.add(
                key,
                f"its drawn numbers are called {one.column.name!r} in the microdata; give the attribute of that name "
                "another one",
            )
    if bins and isinstance(given, Mapping) and given.get("coded"):
        problems.add("marginals.amounts", "not with coded = true in [input], where columns hold the values' numbers")
    attributes |= {one.name: list(one.values) for one in bins}
    found = {**content, "schema": {**schema, "attributes": attributes}}
    if isinstance(given, Mapping) and not given.get("coded"):
        values = given.get("values", {})
        read = {one.name: {**{text: text for text in one.values}, **values.get(one.name, {})} for one in bins}
        found["input"] = {**given, "values": {**values, **read}}
    return found


#: Names of attributes.
Names = Annotated[tuple[str, ...], Field(min_length=1)]


def _check_bins(amounts: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    for name, texts in amounts.items():
        try:
            Bins.of(name, texts)
        except InputError as error:
            raise Misfit((name, str(error))) from None
    return amounts


#: Attribute -> its bins, as they are stated.
Amounts = Annotated[NamedTable[str, Annotated[tuple[str, ...], Field(min_length=1)]], AfterValidator(_check_bins)]


class ChooseSection(Section):
    """Pairs of attributes that are chosen privately, from the records: a run does it first, and charges it."""

    share: QueryShare = Field(
        description="the part of the whole budget that the choices cost together, by the exponential mechanism"
    )
    attributes_share: QueryShare = Field(
        description="the part of the whole budget for noisy tables of each attribute at the top, to score pairs by"
    )
    further: Annotated[StrictInt, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="pairs that are chosen, so many at most, once each of the others would close a cycle; wider tables "
        "are estimated for them, as with `fill`",
    )
    all_cells: Annotated[StrictInt, Field(ge=1, le=1 << 22)] | None = Field(
        default=None,
        description="of all tables that are estimated, together, where `further` is stated: a pair with which there "
        "would be more is not chosen; default: 65,536",
    )
    weights: NamedTable[str, Annotated[StrictInt, Field(ge=1, le=1000)]] = Field(
        default={},
        description='how much pairs matter to users, such as {"age * sex" = 3}, whole numbers; 1 where none is stated',
    )


class ChosenPairsSection(Section):
    """That the cliques of a published spec were chosen, and where that was charged.

    Attributes:
        budget: the declared one, of which the cliques have what the choice left.
        records: fingerprint of the tables that they were chosen by, which shows equal ones to the holder of the key.
        dataset, ledger, number, hash: the last event of its charge; None where nothing was charged.
    """

    budget: Budget
    records: str
    dataset: str | None = None
    ledger: str | None = None
    number: StrictInt | None = None
    hash: str | None = None


class Undivided(dict[str, Any]):
    """The table [marginals] of a spec whose cliques are not chosen yet, with the tables of the spec that it is in.

    Attributes:
        whole: these tables, as they were stated.
    """

    def __init__(self, table: Mapping[str, Any], whole: Mapping[str, Any]) -> None:
        super().__init__(table)
        self.whole = whole


class MarginalsSection(Section):
    """Which attributes are measured together, where the table of all of them has too many cells."""

    cliques: Annotated[tuple[Names, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="the tables that are measured in every area, as lists of attributes; each has the same part of the "
        "budget, or that of `parts`. Together they form a tree, see `fill`",
    )
    parts: NamedTable[str, Annotated[StrictInt, Field(ge=1, le=1000)]] | None = Field(
        default=None,
        description='of the budget, of each clique, such as {"age * sex" = 3}, whole numbers; 1 where none is stated',
    )
    parts_at: NamedTable[str, NamedTable[str, Annotated[StrictInt, Field(ge=0, le=1000)]]] | None = Field(
        default=None,
        description="level -> the parts there of some cliques, in place of those in `parts`; with 0 a clique is not "
        "measured at that level",
    )
    choose: ChooseSection | None = Field(
        default=None, description="in place of `cliques`: pairs are chosen privately, at a part of the budget"
    )
    fill: StrictBool = Field(
        default=False,
        description="where they form no tree: estimate the wider tables, too, that one needs; default: refused, and "
        "these tables named",
    )
    alike: StrictBool = Field(
        default=True, description="whether the parts of an area are expected to be alike, as far as they are measured"
    )
    amounts: Amounts | None = Field(
        default=None,
        description='attribute -> bins of the whole numbers in its column, such as ["0..0", "1..999", "1000..9999"], '
        "which are its values; in the microdata a number is drawn inside the bin, as ATTRIBUTE_drawn",
    )
    #: Of published specs alone: all attributes in their order, which the universes have in parts.
    attributes: SkipJsonSchema[tuple[str, ...] | None] = None
    #: Of published specs alone, where cliques were chosen; before they are, the declared budget stands in `budget`.
    chosen: SkipJsonSchema[ChosenPairsSection | None] = None
    budget: SkipJsonSchema[Budget | None] = None
    _whole: Mapping[str, Any] | None = PrivateAttr(default=None)
    _folder: Path | None = PrivateAttr(default=None)

    @property
    def undivided(self) -> tuple[Mapping[str, Any], Path | None] | None:
        """The spec's tables as stated, and the folder of its files; None where the cliques are known."""
        return None if self._whole is None else (self._whole, self._folder)

    @model_validator(mode="wrap")
    @classmethod
    def _kept(cls, stated: Any, handler: ModelWrapValidatorHandler[Any], info: ValidationInfo) -> Any:
        section = handler(stated)
        if (section.cliques is None) == (section.choose is None) and section.attributes is None:
            found = "neither" if section.cliques is None else "both"
            raise Misfit(("cliques", f"found {found} of cliques and choose; one of the two is needed"))
        if section.choose is not None:
            for key in ("parts", "parts_at"):
                if getattr(section, key) is not None:
                    raise Misfit((key, "found together with choose; pairs that are chosen have the same part each"))
        if isinstance(stated, Undivided):
            section._whole, section._folder = stated.whole, folder_of(info)
        return section

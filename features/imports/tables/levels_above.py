"""Levels above the areas of a table that no column's name shows: codes beside theirs, names, known codings.

A column is a level only if the rows prove it: each area has one of its values, and each value lies in one of the level
above. The first characters of codes prove nothing by themselves: they make levels where the coding is known by the
column's name, and are offered otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from features.imports.tables.coded import Coded
from features.imports.tables.count_names import is_time, named_count
from features.imports.tables.guess_spine import GuessedSpine, distinct_names
from features.imports.tables.level_names import folded, is_label, labelled, plain, rank, rank_of_label, says_code, words
from features.imports.tables.profile import Column
from features.imports.tables.table_file import TableFile
from geography.codes import counted
from pipeline.errors import InputError

#: Of each area above there are this many areas on average, at least.
_FEWEST_EACH = 1.5
#: Where so many areas lie in one area above, the few others are mistakes.
_NEARLY_ALL = 0.9
_FEWEST_AREAS = 10
#: Numbers behind the first characters: so many times those of the largest group at most, less than this part of all.
_ANEW, _ALL_NUMBERS = 1.2, 0.9
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,24}", re.ASCII)
_PARENT_WORDS = words("parent grandparent above upper higher superior uebergeordnet obergebiet superieur")


@dataclass(frozen=True)
class Coding:
    """A coding of areas whose first characters are those of the areas above.

    Attributes:
        names: what columns of it are called, as `plain` has them.
        levels: level -> length of its part, top first.
        form: of the codes; digits by default.
        not_at: what a code of it must not begin with, since it is made otherwise there.
    """

    names: frozenset[str]
    levels: Mapping[str, int]
    form: str = "[0-9]+"
    not_at: tuple[str, ...] = ()

    def holds(self, column: Column) -> bool:
        """Whether every code of a column is one of this coding."""
        width = list(self.levels.values())[-1]
        return all(
            len(code) == width and re.fullmatch(self.form, code, re.ASCII) and not code.startswith(self.not_at)
            for code in column.values
        )


def _coding(names: str, form: str = "[0-9]+", not_at: tuple[str, ...] = (), **levels: int) -> Coding:
    return Coding(frozenset(names.split()), levels, form, not_at)


#: Codings of statistical offices, as these document them.
CODINGS = (
    _coding("ags kreis landkreis", land=2, kreis=5),
    _coding("gemeinde", land=2, kreis=5, gemeinde=8),
    _coding("gemeinde", land=1, bezirk=3, gemeinde=5),
    _coding("ars", land=2, kreis=5, verband=9, gemeinde=12),
    _coding("municipio", provincia=2, municipio=5),
    _coding("municipio", uf=2, municipio=7),
    _coding("comune procom", provincia=3, comune=6),
    _coding("codgeo insee_com insee code_insee depcom", "[0-9][0-9AB][0-9]{3}", ("97", "98"), departement=2, commune=5),
    _coding("kommune", fylke=2, kommune=4),
    _coding("kommun", lan=2, kommun=4),
    _coding("grunnkrets", fylke=2, kommune=4, grunnkrets=8),
    _coding("deso", "[0-9]{4}[ABC][0-9]{4}", lan=2, kommun=4, deso=9),
    _coding("concelho", distrito=2, concelho=4),
    _coding("freguesia", distrito=2, concelho=4, freguesia=6),
    _coding("powiat", wojewodztwo=2, powiat=4),
    _coding("gmina", wojewodztwo=2, powiat=4, gmina=7),
    _coding("dauid", province=2, division=4, dissemination_area=8),
    _coding("csduid csd", province=2, division=4, subdivision=7),
    _coding("sa1", state=1, sa4=3, sa3=5, sa2=9, sa1=11),
    _coding("sa2", state=1, sa4=3, sa3=5, sa2=9),
    _coding("sa3", state=1, sa4=3, sa3=5),
    _coding("nuts2", "[A-Z]{2}[A-Z0-9]{2}", country=2, nuts1=3, nuts2=4),
    _coding("nuts1", "[A-Z]{2}[A-Z0-9]", country=2, nuts1=3),
)


def levels_above(file: TableFile, columns: Mapping[str, Column], spine: GuessedSpine) -> GuessedSpine:
    """The spine with the levels that further columns hold, or a known coding; what is offered is in its messages.

    Args:
        file: the table, without rows of totals.
        columns: those that may be used.
        spine: the levels by the columns' names.

    Raises:
        InputError: a column is one of codes above for nearly all areas, and a few areas have several.
    """
    if spine.prefixes or spine.joined or spine.leaf not in columns:
        return spine
    spine = _by_columns(file, columns, spine)
    if len(spine.columns) == 1:
        return _by_coding(columns[spine.leaf], spine)
    return spine


def _by_columns(file: TableFile, columns: Mapping[str, Column], spine: GuessedSpine) -> GuessedSpine:
    leaf = spine.leaf
    wanted = [name for name in columns if name not in spine.columns and _may_be_above(columns, spine, name)]
    if not wanted:
        return spine
    table = Coded.of(file, [*spine.columns, *wanted])
    _, rows = np.unique(table.codes[leaf], return_index=True)
    several_rows = len(table.codes[leaf]) >= _FEWEST_EACH * len(rows)
    found: list[str] = []
    for name in wanted:
        if _is_function(table, leaf, name):
            if several_rows or is_label(name) or _same_form(columns[leaf], columns[name]):
                found.append(name)
        elif not is_label(name) and several_rows:
            _check_nearly(file, table, leaf, name)
    areas = {name: table.codes[name][rows] for name in (*spine.columns, *found)}
    order, twins, crossing = _chain(areas, spine.columns, found)
    lines = [f"column {name!r} groups the areas in another way than the levels do: it is none of them"
             for name in crossing]  # fmt: skip
    beside = tuple(name for name in spine.beside if name not in order)
    if len(order) == len(spine.columns):
        return replace(spine, twins={**spine.twins, **twins}, messages=(*spine.messages, *lines))
    names = dict(zip(spine.columns, spine.names, strict=True))
    stems = [names.get(name, name) for name in order]
    lines = [
        f"levels: {' > '.join(order)}: each area has one of each, and each lies in one of the level above",
        *(line for line in spine.messages if not line.startswith("levels: ")),
        *lines,
    ]
    return replace(
        spine, columns=tuple(order), names=distinct_names(stems), messages=tuple(lines), beside=beside,
        twins={**spine.twins, **twins},
    )  # fmt: skip


def _may_be_above(columns: Mapping[str, Column], spine: GuessedSpine, name: str) -> bool:
    """Whether a column's name, or the form of its values, is that of codes or names of areas above."""
    column, leaf = columns[name], columns[spine.leaf]
    if column.n_missing or column.too_many or column.n_distinct < 2 or name in spine.twins:
        return False
    if _FEWEST_EACH * column.n_distinct > leaf.n_distinct or is_time(name) or named_count(name):
        return False
    if (level := labelled(name)) is not None:
        above = rank_of_label(name)
        below = rank(spine.leaf)
        codes = {plain(other) for other in columns if not is_label(other)}
        return level not in codes and above is not None and (below is None or above < below)
    if rank(name) is not None or not all(map(_CODE.fullmatch, column.values)):
        return False
    said = set(re.split(r"[^a-z]+", folded(name)))
    return says_code(name) or bool(said & _PARENT_WORDS) or _same_form(leaf, column)


def _same_form(leaf: Column, column: Column) -> bool:
    """Whether values are letters and digits as the codes of areas are, of the same length: E12000001 and E01000001."""
    forms = [{re.sub("[0-9]", "9", code) for code in one.values} for one in (leaf, column)]
    return len(forms[0]) == 1 and forms[0] == forms[1] and len(next(iter(leaf.values))) > 4 and not leaf.digits


def _is_function(table: Coded, below: str, above: str) -> bool:
    return len(np.unique(table.keys([below, above]))) == len(np.unique(table.codes[below]))


def _check_nearly(file: TableFile, table: Coded, leaf: str, name: str) -> None:
    """InputError where nearly every area has one code of a column, and a few have several."""
    rows = np.unique(table.keys([leaf, name]), return_index=True)[1]
    areas, n_above = np.unique(table.codes[leaf][rows], return_counts=True)
    several = areas[n_above > 1]
    if len(areas) < _FEWEST_AREAS or len(several) > (1 - _NEARLY_ALL) * len(areas):
        return
    code = table.texts[leaf][several[0]]
    of = np.unique(table.codes[name][table.codes[leaf] == several[0]])
    values = " and ".join(repr(table.texts[name][i]) for i in of[:3])
    raise InputError(
        f"{file}: column {name!r} has one code for each {leaf!r} but for {counted(len(several), 'area')}: {code!r} has "
        f"{values}; an area lies in one area above: correct the table, leave the column out (--ignore {name}), or "
        f"count by it (--attribute {name})"
    )


def _chain(
    areas: Mapping[str, NDArray[np.int32]], known: Sequence[str], found: Sequence[str]
) -> tuple[list[str], dict[str, str], list[str]]:
    """The levels from the top down with those found; columns that mean the same as a level; those that cross one."""

    def n(*names: str) -> int:
        return len(np.unique(np.stack([areas[name] for name in names]), axis=1).T)

    sizes = {name: n(name) for name in (*known, *found)}

    order = list(known)
    twins: dict[str, str] = {}
    crossing = []
    for name in found:
        pairs = {level: n(level, name) for level in order}
        same = next((level for level in order if pairs[level] == sizes[level] == sizes[name]), None)
        if same is not None:
            twins[name] = same
        elif all(pairs[level] in (sizes[level], sizes[name]) for level in order):
            place = sum(1 for level in order if sizes[level] < sizes[name])
            order.insert(place, name)
        else:
            crossing.append(name)
    return order, twins, crossing


# The first characters of codes


def _by_coding(leaf: Column, spine: GuessedSpine) -> GuessedSpine:
    """The levels of a known coding; for other codes of one length, what is offered."""
    if leaf.too_many:
        return spine
    coding = next((one for one in CODINGS if plain(leaf.name) in one.names and one.holds(leaf)), None)
    if coding is not None:
        message = (
            f"column {leaf.name!r} holds codes that begin with those of the areas above; levels: "
            f"{' > '.join(coding.levels)}, by the first characters"
        )
        rest = [line for line in spine.messages if not line.startswith("levels: ")]
        return replace(spine, names=tuple(coding.levels), prefixes=dict(coding.levels), messages=(message, *rest))
    lengths = offered_lengths(list(leaf.values))
    if not lengths:
        return spine
    shown = ", ".join(f"the first {length} make {n:,}" for length, n in lengths.items())
    width = len(next(iter(leaf.values)))
    levels = ",".join([*(f"NAME{i}={length}" for i, length in enumerate(lengths, 1)), f"{spine.names[-1]}={width}"])
    message = (
        f"codes of {leaf.name!r} may begin with those of areas above ({shown}); nothing proves it: if they do, "
        f"--geocode {leaf.name} --levels {levels}"
    )
    return replace(spine, messages=(*spine.messages, message))


def offered_lengths(codes: Sequence[str]) -> dict[int, int]:
    """Length -> number of groups, of the first characters that codes of one length may have from areas above.

    These are the lengths behind which numbering begins anew in each group, and does not run through all numbers, as it
    does in codes that only count.
    """
    widths = {len(code) for code in codes}
    if len(codes) < _FEWEST_AREAS or len(widths) != 1:
        return {}
    (width,) = widths
    lengths: dict[int, int] = {}
    for length in range(1, width):
        sizes = Counter(code[:length] for code in codes)
        n_rests = len({code[length:] for code in codes})
        anew = n_rests <= _ANEW * max(sizes.values()) and n_rests < _ALL_NUMBERS * 10 ** (width - length)
        if anew and len(sizes) > max(lengths.values(), default=1) and _FEWEST_EACH * len(sizes) <= len(codes):
            lengths[length] = len(sizes)
    return lengths

"""Names of areas, from the public files that a spec names: every area of a level has one, and no other area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geography.spine import Spine, counted, first_few
from pipeline.errors import InputError, SpineError
from pipeline.inputs.public_file import text_columns
from pipeline.model.area_names import AreaNames, LevelNames
from pipeline.model.memory_table import Source
from pipeline.model.text_format import TextFormat
from pipeline.spec.sections import GeographySection
from pipeline.spec.wording.fields import UNSTATED, unfit
from pipeline.spec.wording.sections import NamesSection


def read_names(geography: GeographySection, spine: Spine) -> AreaNames:
    """The names that the spec states, by level.

    Args:
        geography: of the spec.
        spine: that it gives.

    Raises:
        InputError: a file cannot be read, lacks an area's name, names an area twice, names one that is not on the
            spine, or a name cannot be shown.
    """
    return {level: _of_level(geography, level, section, spine) for level, section in (geography.names or {}).items()}


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a file, one name a language.

    Attributes:
        key: of the spec, for messages.
        codes: of each row; what is not of the level is left out where `own` says so.
        columns: language -> names.
        own: the file is one of names, in which each area stands once and no other stands.
    """

    key: str
    path: Source
    codes: pa.Array
    columns: Mapping[str, pa.Array]
    own: bool

    @property
    def where(self) -> str:
        """What messages begin with."""
        return f"{self.key}: {self.path}"

    def select(self, mask: pa.Array) -> _Rows:
        """Some of the rows."""
        columns = {language: names.filter(mask) for language, names in self.columns.items()}
        return _Rows(self.key, self.path, self.codes.filter(mask), columns, self.own)


def _of_level(geography: GeographySection, level: str, section: NamesSection, spine: Spine) -> LevelNames:
    rows = _rows(geography, level, section)
    geocodes = pa.array(spine.level(level).geocodes.tolist(), pa.string())
    if rows.own:
        _refuse_strange(rows, level, spine)
    places = pc.index_in(rows.codes, value_set=geocodes)
    rows, places = rows.select(places.is_valid()), places.drop_null()
    numbers = places.to_numpy().astype(np.int64)
    times = np.bincount(numbers, minlength=len(geocodes))
    if (missing := np.flatnonzero(times == 0)).size:
        codes = [geocodes[int(number)].as_py() for number in missing]
        raise InputError(
            f"{rows.where}: {counted(len(codes), 'area')} of level {level!r} without a row: {first_few(codes)}; each "
            f"of the {len(geocodes):,} needs a name"
        )
    first = np.full(len(geocodes), len(numbers), dtype=np.int64)
    np.minimum.at(first, numbers, np.arange(len(numbers)))
    if rows.own and (twice := np.flatnonzero(times > 1)).size:
        codes = [geocodes[int(number)].as_py() for number in twice]
        raise InputError(
            f"{rows.where}: {counted(len(codes), 'area')} of level {level!r} named twice: {first_few(codes)}; one row "
            "for each is allowed"
        )
    return LevelNames({language: _named(rows, language, level, numbers, first) for language in rows.columns})


def _named(
    rows: _Rows,
    language: str,
    level: str,
    numbers: np.ndarray[tuple[int], np.dtype[np.int64]],
    first: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> pa.Array:
    """The names `(n,)` of one language: those of each area's first row, with which all its rows must agree."""
    column = pc.utf8_trim_whitespace(rows.columns[language])
    names = column.take(pa.array(first))
    of = f" in language {language!r}" if language != UNSTATED else ""
    differing = pc.not_equal(column, names.take(pa.array(numbers))).to_numpy(zero_copy_only=False)
    if differing.any():
        row = int(np.flatnonzero(differing)[0])
        code, own, other = rows.codes[row].as_py(), column[row].as_py(), names[int(numbers[row])].as_py()
        raise InputError(
            f"{rows.where}: area {code!r} of level {level!r} has two names{of}: {other!r} and {own!r}; one is allowed"
        )
    distinct = pc.unique(names).to_pylist()
    if problem := next((f"{one!r:.80}, which {why}" for one in distinct if (why := unfit(one))), ""):
        wrong = next(one for one in distinct if unfit(one))
        code = rows.codes[int(first[pc.index(names, wrong).as_py()])].as_py()
        raise InputError(f"{rows.where}: area {code!r} of level {level!r}{of}: found the name {problem}")
    return names


def _refuse_strange(rows: _Rows, level: str, spine: Spine) -> None:
    """Refuse codes that no area of the spine has; those of other levels may stand in the same file."""
    known = pa.array(spine.level(level).geocodes.tolist(), pa.string())
    strange = rows.codes.filter(pc.invert(pc.is_in(rows.codes, value_set=known)))
    for other in spine.levels:
        if not len(strange):
            return
        codes = pa.array(other.geocodes.tolist(), pa.string())
        strange = strange.filter(pc.invert(pc.is_in(strange, value_set=codes)))
    if spine.left_out is not None and len(strange):
        found_codes = np.array(strange.to_pylist())
        left_out = [spine.left_out.has(number, found_codes) for number in range(spine.n_levels)]
        strange = strange.filter(pa.array(~np.any(left_out, axis=0)))
    if len(strange):
        found = pc.unique(strange).to_pylist()
        example = known[0].as_py()
        width = len(example)
        lost = width > 1 and all(len(code) == width - 1 for code in found[:3])
        raise InputError(
            f"{rows.where}: {counted(len(found), 'code')} that no area of the spine has: {first_few(found)}; those of "
            f"level {level!r} are like {example!r}{' (was a leading zero lost?)' if lost else ''}"
        )


def _rows(geography: GeographySection, level: str, section: NamesSection) -> _Rows:
    """The rows with names of a level, from a file of their own or from the list of leaves."""
    key, wanted = f"geography.names.{level}", list(section.name.values())
    if section.file is not None:
        path: Source = section.file
        codes, *columns = _texts(key, path, [str(section.code), *wanted], geography.text_format)
        return _Rows(key, path, codes, dict(zip(section.name, columns, strict=True)), own=True)
    path, text = geography.file, geography.text_format
    if geography.form in ("prefixes", "pairs"):
        codes, *columns = _texts(key, path, [str(geography.column), *wanted], text)
        if geography.form == "prefixes":
            codes = pc.utf8_slice_codeunits(codes, 0, geography.prefix_lengths[level])
    else:
        above = geography.level_names[: geography.level_names.index(level) + 1]
        found = _texts(key, path, [*above, *wanted], text)
        own, columns = found[: len(above)], found[len(above) :]
        codes = own[0]
        for below in own[1:]:  # an empty code stands for the area above, which is padded
            codes = pc.if_else(pc.equal(below, ""), codes, below)
    return _Rows(key, path, codes, dict(zip(section.name, columns, strict=True)), own=False)


def _texts(key: str, path: Source, names: Sequence[str], text: TextFormat) -> list[pa.Array]:
    """The columns as text; InputError where they cannot be read."""
    try:
        return text_columns(path, names, "the file of names", text)
    except (InputError, SpineError) as error:
        raise InputError(f"{key}: {error}") from None

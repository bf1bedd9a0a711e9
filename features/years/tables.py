"""Tables of a history: of each period, and of changes between two periods, with 90 % intervals and what can be said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa

from features.years.numbers import VERDICTS, Numbers
from features.years.revised import Revision, revised, series_at
from geography.errors import InputError
from pipeline.model.query import Query
from pipeline.model.universe import Table
from pipeline.release.layout import file_name
from pipeline.release.software import software
from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX
from pipeline.storage.files import canonical_json, sha256_file, write_bytes, write_parquet
from pipeline.storage.temporary import temporary_folder
from postprocess.arrays import FloatArray

__all__ = ["DIRECTION_SUFFIX", "change_table", "changes", "periods_of", "write_revision"]

#: Of the column that says whether a number fell, rose, or cannot be told to have.
DIRECTION_SUFFIX = ":direction"
#: Columns that say of which periods numbers are.
_PERIODS: Final = ("period", "from", "to")


def periods_of(text: str) -> tuple[str, str]:
    """The two periods of "2031..2033"; InputError where these are not two."""
    first, between, last = text.partition("..")
    if not between or not first or not last or ".." in last:
        raise InputError(f"--change: found {text!r}; two periods are needed, such as 2031..2033")
    return first, last


def changes(
    release: Path, query: str, conditions: Mapping[str, Sequence[str]], level: str, between: str
) -> pd.DataFrame:
    """How much the answers of a query have changed, of all geounits of a level: for `spinewise query --change`.

    Args:
        release: a release of the series; the others are beside it.
        query: as `spinewise query` takes it.
        conditions: term -> the values of it that are counted.
        level: of the geounits.
        between: two periods, "2031..2033".

    Raises:
        InputError: a name is unknown, or there is no release of a period.
    """
    first, last = periods_of(between)
    if first == last:
        raise InputError(f"--change: found period {first} twice; two different periods are needed")
    revision = revised(series_at(release))
    if level not in revision.spine.level_names:
        raise InputError(f"--at: found {level!r}; the levels are {', '.join(revision.spine.level_names)}")
    kept = np.ones(revision.universe.schema.n_cells)
    for term, values in conditions.items():
        condition = Query.parse(term, revision.universe.schema, where="--where")
        labels = condition.answer_labels()
        if unknown := [value for value in values if value not in labels]:
            raise InputError(f"--where {term}: found {unknown[0]!r}; allowed are {', '.join(labels)}")
        kept *= np.isin(condition.cell_answer, [labels.index(value) for value in values])
    asked = Query.parse(query, revision.universe.schema, where="query")
    return change_table(revision, asked, level, (revision.number(first), revision.number(last)), kept)


def change_table(
    revision: Revision, query: Query, level: str, periods: tuple[int, int], kept: FloatArray | None = None
) -> pd.DataFrame:
    """One row a geounit: of each answer the change, the ends of its interval, and its direction.

    Args:
        revision: a history.
        query: whose answers.
        level: of the geounits.
        periods: from the first to the second, from 0.
        kept: `(c,)` 1 for the cells that are counted, else 0; default: all.
    """
    columns: dict[str, object] = {}
    for label, cells in _answers(query, kept):
        numbers = revision.change(level, cells, periods)
        columns |= _columns(label, numbers)
        columns[label + DIRECTION_SUFFIX] = [VERDICTS[one + 1] for one in numbers.directions.tolist()]
    return pd.DataFrame(columns, index=_index(revision, level))


def _period_table(revision: Revision, query: Query, level: str, period: int) -> pd.DataFrame:
    columns: dict[str, object] = {}
    for label, cells in _answers(query, None):
        columns |= _columns(label, revision.in_period(level, cells, period))
    return pd.DataFrame(columns, index=_index(revision, level))


def _answers(query: Query, kept: FloatArray | None) -> Iterator[tuple[str, FloatArray]]:
    """Label and cells `(c,)` of each answer of which some cell is kept."""
    for number, label in enumerate(query.answer_labels()):
        cells = (query.cell_answer == number).astype(np.float64)
        if kept is None:
            yield label, cells
        elif (cells * kept).any():
            yield label, cells * kept


def _columns(label: str, numbers: Numbers) -> dict[str, object]:
    return {label: numbers.values, label + LOW_SUFFIX: numbers.low, label + HIGH_SUFFIX: numbers.high}


def _index(revision: Revision, level: str) -> pd.Index[str]:
    return pd.Index(revision.spine.level(level).geocodes.astype(object), name="geocode")


def write_revision(revision: Revision, out: Path) -> Path:
    """Write a history to a new folder; returns it. The same releases give the same bytes.

    Raises:
        InputError: `out` is a file, or has the folder: a revision is never replaced; or a value is called as a column.
        ReleaseError: a file cannot be written.
    """
    last = revision.releases[-1]
    base = last.spec.name.removesuffix(f"-{last.section.period}")
    folder = out / f"{base}-revised-{last.section.period}"
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: is not a folder")
    if folder.exists():
        raise InputError(f"{folder}: exists; a revision is never replaced: name another --out, or remove it")
    for table in revision.universe.tables:
        _check_labels(table)
    out.mkdir(parents=True, exist_ok=True)
    with temporary_folder("revise", out) as staging:
        made = staging / "made"
        made.mkdir()
        for table in revision.universe.tables:
            for level in table.levels:
                _write_table(revision, table.name, table.query, level, made, staging)
        write_bytes(made / "revision.json", canonical_json(_stated(revision, made)), staging)
        made.rename(folder)
    return folder


def _check_labels(table: Table) -> None:
    """InputError where an answer's column would be one that says of which period the numbers are, or how they moved."""
    labels = table.query.answer_labels()
    if taken := [one for one in labels if one in _PERIODS or one.endswith(DIRECTION_SUFFIX)]:
        raise InputError(
            f"tables.{table.name}: {taken[0]!r} cannot be the label of an answer in a revision: labels become columns, "
            f"beside {', '.join(map(repr, _PERIODS))}, and do not end in {DIRECTION_SUFFIX!r}; `spinewise query "
            "--change` shows its changes"
        )


def _write_table(revision: Revision, name: str, query: Query, level: str, made: Path, staging: Path) -> None:
    """The numbers of all periods, and the changes from each to the next and from the first to the last."""
    numbers = [
        _period_table(revision, query, level, at).reset_index().assign(period=period)
        for at, period in enumerate(revision.periods)
    ]
    _write(pd.concat(numbers), ("geocode", "period"), made / "tables" / file_name("table", name), level, staging)
    n = len(revision.periods)
    pairs = [*pairwise(range(n)), *([(0, n - 1)] if n > 2 else [])]
    found = [
        change_table(revision, query, level, pair)
        .reset_index()
        .assign(**{"from": revision.periods[pair[0]], "to": revision.periods[pair[1]]})
        for pair in pairs
    ]
    if found:
        place = made / "changes" / file_name("table", name)
        _write(pd.concat(found), ("geocode", "from", "to"), place, level, staging)


def _write(frame: pd.DataFrame, first: tuple[str, ...], folder: Path, level: str, staging: Path) -> None:
    ordered = frame[[*first, *(name for name in frame.columns if name not in first)]]
    table = pa.Table.from_pandas(ordered, preserve_index=False).replace_schema_metadata(None)
    folder.mkdir(parents=True, exist_ok=True)
    header = {"kind": folder.parent.name, "table": folder.name, "level": level}
    write_parquet(folder / f"{file_name('level', level)}.parquet", table, staging, header)


def _stated(revision: Revision, made: Path) -> dict[str, object]:
    """What the history is made of."""
    section = revision.releases[-1].section
    models = {
        level.name: {"linear": change.linear, "quadratic": change.quadratic, "correlation": change.correlation}
        for level, change in zip(revision.spine.levels, revision.changes, strict=True)
        if change is not None
    }
    files = sorted(path for path in made.rglob("*.parquet"))
    return {
        "series": section.name,
        "periods": {str(one.section.period): one.hash for one in revision.releases},
        "horizon": [section.first, section.last],
        "model_of_change": models,
        "software": software().version,
        "words": (
            "Least squares over areas and periods together, from the noisy measurements of these releases alone: "
            "post-processing, which costs no budget. Numbers are whole, not negative, and add up in every period; "
            "intervals hold the truth in 90 % of cases."
        ),
        "files": {path.relative_to(made).as_posix(): sha256_file(path) for path in files},
    }

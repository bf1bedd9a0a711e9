"""The files of a revision, its page, and how it differs from the one before.

The page is one of the revision and not of a release, whose report has to follow from its own files alone. Areas and the
search are those of the report (`pipeline.pages`): figures.js reads a column for each answer and period, its number and
interval, and one for each pair of periods, whose number is 0 and whose interval is about the change.

Each release that is added to a series changes the numbers of earlier periods a little, since these are estimated
together. A revision of the releases up to 2033 therefore says how it differs from that of the releases up to 2032, if
it is written beside it: of each table the numbers that are others, and in `revision.json` how many these are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from features.years.chain import name_at
from features.years.history import answers_of, pairs_of
from features.years.revision import DIRECTION_SUFFIX, Revision, history_table
from geography.errors import InputError
from pipeline.errors import ChangedFileError, ReleaseError
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import texts_in
from pipeline.model.universe import Table
from pipeline.pages.data import Chunks, areas_of_level, rows_of_table
from pipeline.pages.templates import Words, asset, render, script_json
from pipeline.published import PublishedRelease, open_finished
from pipeline.release.layout import file_name
from pipeline.release.software import software
from pipeline.storage.files import (
    canonical_json,
    open_parquet,
    read_row_groups,
    sha256_file,
    temporary_folder,
    write_bytes,
    write_parquet,
)
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray, IntArray

#: Name of the page in the folder of a revision.
PAGE: Final = "report.html"
#: Its scripts in their order: those that pages share, and its own.
_SCRIPTS: Final = ("texts.js", "decode.js", "figures.js", "search.js", "history.js")


def write_page(revision: Revision, folder: Path, staging: Path) -> None:
    """Write the page to a folder, and beside it what of its data is too large for it."""
    release = open_finished(revision.releases[-1].run.root, check_hashes=False)
    texts = texts_in(release.spec.report.language)

    def write(number: int, text: str) -> None:
        (folder / "report").mkdir(exist_ok=True)
        write_bytes(folder / "report" / f"{number}.js", text.encode(), staging)

    chunks = Chunks(write)
    content = _content(revision, release, chunks)
    about = release.spec.about
    section = revision.releases[-1].section
    page = render(
        "features.years",
        "history.html.j2",
        _SCRIPTS,
        texts,
        own_style=asset("history.css", "features.years"),
        loads=chunks.beside > 0,
        title=about.title or section.name,
        status=release.manifest.status,
        series=section.name,
        first=revision.periods[0],
        last=revision.periods[-1],
        horizon=section.last,
        publisher=about.publisher,
        modelled=any(one is not None for one in revision.changes),
        named=bool(release.names),
        content=script_json(content),
        chunks=chunks.in_page,
    )
    write_bytes(folder / PAGE, page.encode(), staging)


def _content(revision: Revision, release: PublishedRelease, chunks: Chunks) -> dict[str, object]:
    """What the scripts read: levels, tables, periods, and which chunk holds what."""
    words = Words(release.spec.labels(""))
    language = release.spec.report.language or ""
    tables = [
        {
            "title": words.table(table.name),
            "shown": words.answers(table.query),
            "labels": [""] * (table.query.size * (len(revision.periods) + len(pairs_of(len(revision.periods))))),
            "levels": {},
        }
        for table in revision.universe.tables
    ]
    levels = []
    for number, level in enumerate(revision.spine.levels):
        names = release.names[level.name].in_language(language) if level.name in release.names else None
        levels.append(areas_of_level(chunks, revision.spine, number, words.level(level.name), names))
        for entry, table in zip(tables, revision.universe.tables, strict=True):
            if level.name in table.levels:
                rows = _rows(revision, table.query, level.name)
                of_level = rows_of_table(chunks, [rows], len(level), rows.shape[1] // 3) | {"ends": True}
                entry["levels"] |= {level.name: of_level}  # type: ignore[operator]
    pairs = pairs_of(len(revision.periods))
    return {
        "levels": levels,
        "tables": tables,
        "periods": list(revision.periods),
        "pairs": [list(pair) for pair in pairs],
    }


def _rows(revision: Revision, query: Query, level: str) -> IntArray:
    """`(n, 3 columns)`: numbers, how far intervals reach below them + 2, and above; 0 for a change's own number."""
    columns = [column for _, cells in answers_of(query) for column in _columns(revision, level, cells)]
    return np.stack([part for parts in zip(*columns, strict=True) for part in parts], axis=1)


def _columns(revision: Revision, level: str, cells: FloatArray) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Of one answer: the periods, then the changes of `pairs_of`."""
    periods = range(len(revision.periods))
    for period, since in (
        *((one, None) for one in periods),
        *((last, first) for first, last in pairs_of(len(periods))),
    ):
        numbers = revision.numbers(level, cells, period, since)
        shown = numbers.values if since is None else np.zeros_like(numbers.values)
        yield shown, numbers.values - numbers.low + 2, numbers.high - numbers.values


#: Of the columns that have the number of the version before, and how much it is changed.
BEFORE_SUFFIX: Final = ":before"
REVISED_SUFFIX: Final = ":revised"
_STATED: Final = "revision.json"
_KEY: Final = ("geocode", "period")
#: Columns that say of which periods numbers are, and ends of columns that are no answers.
_PERIODS: Final = ("period", "from", "to")
_SUFFIXES: Final = (DIRECTION_SUFFIX, BEFORE_SUFFIX, REVISED_SUFFIX)


@dataclass(frozen=True, eq=False)
class Vintage:
    """A revision that was written before.

    Attributes:
        folder: with its files.
        stated: what its `revision.json` says.
        hash: of that file, SHA-256 in hexadecimal.
    """

    folder: Path
    stated: dict[str, Any]
    hash: str

    def numbers(self, path: str) -> pd.DataFrame | None:
        """A table of its numbers by geocode and period; None where it has none. ReleaseError where it is damaged."""
        if (listed := self.stated["files"].get(path)) is None:
            return None
        file = self.folder / path
        if not file.is_file() or sha256_file(file) != listed["sha256"]:
            raise ChangedFileError(
                f"{file}: not the file that {_STATED} beside it lists; bring it back, or name another --out"
            )
        with open_parquet(Readable(file)) as opened:
            return pa.concat_tables(read_row_groups(opened, file)).to_pandas().set_index(list(_KEY))


@dataclass(frozen=True, eq=False)
class _Written:
    """What is written of a revision so far.

    Attributes:
        made: the folder that it is made in.
        staging: a folder beside it for files that are not whole.
        before: the version before; None for the first.
        rows: of each file.
        revised: of each table of what is revised: numbers that are compared, and those that are others, by period.
    """

    made: Path
    staging: Path
    before: Vintage | None
    rows: dict[str, int] = field(default_factory=dict)
    revised: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)

    def write(self, kind: str, table: str, level: str, frame: pd.DataFrame) -> None:
        path = self.made / _path(kind, table, level)
        header = {"kind": kind, "table": path.parent.name, "level": level}
        path.parent.mkdir(parents=True, exist_ok=True)
        content = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        write_parquet(path, content, self.staging, header)
        self.rows[_path(kind, table, level)] = len(frame)


def _path(kind: str, table: str, level: str) -> str:
    return f"{kind}/{file_name('table', table)}/{file_name('level', level)}.parquet"


def vintage_before(revision: Revision, out: Path) -> Vintage | None:
    """The latest version of the same history with fewer periods in a folder; None where there is none.

    Raises:
        InputError: it is not of the first of these releases.
        ReleaseError: it is damaged.
    """
    for period in reversed(revision.periods[:-1]):
        folder = out / _named(revision, period)
        if not folder.exists():
            continue
        try:
            content = (folder / _STATED).read_bytes()
            stated = json.loads(content)
            known = list(stated["periods"].items())
            listed = {path: (one["sha256"], one["rows"]) for path, one in stated["files"].items()}
            series, vintage = stated["series"], int(stated["vintage"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ReleaseError(f"{folder / _STATED}: missing or damaged; it is what a revision consists of") from error
        own = [(str(one.section.period), one.hash) for one in revision.releases]
        if series != revision.releases[-1].section.name or known != own[: len(known)] or not listed or vintage < 1:
            raise InputError(
                f"{folder}: a revision of other releases than the first {len(known)} of these: nothing to compare; "
                "name another --out"
            )
        return Vintage(folder, stated, sha256_file(folder / _STATED))
    return None


def _named(revision: Revision, period: str) -> str:
    return name_at(f"{revision.releases[-1].base}-revised", period)


def write_revision(revision: Revision, out: Path) -> Path:
    """Write a history to a new folder; returns it. The same releases, after the same version, give the same bytes.

    Raises:
        InputError: `out` is a file, or has the folder: a revision is never replaced; a value is called as a column;
            or errors as `vintage_before`.
        ReleaseError: a file cannot be written; or the version before is damaged.
    """
    folder = out / _named(revision, revision.periods[-1])
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: is not a folder")
    if folder.exists():
        raise InputError(f"{folder}: exists; a revision is never replaced: name another --out, or remove it")
    for table in revision.universe.tables:
        _check_labels(table)
    before = vintage_before(revision, out)
    out.mkdir(parents=True, exist_ok=True)
    with temporary_folder("revise", out) as staging:
        written = _Written(staging / "made", staging, before)
        written.made.mkdir()
        for table in revision.universe.tables:
            for level in table.levels:
                _write_table(revision, table, level, written)
        write_page(revision, written.made, staging)
        write_bytes(written.made / _STATED, canonical_json(_stated(revision, written)), staging)
        written.made.rename(folder)
    return folder


def _check_labels(table: Table) -> None:
    """InputError where an answer's column would be one that says of which period the numbers are, or how they moved."""
    labels = table.query.answer_labels()
    if taken := [one for one in labels if one in _PERIODS or one.endswith(_SUFFIXES)]:
        raise InputError(
            f"tables.{table.name}: {taken[0]!r} cannot be the label of an answer in a revision: labels become columns, "
            f"beside {', '.join(map(repr, _PERIODS))}, and do not end in {', '.join(map(repr, _SUFFIXES))}; `spinewise "
            "query --change` shows its changes"
        )


def _write_table(revision: Revision, table: Table, level: str, written: _Written) -> None:
    """The numbers of all periods, what is revised of them, and changes from each period to the next and over all."""
    frames = [
        history_table(revision, table.query, level, at).reset_index().assign(period=period)
        for at, period in enumerate(revision.periods)
    ]
    numbers = _ordered(pd.concat(frames), _KEY)
    written.write("tables", table.name, level, numbers)
    _write_revised(numbers, table, level, written)
    found = [
        history_table(revision, table.query, level, last, first)
        .reset_index()
        .assign(**{"from": revision.periods[first], "to": revision.periods[last]})
        for first, last in pairs_of(len(revision.periods))
    ]
    if found:
        written.write("changes", table.name, level, _ordered(pd.concat(found), ("geocode", "from", "to")))


def _write_revised(numbers: pd.DataFrame, table: Table, level: str, written: _Written) -> None:
    """The rows of a table with a number that is another one than in the version before, and how many these are."""
    path = _path("tables", table.name, level)
    before = None if written.before is None else written.before.numbers(path)
    labels = table.query.answer_labels()
    if before is None or not set(labels) <= set(before.columns):
        return
    both = numbers.set_index(list(_KEY)).join(before[list(labels)].add_suffix(BEFORE_SUFFIX), how="inner")
    columns: dict[str, Any] = {}
    for label in labels:
        columns[label], columns[label + BEFORE_SUFFIX] = both[label], both[label + BEFORE_SUFFIX]
        columns[label + REVISED_SUFFIX] = both[label] - both[label + BEFORE_SUFFIX]
    frame = pd.DataFrame(columns)
    revised = frame[[label + REVISED_SUFFIX for label in labels]].to_numpy()
    other = revised != 0
    written.write("revised", table.name, level, frame[other.any(axis=1)].reset_index())
    of_row = frame.index.get_level_values("period")
    written.revised[_path("revised", table.name, level)] = {
        period: {
            "numbers": int(some.sum()) * len(labels),
            "revised": int(other[some].sum()),
            "largest": int(np.abs(revised[some]).max()),
        }
        for period in dict.fromkeys(of_row)
        if (some := np.asarray(of_row == period)).any()
    }


def _ordered(frame: pd.DataFrame, first: tuple[str, ...]) -> pd.DataFrame:
    return frame[[*first, *(name for name in frame.columns if name not in first)]]


def _stated(revision: Revision, written: _Written) -> dict[str, object]:
    """What the history is made of, and how it differs from the version before."""
    section, before = revision.releases[-1].section, written.before
    models = {
        level.name: {"linear": change.linear, "quadratic": change.quadratic, "correlation": change.correlation}
        for level, change in zip(revision.spine.levels, revision.changes, strict=True)
        if change is not None
    }
    return {
        "series": section.name,
        "vintage": 1 if before is None else before.stated["vintage"] + 1,
        "predecessor": None if before is None else {"folder": before.folder.name, "sha256": before.hash},
        "revised": written.revised,
        "periods": {str(one.section.period): one.hash for one in revision.releases},
        "horizon": [section.first, section.last],
        "model_of_change": models,
        "software": software().version,
        "words": (
            "Least squares over areas and periods together, from the noisy measurements of these releases alone: "
            "post-processing, which costs no budget. Numbers are whole, not negative, and add up in every period; "
            "intervals hold the truth in 90 % of cases."
        ),
        "files": {
            path: {"rows": rows, "sha256": sha256_file(written.made / path)}
            for path, rows in sorted(written.rows.items())
        },
        "page": {
            path: sha256_file(written.made / path)
            for path in sorted(
                one.relative_to(written.made).as_posix() for one in written.made.rglob("*") if one.is_file()
            )
            if path not in written.rows
        },
    }

"""The files of an export to SDMX: structure.xml, and a CSV of observations for each table.

SDMX-CSV has a line for each observation with its whole key and the data structure's name. Nearly all of it is the same
as in the line before, so that compressed it is a fortieth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from jinja2 import Environment, PackageLoader, StrictUndefined

from features.exports.facts import facts
from features.exports.rows import Rows
from features.exports.sdmx.structure import (
    AREA,
    AREA_NAME,
    EXPERIMENTAL,
    INTERVAL,
    LEVEL,
    NO_NUMBERS,
    STATUS,
    STATUS_OF,
    TIME,
    USE,
    VALUE,
    Flow,
    Structure,
    identifier,
)
from pipeline.errors import InputError
from pipeline.metadata.contents import DataFile
from pipeline.model.about import About
from pipeline.model.area_names import as_cell
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.published import PublishedRelease
from pipeline.release.reliability import CLASSES, classes_in
from pipeline.release.tables import ReleasedTable, read_table_parts
from pipeline.storage.plain_tables import write_csv

#: Observations written at a time.
_AT_ONCE = 1 << 20
_KEYS = np.array([one.key for one in CLASSES])
#: The agency where no publisher is stated, and the time of a message where no date is.
_NOBODY, _NO_DATE = "UNSTATED", "1970-01-01"


def write_sdmx(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write structure.xml and `TABLE.csv.gz` for each table, without average household sizes, which count nothing.

    Raises:
        InputError: no table is left.
        ReleaseError: a file is damaged.
    """
    counted = [file for file in files if file.kind in ("table", "counts")]
    if not counted:
        raise InputError("--format sdmx: no table was chosen; average household sizes are no counts")
    rows, labels, about = Rows(release), release.spec.labels(), release.spec.about
    levels = [(level, labels.level(level)) for level in release.spine.level_names]
    named = [level for level, _ in levels if rows.names(level) is not None]
    texts = texts_in(release.spec.report.language)
    experimental = release.manifest.status in NO_NUMBERS
    structure = Structure(counted, levels, named, texts, time=_time(about, texts), experimental=experimental)
    agency = identifier(about.publisher) if about.publisher else _NOBODY
    environment = Environment(
        loader=PackageLoader("features.exports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("structure.xml.j2").render(
        structure=structure,
        agency=agency,
        message=identifier(release.spec.name),
        test="false" if release.manifest.status == "official" else "true",
        prepared=f"{about.reference_date or _NO_DATE}T00:00:00Z",
        publisher=about.publisher,
        facts=facts(release),
        title=about.title or release.spec.name,
        language=release.spec.report.language or "en",
    )
    (folder / "structure.xml").write_text(text, encoding="utf-8")
    for flow in structure.flows:
        target = f"{agency}:DF_{flow.id}(1.0.0)"
        observations = _observations(flow, structure, rows, about.time)
        write_csv(folder / f"{flow.id}.csv.gz", (_with_target(part, target) for part in observations))


def _time(about: About, texts: Texts) -> str:
    """What the time of the counts is called; "" where none is known."""
    return texts("Period") if about.period else texts("Reference date") if about.time else ""


def _with_target(part: pa.Table, flow: str) -> pa.Table:
    """The rows with the three columns that say what they are of; "I" is information, to be added or replaced."""
    target = {"STRUCTURE": "dataflow", "STRUCTURE_ID": flow, "ACTION": "I"}
    fixed = {name: pa.array([text] * part.num_rows, pa.string()) for name, text in target.items()}
    return pa.table(fixed | dict(zip(part.column_names, part.columns, strict=True)))


def _observations(flow: Flow, structure: Structure, rows: Rows, time: str) -> Iterator[pa.Table]:
    """One row for each number of the table at all levels, some at a time."""
    answers = _answer_codes(flow)
    for file in flow.files:
        names, first = rows.names(file.level), 0
        for whole in read_table_parts(rows.source(file)):
            step = max(1, _AT_ONCE // len(whole.labels))
            for start in range(0, len(whole.geocodes), step):
                part = whole.rows(slice(start, start + step))
                own = None if names is None else names[first : first + len(part.geocodes)]
                first += len(part.geocodes)
                columns = _columns(part, answers, structure.level_codes[file.level], time)
                columns |= _attributes(flow, part)
                if flow.named:
                    cells = [""] * len(part.geocodes) if own is None else [as_cell(name) for name in own]
                    columns[AREA_NAME] = _each(cells, len(part.labels))
                yield pa.table(columns)


def _answer_codes(flow: Flow) -> dict[str, list[str]]:
    """Dimension -> its code in each answer, the last dimension fastest."""
    codes = [[code for code, _ in term.codes.codes] for term in flow.terms if term.codes is not None]
    grids = np.meshgrid(*(np.arange(len(own)) for own in codes), indexing="ij") if codes else []
    return {
        term.id: [own[number] for number in grid.ravel().tolist()]
        for term, own, grid in zip(flow.terms, codes, grids, strict=True)
    }


def _columns(part: ReleasedTable, answers: dict[str, list[str]], level: str, time: str) -> dict[str, pa.Array]:
    """Dimensions and the count of every number: area by area, answer by answer."""
    areas, size = part.counts.shape
    columns = {name: pa.array(codes * areas, pa.string()) for name, codes in answers.items()}
    columns[LEVEL] = pa.array([level] * (areas * size), pa.string())
    columns[AREA] = _each(part.geocodes.tolist(), size)
    if time:
        columns[TIME] = pa.array([time] * (areas * size), pa.string())
    columns[VALUE] = pa.array(part.counts.ravel())
    return columns


def _attributes(flow: Flow, part: ReleasedTable) -> dict[str, pa.Array]:
    """Status and class of every number, and the ends of its interval."""
    found: dict[str, pa.Array] = {}
    coded = {one.id for one in flow.coded}
    if USE in coded:
        unknown = np.full(part.counts.shape, np.nan)
        keys = _KEYS[classes_in(part.counts, unknown if part.margins is None else part.margins)].ravel().tolist()
        found[STATUS] = pa.array([STATUS_OF[key] for key in keys], pa.string())
        found[USE] = pa.array(keys, pa.string())
    if flow.experimental:
        found[STATUS] = pa.array([EXPERIMENTAL] * part.counts.size, pa.string())
    if flow.with_margins:
        for name, values in zip(INTERVAL.values(), (part.margins, part.lows, part.highs), strict=True):
            flat = np.full(part.counts.size, np.nan) if values is None else values.ravel()
            found[name] = pa.array(flat, mask=np.isnan(flat))
    return found


def _each(texts: Sequence[str], times: int) -> pa.Array:
    """Every text so many times, one after the other."""
    return pa.array(np.repeat(np.array(texts, dtype=object), times), pa.string())

"""A table of flows -> a folder with its areas, the flows between them, and a spec that runs.

A flow is a person, or a job, with two areas: where it begins (home) and where it ends (work). The spine is made of the
origins; the destination is an attribute, with the levels above it as recodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.imports.folder import Imported, import_folder, unused
from features.imports.toml_text import assigned, commented, filled, key, listed, quoted, shares, table_inline
from geography.build import spine_from_prefixes, spine_from_table
from geography.spine import Spine, counted, text_column
from pipeline.errors import InputError, SpineError
from pipeline.inputs.public_file import text_columns
from pipeline.records.columns import MISSING, OUTSIDE, CountReader, LeafReader, text_array
from pipeline.records.problems import MistakeLog
from pipeline.records.record_files import RecordsFile, open_records
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.files import check_new
from postprocess.arrays import IntArray

_CHUNK_ROWS = 1_000_000
_LIST = "the list of areas"
#: Parts of the budget: of the levels of origins, the lowest counts most; of the queries, the flows themselves.
_LEAF_SHARE, _DETAIL_SHARE = Fraction(1, 2), Fraction(1, 2)
#: Columns up to which the table of all flows is published.
_MOST_PUBLISHED = 300


@dataclass(frozen=True)
class FlowsRequest:
    """What the user asks of an import of flows.

    Attributes:
        file: CSV or Parquet; a row is a flow, or an origin and a destination with their count.
        origin, destination, count: its columns; a row is one flow where `count` is None.
        levels: of the areas, top first: name -> length of its codes, or columns of `areas`.
        areas: the public list of all areas; None: those of the flows.
        geocode: the list's column with the codes that the flows have; None: that of the lowest level.
        attribute: what the destination is called in the spec.
        destinations: the level of the destinations; None: the lowest.
        elsewhere: the destination of flows to areas that the list lacks; None: they are refused.
        flows: the number of flows that the import must count.
        counted: the noun of what is counted.
        name: the release's name; None: the file's.
    """

    file: Path
    origin: str
    destination: str
    count: str | None
    levels: Mapping[str, int] | tuple[str, ...]
    areas: Path | None = None
    geocode: str | None = None
    attribute: str = "destination"
    destinations: str | None = None
    elsewhere: str | None = None
    flows: int | None = None
    counted: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.levels, Mapping) and self.areas is None:
            raise InputError(
                "--levels: without lengths they are columns of a list of areas, and there is no --areas; give it, or "
                "lengths, such as county=5,tract=11"
            )
        if len(self.levels) < 1:
            raise InputError("--levels: at least one level is needed, such as county=5,tract=11")
        if self.destinations is not None and self.destinations not in self.levels:
            raise InputError(
                f"--destinations: {self.destinations!r} is not a level; the levels are {', '.join(self.levels)}"
            )
        if self.areas is None and self.elsewhere is not None:
            raise InputError("--elsewhere: without --areas every area of the flows is on the list; leave one out")

    @property
    def level(self) -> str:
        """The level of the destinations."""
        return self.destinations or list(self.levels)[-1]


#: Areas of origin and destination, and the flows between them, `(n,)` each, sorted.
Flows = tuple[IntArray, IntArray, IntArray]


def import_flows(request: FlowsRequest, out: Path) -> Imported:
    """Add up the flows by area, and write `out`: areas.parquet, flows.parquet and release.toml.

    Raises:
        InputError: a file cannot be read, areas are no tree, a flow begins or ends in none of them, or the number of
            flows is not the one stated; nothing is written then.
    """
    check_new(out)
    columns = [request.origin, request.destination, *([request.count] if request.count is not None else [])]
    file = open_records(request.file, columns, _CHUNK_ROWS, label="the file of flows")
    try:
        codes = _from_one_area(_code_spine(request, file))
    except SpineError as error:
        raise SpineError(f"{request.areas or request.file}: {error}") from None
    spine = codes.down_to(list(request.levels)[-1])
    level = spine.index_of(request.level)
    origins, destinations, counts = _read_flows(request, file, codes, spine, level)
    n_flows = int(counts.sum())
    if request.flows not in (None, n_flows):
        raise InputError(f"{request.file}: --flows states {request.flows:,}; the file has {n_flows:,}")
    values = spine.levels[level].geocodes.tolist()
    if request.elsewhere is not None:
        if request.elsewhere in values:
            raise InputError(f"--elsewhere: {request.elsewhere!r} is the code of an area; give another name")
        values.append(request.elsewhere)
    recodes = _recodes(request, spine, level)
    noun = request.counted or "flows"
    inside = int(counts[spine.leaf_ancestors(level)[origins] == destinations].sum())
    found = (
        f"{n_flows:,} {noun} are counted, {inside:,} of them within one {request.level}; "
        f"{counted(counts.size, 'pair')} of areas have some"
    )
    made = (
        f"origins: {counted(spine.n_leaves, 'area')} of level {list(request.levels)[-1]}; destinations: "
        f"{counted(len(values), 'value')} of the attribute {request.attribute!r}",
        *(f"{name}: a recode with {counted(len(groups), 'group')}" for name, groups in recodes.items()),
    )
    with import_folder(out) as folder:
        folder.parquet("areas.parquet", spine.to_table())
        table = {
            spine.leaf_level.name: pa.array(spine.leaf_level.geocodes[origins].tolist(), pa.string()),
            request.attribute: pa.array([values[place] for place in destinations], pa.string()),
            "count": pa.array(counts),
        }
        folder.parquet("flows.parquet", pa.table(table), private=True)
        text = _spec_text(request, spine, values, recodes, made)
        parse_spec(text, f"{out / 'release.toml'} (not written)", folder.path)
        folder.text("release.toml", text)
    return Imported(out / "release.toml", (found, *made))


def _code_spine(request: FlowsRequest, file: RecordsFile) -> Spine:
    """The spine whose leaves are the codes that the flows have; the levels of the release are its upper ones."""
    names = list(request.levels)
    if isinstance(request.levels, Mapping):
        codes = _distinct_codes(request, file)
        lengths = dict(request.levels)
        longest = int(np.char.str_len(codes).max())
        if longest > lengths[names[-1]]:
            lengths[unused("code", names)] = longest
        return spine_from_prefixes(codes, lengths)
    assert request.areas is not None
    with_codes = request.geocode not in (None, names[-1])
    columns = [*names, *([str(request.geocode)] if with_codes else [])]
    listed = pa.table(dict(zip(columns, text_columns(request.areas, columns, _LIST), strict=True)))
    listed = listed.group_by(columns, use_threads=False).aggregate([])
    if with_codes and request.geocode in names:
        raise InputError(f"--geocode: {request.geocode!r} is a level above the lowest; it has to be below them")
    return spine_from_table(listed, columns)


def _from_one_area(spine: Spine) -> Spine:
    """The spine with one area at the top: there the flows that end in an area are counted together."""
    if len(spine.levels[0]) == 1:
        return spine
    name = unused("all", spine.level_names)
    table = spine.to_table()
    table = table.add_column(0, name, pa.array([name] * table.num_rows))
    return spine_from_table(table, [name, *spine.level_names])


def _distinct_codes(request: FlowsRequest, file: RecordsFile) -> NDArray[np.str_]:
    """The codes of the list, or of the flows, each once."""
    if request.areas is not None:
        column = request.geocode or list(request.levels)[-1]
        return np.unique(text_array(text_columns(request.areas, [column], _LIST)[0]))
    found = [
        np.unique(text_array(text_column(chunk.column(name), name)))
        for chunk in file.chunks()
        for name in (request.origin, request.destination)
    ]
    codes: NDArray[np.str_] = np.unique(np.concatenate(found))
    return codes[codes != ""]


def _read_flows(request: FlowsRequest, file: RecordsFile, codes: Spine, spine: Spine, level: int) -> Flows:
    """The flows by leaf of `spine` and area of its `level`; the destination behind the last is elsewhere.

    Raises:
        RecordsError: a row is wrong; all of them are in the message.
    """
    log = MistakeLog(request.file, file.find_lines)
    leaf = codes.leaf_ancestors(spine.n_levels - 1)
    target = spine.leaf_ancestors(level)[leaf]
    origins, destinations = (LeafReader(codes, name, request.file) for name in (request.origin, request.destination))
    n_targets = len(spine.levels[level]) + (request.elsewhere is not None)
    pairs, counts = np.zeros((2, 0), dtype=np.int64)
    first_row = 0
    for chunk in file.chunks():
        start, _ = origins.read(chunk.column(request.origin), first_row, log)
        end = _ends(request, destinations, chunk.column(request.destination), first_row, log)
        count = np.ones(chunk.num_rows, dtype=np.int64)
        if request.count is not None:
            count = CountReader(request.count).read(chunk.column(request.count), first_row, log)
        first_row += chunk.num_rows
        right = (start >= 0) & (end != MISSING) & (count > 0)
        if request.elsewhere is None:
            right &= end >= 0
        place = np.where(end >= 0, target[end], n_targets - 1)
        pairs = np.append(pairs, leaf[start[right]] * n_targets + place[right])
        pairs, index = np.unique(pairs, return_inverse=True)
        counts, added = np.zeros(pairs.size, dtype=np.int64), np.append(counts, count[right])
        np.add.at(counts, index, added)
    log.raise_if_any()
    return pairs // n_targets, pairs % n_targets, counts


def _ends(request: FlowsRequest, reader: LeafReader, column: pa.Array, first_row: int, log: MistakeLog) -> IntArray:
    """The code of each row's destination, `OUTSIDE` where it is elsewhere."""
    if request.elsewhere is None:
        return reader.read(column, first_row, log)[0]
    ends, _ = reader.read(column, first_row, MistakeLog(request.file))
    rows = first_row + np.flatnonzero(ends == MISSING) + 1
    log.add(f"column {request.destination!r}", "a missing geocode", rows, (), "a destination is needed in each row")
    return np.where(ends == MISSING, MISSING, np.where(ends >= 0, ends, OUTSIDE))


def _recodes(request: FlowsRequest, spine: Spine, level: int) -> dict[str, dict[str, list[str]]]:
    """A recode for each level above the destinations that divides them: its areas, and the destinations in each."""
    recodes: dict[str, dict[str, list[str]]] = {}
    values = spine.levels[level].geocodes
    above = np.arange(values.size)
    for number in range(level - 1, -1, -1):
        above = spine.levels[number + 1].parents[above]
        upper = spine.levels[number]
        if 1 < len(upper) < values.size:
            groups: dict[str, list[str]] = {str(code): [] for code in upper.geocodes}
            for value, place in zip(values.tolist(), above.tolist(), strict=True):
                groups[str(upper.geocodes[place])].append(value)
            if request.elsewhere is not None:
                groups[request.elsewhere] = [request.elsewhere]
            recodes[f"{request.attribute}_{upper.name}"] = groups
    return dict(reversed(recodes.items()))


def _ranged(groups: Mapping[str, Sequence[str]], values: Sequence[str]) -> list[str]:
    """The lines of a recode's groups: a range where its values stand together, as those of an area do."""
    place = {value: number for number, value in enumerate(values)}
    lines = []
    for label, members in groups.items():
        together = place[members[-1]] - place[members[0]] == len(members) - 1
        if len(members) > 2 and together:
            lines.append(f"{key(label)} = {quoted(f'{members[0]}..{members[-1]}')}")
        else:
            lines.append(listed(label, members))
    return lines


_HEAD = """
Flows between areas: {source}, written by `spinewise import flows`.
The spine is made of the areas where a flow begins; the attribute {attribute!r} is the {level} where it ends.
{decide}
"""
_DECIDE = "To be decided before it runs: whether the areas of the flows may be published, see [provenance]."
_RUNS = "It runs as it is."
_ACCEPT = """\
# An area in the list reveals that somebody lives or works there. Give a public list of all areas (--areas), or accept
# it:
# accept = ["geography", "schema"]
"""
_SPEC = """
$head

$name

# What a release costs, in privacy loss: decide it before you look at any result.
[privacy]
rho = "1"                                   # exact numbers are written in quotes
neighbours = "change-one"                   # protected: where one flow begins and ends
# dataset = "..."   the ledger's name for these records; then the run is charged to it

[geography]                                 # where flows begin
file = "areas.parquet"
$levels

[provenance]                                # where what is published without noise comes from
$accept
[provenance.inputs]
$inputs

[schema.attributes]                          # where flows end
$destinations

$recodes
$labels
# What is measured in every area of origin, and its share; adds up to 1. At the top level these are the numbers of flows
# that end in each area.
[strategy.queries]
$queries

[strategy.levels]                           # each level's share of the budget, top first; adds up to 1
$level_shares

[tables]                                    # what is published, besides the histograms; a query each
total = "total"
$tables

[input]
file = "flows.parquet"
form = "long"                               # a row for each pair of areas, with its count
$geocode
count = "count"

[postprocess]
passes = ["total"]                          # the total of each area is fixed first: sums of many small cells keep it
"""


def _spec_text(
    request: FlowsRequest,
    spine: Spine,
    values: Sequence[str],
    recodes: Mapping[str, Mapping[str, Sequence[str]]],
    messages: Sequence[str],
) -> str:
    source = {"source": "records", "from": f"{request.file.name}, by spinewise import"}
    if request.areas is not None:
        source = {"source": "public", "from": request.areas.name}
    decide = _DECIDE if request.areas is None else _RUNS
    head = _HEAD.format(source=request.file.name, attribute=request.attribute, level=request.level, decide=decide)
    name = request.name or request.file.name.split(".")[0]
    # Half for the flows between the smallest areas; the rest for the total and the recodes, evenly.
    each = (1 - _DETAIL_SHARE) / (1 + len(recodes))
    queries = {"total": each, **dict.fromkeys(recodes, each), "detailed": _DETAIL_SHARE}
    # Half for the lowest level; the rest for the others, evenly.
    *upper, lowest = spine.level_names
    levels = dict.fromkeys(upper, (1 - _LEAF_SHARE) / max(1, len(upper))) | {
        lowest: _LEAF_SHARE if upper else Fraction(1)
    }
    groups: list[str] = []
    for recode, members in recodes.items():
        section = f"schema.recodes.{key(recode)}"
        groups += [f"[{section}]", assigned("attribute", quoted(request.attribute)), ""]
        groups += [f"[{section}.groups]", *_ranged(members, values), ""]
    detail = assigned(request.attribute, quoted(request.attribute))
    if len(values) > _MOST_PUBLISHED:
        detail = f"# {detail}   a table with {len(values):,} columns"
    labels: list[str] = []
    if request.counted is not None:
        labels = ["[schema.labels]", assigned("records", quoted(request.counted), "what is counted"), ""]
    return filled(
        _SPEC,
        head=[commented(head), *(commented(f"- {line}") for line in messages)],
        name=[assigned("name", quoted(name.replace("_", "-")), "names the release's folder")],
        levels=[listed("levels", spine.level_names)],
        accept=[_ACCEPT if request.areas is None else ""],
        inputs=[table_inline(one, source) for one in ("geography", "schema")],
        destinations=[listed(request.attribute, values)],
        recodes=groups,
        labels=labels,
        queries=shares(queries),
        level_shares=shares(levels),
        tables=[*(assigned(recode, quoted(recode)) for recode in recodes), detail],
        geocode=[assigned("geocode", quoted(spine.leaf_level.name))],
    )

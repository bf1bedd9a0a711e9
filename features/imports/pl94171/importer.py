"""A P.L. 94-171 summary file -> a folder with its blocks, histograms, off-spine areas and a spec that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.imports.folder import ImportFolder, import_folder
from features.imports.pl94171 import histogram
from features.imports.pl94171.check import Mismatches, check_summary, mismatch_messages
from features.imports.pl94171.files import find_files
from features.imports.pl94171.layout import GEO_LEVELS
from features.imports.pl94171.read import SummaryFile, read_summary
from features.imports.pl94171.spec_text import spec_text
from geography.codes import counted
from pipeline.errors import InputError
from pipeline.storage.files import check_new

_MISMATCH_COLUMNS = ("level", "geocode", "rule", "found", "expected")


@dataclass(frozen=True)
class Imported:
    """What was written.

    Attributes:
        spec: the path of release.toml.
        messages: sentences for the user, without counts of single areas.
        mismatches: a line for each rule that does not hold somewhere; they show published counts.
    """

    spec: Path
    messages: tuple[str, ...]
    mismatches: tuple[str, ...]


def import_pl94171(path: Path, out: Path, *, strict: bool = False) -> Imported:
    """Read the summary file at `path`, check it, and write `out`.

    Args:
        path: a folder or zip with one state's files.
        out: a folder that is new or empty.
        strict: refuse every mismatch, not only those that leave the histogram undetermined.

    Raises:
        InputError: a file is not in its layout, tables of a block contradict each other, or `out` cannot be written;
            nothing is written then.
    """
    check_new(out)
    files = find_files(path)
    summary = read_summary(files)
    mismatches = check_summary(summary)
    fatal = [mismatch for mismatch in mismatches if strict or mismatch.fatal]
    if fatal:
        listing = "\n".join(f"  {line}" for line in mismatch_messages(summary, fatal))
        raise InputError(
            f"{path}: tables contradict each other"
            f"{'' if strict else ' in blocks, so that the persons cannot be told apart'}\n{listing}"
        )
    geocodes = histogram.block_geocodes(summary)
    states = np.unique(geocodes.astype("<U2"))
    if states.size > 1:
        raise InputError(f"{files.geo.place}: blocks of the states {', '.join(states)} are there; one state is needed")
    persons = histogram.persons_table(summary)
    with_quarters = "P5" in summary.tables
    with import_folder(out) as folder:
        folder.parquet("blocks.parquet", pa.table({"block": pa.array(np.sort(geocodes).tolist(), pa.string())}))
        folder.parquet("persons.parquet", persons, private=True)
        units = histogram.housing_units(summary)
        folder.parquet("units.parquet", histogram.long_table(geocodes, units, ("status",)), private=True)
        if with_quarters:
            table = histogram.long_table(geocodes, histogram.quarters(summary), ("quarters",))
            folder.parquet("quarters.parquet", table, private=True)
        named, names = histogram.names(summary)
        if named:
            folder.parquet("names.parquet", names)
        areas = histogram.off_spine(summary)
        folder.parquet("off_spine.parquet", areas)
        _write_mismatches(folder, summary, mismatches)
        text = spec_text(
            state=files.state,
            state_code=str(states[0]),
            year=files.year,
            n_blocks=geocodes.size,
            with_quarters=with_quarters,
            named=named,
        )
        folder.text("release.toml", text)
    listed = Counter(kind for kind, _ in set(zip(areas["kind"].to_pylist(), areas["code"].to_pylist(), strict=True)))
    contents = (
        f"{geocodes.size:,} blocks, {pc.sum(persons['count']).as_py():,} persons, {int(units.sum()):,} housing units"
    )
    if with_quarters:
        contents += f", {int(histogram.quarters(summary).sum()):,} persons in group quarters"
    lines = [contents]
    if not with_quarters and files.geo.layout == "pipes":
        name = f"{files.state}00003{files.year}.pl"
        lines.append(f"segment 3 ({name}) is not there: persons in group quarters by type (table P5) are not imported")
    off = f"off the spine: {counted(listed['place'], 'place')}, {counted(listed['aian'], 'American Indian area')}"
    return Imported(out / "release.toml", (*lines, off), tuple(mismatch_messages(summary, mismatches)))


def _write_mismatches(folder: ImportFolder, summary: SummaryFile, mismatches: Sequence[Mismatches]) -> None:
    """mismatches.csv: a row for each area and rule; its header alone where there is none."""

    def lines() -> Iterator[str]:
        yield ",".join(_MISMATCH_COLUMNS)
        for mismatch in mismatches:
            name = GEO_LEVELS[mismatch.level].name
            for row, actual, expected in zip(mismatch.rows, mismatch.actual, mismatch.expected, strict=True):
                yield f"{name},{summary.geocode[row]},{mismatch.rule},{actual},{expected}"

    folder.text("mismatches.csv", "".join(f"{line}\n" for line in lines()), private=True)

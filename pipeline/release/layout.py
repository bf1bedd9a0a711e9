"""Where everything is in a run's directory; names only, nothing is read or written here.

    <root>/public/      what may be published; manifest.json lists every file of it but its signature
    <root>/restricted/  what may not: the key, true counts, the log, checkpoints, files being written

The main universe's files stand directly in the two; those of a companion in `companions/<name>/` of each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.errors import InputError
from pipeline.storage.paths import Readable, unchecked

_SAFE_NAME = re.compile(r"[\w][\w.+-]*", re.UNICODE)
#: Public files of an answer to a question: its manifest, the numbers as they were drawn, and with intervals.
ANSWER_FILES: Final = ("answer.json", "measurements.csv", "answer.csv")
#: Bytes; with a suffix and what marks a file being written, it stays below the 255 of common file systems.
_LONGEST_NAME = 200


def file_name(kind: str, name: str) -> str:
    """`name` if it can safely name a file or folder.

    Raises:
        InputError: it cannot; the message names what is called so (`kind`).
    """
    if len(name.encode(errors="replace")) > _LONGEST_NAME or name.endswith(".") or not _SAFE_NAME.fullmatch(name):
        raise InputError(
            f"{kind} {name!r} is to name a file of the release and cannot: allowed are letters, digits "
            f"and _ (up to {_LONGEST_NAME} bytes), and after the first also . + and -, but no . at the end"
        )
    return name


def query_file_name(query: str) -> str:
    """The file name of a query: "votingage * hispanic" -> "votingage.hispanic"; its terms are identifiers."""
    return file_name("query", ".".join(term.strip() for term in query.split("*")))


@dataclass(frozen=True)
class UniverseDirectory:
    """The files of one universe: persons, or a companion such as housing units.

    Attributes:
        public: folder of what is published of it.
        restricted: folder of what is not.
    """

    public: Path
    restricted: Path

    @property
    def microdata(self) -> Path:
        """Microdata detail file: leaf geocode and attributes, one row a person."""
        return self.public / "microdata.parquet"

    def histogram(self, level: str) -> Path:
        """Released histogram in long form, nonzero cells only."""
        return self.public / "histograms" / f"{file_name('level', level)}.parquet"

    def table(self, table: str, level: str) -> Path:
        """Released table, one row a geounit, one column a count, with its margin of error where there is one."""
        return self.public / "tables" / file_name("table", table) / f"{file_name('level', level)}.parquet"

    def measurement(self, level: str, query: str) -> Path:
        """Noisy answers of a query at a level."""
        return self.public / "measurements" / file_name("level", level) / f"{query_file_name(query)}.parquet"

    def positive(self, level: str, query: str) -> Path:
        """Noisy answers of a query at a level, of those that are positive in the released parent."""
        return self.public / "positive" / file_name("level", level) / f"{query_file_name(query)}.parquet"

    def invariant(self, level: str, query: str) -> Path:
        """Exact answers of a query that is held invariant at a level; same form as a measurement, variance 0."""
        return self.public / "invariants" / file_name("level", level) / f"{query_file_name(query)}.parquet"

    def constraint(self, number: int) -> Path:
        """Public counts of facilities of the spec's bound `number` (from 0): geocode, a column for each answer."""
        return self.public / "constraints" / f"bound-{number + 1}.parquet"

    def estimates(self, level: str) -> Path:
        """Unbiased real-valued estimates with their variances."""
        return self.public / "estimates" / f"{file_name('level', level)}.parquet"

    def draws(self, table: str, level: str) -> Path:
        """Joint draws of what a table's numbers may truly be, one row for each draw and geounit."""
        return self.public / "draws" / file_name("table", table) / f"{file_name('level', level)}.parquet"

    def true_histogram(self, level: str) -> Readable:
        """Confidential histogram, same form as the released one; no manifest lists it."""
        return unchecked(self.restricted / "histograms" / f"{file_name('level', level)}.parquet")

    def selected(self, name: str, level: str) -> Path:
        """Noisy answers of the version that each geounit of a level has chosen."""
        return self.public / "selected" / file_name("selection", name) / f"{file_name('level', level)}.parquet"

    def counted_reports(self, what: str) -> Readable:
        """What is counted of randomised reports, before it is published: "totals", "numbers", or "beside"."""
        suffix = "json" if what == "beside" else "parquet"
        return unchecked(self.restricted / "reports" / f"{what}.{suffix}")

    @property
    def checkpoints(self) -> Path:
        """Folder of intermediate results, from which a run that was stopped resumes."""
        return self.restricted / "checkpoints"


class _Place:
    """Where every run has a file or folder: its path below the directory."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, run: RunDirectory, _: type[RunDirectory]) -> Path:
        return run.root.joinpath(*self._parts)


@dataclass(frozen=True)
class RunDirectory:
    """Every path of one run.

    Attributes:
        root: the run's directory, `<out>/<release>`.
    """

    root: Path

    #: Everything that is published.
    public = _Place("public")
    #: Everything that is confidential, for its owner only.
    restricted = _Place("restricted")
    #: The manifest, which is written last.
    manifest = _Place("public", "manifest.json")
    #: The agency's signature of the manifest, beside it; the one public file that the manifest does not list.
    signature = _Place("public", "manifest.sig")
    #: The manifest of an answer to a question, which has no other.
    answer_manifest = _Place("public", ANSWER_FILES[0])
    #: The agency's signature of an answer.
    answer_signature = _Place("public", "answer.sig")
    #: The spine, one row a leaf, one column a level.
    spine = _Place("public", "spine.parquet")
    #: Of a release that uses the counts of another beside reports: which one that is.
    central = _Place("public", "central.json")
    #: Of a release from randomised reports: how many were used and not, and why.
    reports = _Place("public", "reports.json")
    #: Of a version made with answers: which numbers are others than in the version that it replaces.
    changes = _Place("public", "changes.json")
    #: The report for readers, one page.
    report = _Place("public", "report.html")
    #: What the columns of the published files are, as a Data Package.
    package = _Place("public", "datapackage.json")
    #: The master key, mode 0600.
    key = _Place("restricted", "key")
    #: The commitment of a key that was here and was destroyed.
    key_destroyed = _Place("restricted", "key-destroyed.json")
    #: The [input] sections of the spec, by which a rerun reads the records again.
    input = _Place("restricted", "input.json")
    #: What this run is: its identity, and the input's fingerprint once there is one.
    record = _Place("restricted", "run.json")
    #: Of a run that is finished: what it was made from, sealed, by which the same run is recognised.
    finished = _Place("restricted", "finished.json")
    #: The file that is locked while a run works in the directory.
    lock = _Place("restricted", "lock")
    #: Files being written, before they are moved into place.
    staging = _Place("restricted", "staging")
    #: The log of all runs in the directory.
    log = _Place("restricted", "run.log")
    #: Why the records were refused, where that may show what is in them.
    refusal = _Place("restricted", "refused.txt")
    #: What the measurements do not determine; public, kept here for the end of the run.
    remarks = _Place("restricted", "remarks.txt")
    #: What is odd about the records or the constraints, and did not stop the run.
    warnings = _Place("restricted", "warnings.txt")
    #: Comparison of the release with the true counts.
    accuracy = _Place("restricted", "accuracy.json")
    #: The comparison with the truth, as a page.
    accuracy_page = _Place("restricted", "accuracy.html")
    #: How fit the release is for its uses, by the true counts.
    fitness = _Place("restricted", "fitness.json")
    #: The judgement of fitness, as a page.
    fitness_page = _Place("restricted", "fitness.html")

    @property
    def main(self) -> UniverseDirectory:
        """The release's own universe."""
        return UniverseDirectory(self.public, self.restricted)

    def universe(self, name: str) -> UniverseDirectory:
        """The universe of that name; "" is the main one, everything else a companion."""
        if not name:
            return self.main
        folder = file_name("companion", name)
        return UniverseDirectory(self.public / "companions" / folder, self.restricted / "companions" / folder)

    @property
    def is_answer(self) -> bool:
        """Whether an answer is here, and no release."""
        return self.answer_manifest.is_file()

    @property
    def unlisted(self) -> tuple[Path, Path]:
        """Public files that the manifest does not list."""
        return self.manifest, self.signature

    def name_of(self, path: Path) -> str:
        """The path of a public file below public/, with slashes."""
        return path.relative_to(self.public).as_posix()

    def names(self, level: str) -> Path:
        """Names of the geounits of a level, in each language."""
        return self.public / "names" / f"{file_name('level', level)}.parquet"

    def polygons(self, level: str) -> Path:
        """Polygons of the geounits of a level, for the maps of the report."""
        return self.public / "polygons" / f"{file_name('level', level)}.geojson"

    def answer(self, name: str) -> Path:
        """Folder of an answer that a version of a release was made with, its public files as they were published."""
        return self.public / "answers" / file_name("answer", name)

    def before(self, path: Path) -> Path:
        """A public file as the version had it that this one replaces, so far as that is kept: manifest and tables."""
        return self.public / "replaced" / path.relative_to(self.public)

    def report_file(self, number: int) -> Path:
        """A part of the report's data that is too large for its page, which loads it as a script."""
        return self.public / "report" / f"{number}.js"

    def report_files(self) -> tuple[Path, ...]:
        """Those that are there; none where all of them fit."""
        return tuple(sorted((self.public / "report").glob("[0-9]*.js")))

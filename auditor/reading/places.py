"""Where the files of a release are, as docs/release_directory.md has it; nothing is read here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from auditor.reading.errors import FormError

_SAFE_NAME: Final = re.compile(r"[\w][\w.+-]*", re.UNICODE)
#: Bytes.
_LONGEST_NAME: Final = 200


def file_name(kind: str, name: str) -> str:
    """`name` if it can name a file or folder of a release; FormError, which says what is called so, if it cannot."""
    if len(name.encode(errors="replace")) > _LONGEST_NAME or name.endswith(".") or not _SAFE_NAME.fullmatch(name):
        raise FormError(
            f"{kind} {name!r} is to name a file of the release and cannot: allowed are letters, digits "
            f"and _ (up to {_LONGEST_NAME} bytes), and after the first also . + and -, but no . at the end"
        )
    return name


def query_name(query: str) -> str:
    """How the file of a query is called."""
    return file_name("query", ".".join(term.strip() for term in query.split("*")))


def _level(folder: Path, level: str) -> Path:
    return folder / f"{file_name('level', level)}.parquet"


@dataclass(frozen=True)
class UniversePlaces:
    """Files of one universe, in its folder below public/ or restricted/."""

    folder: Path

    @property
    def microdata(self) -> Path:
        """One row a record."""
        return self.folder / "microdata.parquet"

    def histogram(self, level: str) -> Path:
        """Counts of cells, of those that are not 0."""
        return _level(self.folder / "histograms", level)

    def table(self, table: str, level: str) -> Path:
        """One row a geounit."""
        return _level(self.folder / "tables" / file_name("table", table), level)

    def cumulative(self, table: str, level: str) -> Path:
        """Cumulative numbers of a table, one row a geounit."""
        return _level(self.folder / "cumulative" / file_name("table", table), level)

    def measurement(self, level: str, query: str) -> Path:
        """Noisy answers."""
        return self.folder / "measurements" / file_name("level", level) / f"{query_name(query)}.parquet"

    def positive(self, level: str, query: str) -> Path:
        """Noisy answers where the released area above is positive."""
        return self.folder / "positive" / file_name("level", level) / f"{query_name(query)}.parquet"

    def invariant(self, level: str, query: str) -> Path:
        """Exact answers."""
        return self.folder / "invariants" / file_name("level", level) / f"{query_name(query)}.parquet"

    def selected(self, choice: str, level: str) -> Path:
        """Noisy answers of the version that each geounit has chosen."""
        return _level(self.folder / "selected" / file_name("selection", choice), level)

    def constraint(self, number: int) -> Path:
        """Facilities of the bound `number`, from 0."""
        return self.folder / "constraints" / f"bound-{number + 1}.parquet"

    def shares(self, name: str) -> Path:
        """Public numbers by which answers are shared."""
        return self.folder / "shares" / f"{file_name('shares', name)}.parquet"


@dataclass(frozen=True)
class Places:
    """Files of a release in the directory `root`."""

    root: Path

    @property
    def public(self) -> Path:
        """What everybody may see."""
        return self.root / "public"

    @property
    def restricted(self) -> Path:
        """What only the agency may see."""
        return self.root / "restricted"

    @property
    def manifest(self) -> Path:
        """What a release states of itself."""
        return self.public / "manifest.json"

    @property
    def spine(self) -> Path:
        """One row a leaf, one column a level."""
        return self.public / "spine.parquet"

    def universe(self, name: str, *, secret: bool = False) -> UniversePlaces:
        """What is published of a universe, "" for the release's own; or, below restricted/, its true counts."""
        folder = self.restricted if secret else self.public
        return UniversePlaces(folder / "companions" / file_name("companion", name) if name else folder)

    def names(self, level: str) -> Path:
        """Names of the geounits of a level."""
        return _level(self.public / "names", level)

    def household_sizes(self, companion: str, level: str) -> Path:
        """Average sizes of the households of a companion."""
        return _level(self.public / "household_sizes" / file_name("companion", companion), level)

    def means(self, companion: str, table: str, level: str) -> Path:
        """Sums and means of a companion of an amount."""
        return _level(self.public / "amounts" / file_name("companion", companion) / file_name("table", table), level)

    def household_table(self, table: str, level: str) -> Path:
        """Persons by what their households are."""
        return _level(self.public / "household_tables" / file_name("table", table), level)

    def answer(self, name: str) -> Path:
        """Folder of an answer that a version was made with."""
        return self.public / "answers" / file_name("answer", name)

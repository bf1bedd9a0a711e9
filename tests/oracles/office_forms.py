"""Tables as statistical offices publish them: one population in the forms of their download pages, with the truth.

Written from what the offices' files look like. Each form says how it is read (`stated`), and which people are then in
which cell (`truth`), or that nothing can be stated by which it is read (`stops`), and what the sentence has to name.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

N_REGIONS: Final = 4
PER_REGION: Final = 6
N_AREAS: Final = N_REGIONS * PER_REGION
AGES: Final = ((0, 14), (15, 29), (30, 44), (45, 64), (65, None))

Counts = NDArray[np.int64]
Row = Sequence[object]


def population(seed: int = 2021) -> Counts:
    """`(24 areas, 2 sexes, 5 ages)` persons; men first. Sums of any two values of an attribute differ."""
    random = np.random.default_rng(seed)
    size = np.sort(random.lognormal(9.6, 1.1, N_AREAS))[::-1]
    random.shuffle(size)
    shares = random.dirichlet(np.full(10, 12.0), N_AREAS).reshape(N_AREAS, 2, 5)
    return np.maximum(np.rint(size[:, None, None] * shares), 3).astype(np.int64)


PEOPLE: Final = population()
REGION: Final = np.repeat(np.arange(N_REGIONS), PER_REGION)


@dataclass(frozen=True)
class Truth:
    """What a file says.

    Attributes:
        codes: of the areas, as the file has them.
        counts: `(n_areas, values of each axis)`.
        axes: the values' words, for each axis.
        regions: whether the file has the regions above.
        names: of the areas, where the file has both.
    """

    codes: tuple[str, ...]
    counts: Counts
    axes: tuple[tuple[str, ...], ...] = ()
    regions: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """A file and what has to come of it as it is stated.

    Attributes:
        file: its name.
        content: the file.
        stated: how it is to be read, by the options' names.
        truth: what is right; None where it has to stop.
        stops: a pattern that the sentence has, if it has to stop.
        name: the office and its form, that of the function which makes it.
    """

    file: str
    content: bytes
    stated: Mapping[str, Any]
    truth: Truth | None = None
    stops: str = ""
    name: str = ""


def stated(geography: str, *, only: str | None = None, **more: Any) -> Mapping[str, Any]:
    """A statement, by the options' names."""
    return {"geography": geography, "only": () if only is None else (only,), **more}


@dataclass
class Forms:
    """All forms, by name."""

    made: dict[str, Callable[[], Form]] = field(default_factory=dict)

    def __call__(self, make: Callable[[], Form]) -> Callable[[], Form]:
        name = make.__name__.strip("_")

        @wraps(make)
        def named() -> Form:
            return replace(make(), name=name)

        self.made[name] = named
        return make


form = Forms()


# --- what files are made of ----------------------------------------------------------------------------------------


def delimited(
    rows: Iterable[Row], separator: str = ",", *, quote: str = "minimal", encoding: str = "utf-8", end: str = "\n"
) -> bytes:
    """A text file; `quote` is minimal, texts or all."""

    def cell(value: object) -> str:
        text = "" if value is None else str(value)
        needs = separator in text or '"' in text or "\n" in text
        if needs or quote == "all" or (quote == "texts" and isinstance(value, str)):
            return '"' + text.replace('"', '""') + '"'
        return text

    return "".join(separator.join(map(cell, row)) + end for row in rows).encode(encoding)


def row(text: str) -> list[object]:
    """Cells that are separated by bars here."""
    return list(text.split("|"))


@dataclass(frozen=True)
class Places:
    """Areas of a country: 4 regions of 6."""

    nation: tuple[str, str]
    regions: tuple[tuple[str, str], ...]
    areas: tuple[tuple[str, str], ...]

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(code for code, _ in self.areas)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.areas)

    def __iter__(self) -> Iterator[tuple[tuple[str, str], tuple[str, str], Counts]]:
        """Region, area and its people."""
        for i, area in enumerate(self.areas):
            yield self.regions[REGION[i]], area, PEOPLE[i]

    def nested(
        self, *, nation: bool = True, regions: bool = True, areas: bool = True
    ) -> Iterator[tuple[int, tuple[str, str], Counts]]:
        """(depth, place, people) of the nation, each region and its areas behind it."""
        if nation:
            yield 0, self.nation, PEOPLE.sum(0)
        for r, region in enumerate(self.regions):
            if regions:
                yield 1, region, PEOPLE[r == REGION].sum(0)
            if areas:
                for i in np.flatnonzero(r == REGION):
                    yield 2, self.areas[i], PEOPLE[i]


def places(
    nation: tuple[str, str], regions: Sequence[tuple[str, str]], names: str, code: Callable[[int, int], str]
) -> Places:
    """Areas by their names, in the order of the regions; `code` of the region's and the area's number in it."""
    named = [name.strip() for name in names.split(",")]
    assert len(named) == N_AREAS, len(named)
    codes = [code(i // PER_REGION, i % PER_REGION) for i in range(N_AREAS)]
    return Places(nation, tuple(regions), tuple(zip(codes, named, strict=True)))


Label = tuple[str, str]


def crossed(
    people: Counts,
    sexes: Sequence[Label],
    ages: Sequence[Label],
    sex_total: Label | None = None,
    age_total: Label | None = None,
    *,
    total_first: bool = True,
) -> Iterator[tuple[Label, Label, int]]:
    """(sex, age, persons) of one place, with totals if they have a label."""
    s = [(label, people[k : k + 1]) for k, label in enumerate(sexes)]
    if sex_total:
        s.insert(0 if total_first else len(s), (sex_total, people))
    for sex, part in s:
        a = [(label, int(part[:, k].sum())) for k, label in enumerate(ages)]
        if age_total:
            a.insert(0 if total_first else len(a), (age_total, int(part.sum())))
        for age, n in a:
            yield sex, age, n


def whole(
    where: Places,
    sexes: Sequence[str],
    ages: Sequence[str],
    *,
    regions: bool = False,
    codes: Sequence[str] | None = None,
) -> Truth:
    """The truth of a file of areas by sex and age."""
    return Truth(tuple(codes or where.codes), PEOPLE, (tuple(sexes), tuple(ages)), regions, where.names)


def by_sex(where: Places, sexes: Sequence[str], *, regions: bool = False, codes: Sequence[str] | None = None) -> Truth:
    return Truth(tuple(codes or where.codes), PEOPLE.sum(2), (tuple(sexes),), regions, where.names)


def by_age(where: Places, ages: Sequence[str], *, regions: bool = False, codes: Sequence[str] | None = None) -> Truth:
    return Truth(tuple(codes or where.codes), PEOPLE.sum(1), (tuple(ages),), regions, where.names)


def only_total(where: Places, *, regions: bool = False, codes: Sequence[str] | None = None) -> Truth:
    return Truth(tuple(codes or where.codes), PEOPLE.sum((1, 2))[:, None], ((),), regions, where.names)


def grouped(number: int, mark: str) -> str:
    return f"{number:,}".replace(",", mark)


def same(labels: Iterable[str]) -> list[Label]:
    return [(label, label) for label in labels]


def workbook(
    sheets: dict[str, Sequence[Row]],
    *,
    merge: Sequence[str] = (),
    indent: dict[str, int] | None = None,
    formats: dict[str, str] | None = None,
) -> bytes:
    """An .xlsx; `merge` and `indent` of the first sheet."""
    import openpyxl
    from openpyxl.styles import Alignment

    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    first = book.worksheets[0]
    for span in merge:
        first.merge_cells(span)
    for cell, depth in (indent or {}).items():
        first[cell].alignment = Alignment(indent=depth)
    for cell, number_format in (formats or {}).items():
        first[cell].number_format = number_format
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()

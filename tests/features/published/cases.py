"""Small tables that an office protected, each number by itself, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matrix.case import Case, Refusal
from numpy.typing import NDArray
from releases.protected_tables import FILES, TABLES, of_level, truth, write_suppressed, write_tables

from pipeline.disclosure.method import DisclosureMethod
from pipeline.disclosure.rounding import RandomRounding
from pipeline.reading.release import open_release, reader_of


def _nearer_and_whole(folder: Path) -> None:
    """What is exact is kept, all adds up, and the numbers are nearer to the truth than those that were published."""
    release = reader_of(open_release(folder / "out" / "mended"))
    blocks = release.histogram("block").toarray()
    assert blocks.min() >= 0
    of_published: list[NDArray[np.float64]] = []
    estimated: list[NDArray[np.float64]] = []
    for level, name in FILES.items():
        codes, true = of_level(truth(), level)
        counts = release.histogram(level).toarray()
        assert (counts == of_level(blocks, level)[1]).all()
        shown = pd.read_csv(folder / name, dtype={"geocode": str}).set_index("geocode").loc[codes]
        for table, (labels, member) in TABLES.items():
            if (level, table) == ("county", "all"):
                assert (counts @ member == true @ member).all()
            elif (level, table) != ("tract", "people"):
                of_published.append(np.abs(shown[[f"{table}.{one}" for one in labels]].to_numpy() - true @ member))
                estimated.append(np.abs((counts - true) @ member))
    errors = [float(np.concatenate([one.ravel() for one in part]).mean()) for part in (of_published, estimated)]
    assert errors[1] < 0.85 * errors[0]


def _within_proven_ranges(folder: Path) -> None:
    """What was published is kept to the digit, and each interval holds the truth; most suppressed numbers are known."""
    release = folder / "out" / "mended" / "public" / "tables"
    hidden, known = 0, 0
    for level, name in FILES.items():
        codes, true = of_level(truth(3), level)
        shown = pd.read_csv(folder / name, dtype=str).set_index("geocode").loc[codes]
        for table, (labels, member) in TABLES.items():
            if (level, table) == ("tract", "people"):
                continue
            found = pd.read_parquet(release / table / f"{level}.parquet").set_index("geocode").loc[codes]
            for label, counts in zip(labels, (true @ member).T, strict=True):
                published, estimate = shown[f"{table}.{label}"], found[label].to_numpy()
                exact = (published != "x").to_numpy()
                assert (estimate[exact] == published[exact].astype(int)).all()
                least, most = (found[f"{label}:{end}90"].to_numpy() for end in ("low", "high"))
                assert ((least <= counts) & (counts <= most)).all()
                assert ((least <= estimate) & (estimate <= most)).all()
                assert (least[~exact] >= 1).all()
                assert (most[~exact] <= 4).all()
                hidden += int((~exact).sum())
                known += int((least == most)[~exact].sum())
    assert 0.3 * hidden < known < hidden


CASES: Sequence[Case] = (
    Case(
        "mended",
        write_tables,
        (("--quiet", "run", "mended.toml", "--out", "out", "--workers", "1"),),
        ("out/mended",),
        _nearer_and_whole,
        without={"second program": "others published its numbers"},
    ),
    Case(
        "suppressed",
        write_suppressed,
        (("--quiet", "run", "mended.toml", "--out", "out", "--workers", "1"),),
        ("out/mended",),
        _within_proven_ranges,
        without={"second program": "others published its numbers"},
    ),
)


def _file(level: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        frame = pd.read_csv(folder / FILES[level], dtype={"geocode": str}).sort_values("geocode")
        change(frame).to_csv(folder / FILES[level], index=False)

    return changed


def _put(column: str, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.astype({column: object}).assign(**{column: [value, *frame[column].tolist()[1:]]})


def _another(method: DisclosureMethod, seed: int = 3) -> Callable[[Path], None]:
    return lambda folder: write_tables(folder, method, truth(150, seed))


def _another_year(folder: Path) -> None:
    """The blocks' file is that of other counts."""
    (folder / "later").mkdir()
    write_tables(folder, counts=truth(40))
    write_tables(folder / "later", counts=truth(40, 4))
    (folder / "later" / "blocks.csv").replace(folder / "blocks.csv")


_NAME: Final = "mended"
_HIDDEN: Final = "suppressed"
REFUSALS: Sequence[Refusal] = (
    Refusal(_NAME, _file("block", _put("sexes.f", 7)), ("published.files.block", "found 7", "random rounding to mult")),
    Refusal(_NAME, _file("block", _put("sexes.f", "5.5")), ("published.files.block", "'5.5'", "allowed are whole")),
    Refusal(_NAME, _file("block", _put("sexes.f", "")), ("published.files.block", "a missing", "allowed are whole")),
    Refusal(_NAME, _file("tract", lambda f: f.iloc[1:]), ("published.files.tract", "have no row: 'A1'")),
    Refusal(_NAME, _file("tract", lambda f: pd.concat([f, f[:1]])), ("published.files.tract", "several rows: 'A1'")),
    Refusal(_NAME, _file("block", lambda f: f.assign(extra=0)), ("published.files.block", "found the columns 'extra'")),
    Refusal(_NAME, _file("block", lambda f: f.drop(columns="all.total")), ("published.files.block", "all.total")),
    Refusal(_NAME, _file("county", _put("all.total", -1)), ("published.files.county", "found -1", "exact counts")),
    Refusal(_NAME, ('"tracts.csv"', '"blocks.csv"'), ("published.files.tract", "blocks.csv")),
    Refusal(_NAME, ("base = 5", "base = 3"), ("published.files", "random rounding to multiples of 3 gives none")),
    Refusal(_NAME, ("base = 5\n", ""), ("published.method", "needs base", "found none")),
    Refusal(_NAME, ("base = 5", 'sd = "2"'), ("published.method", "needs base", "found sd")),
    Refusal(_NAME, ('["county.all"]', '["state.all"]'), ("published.exact", "'state.all'", "tables: people")),
    Refusal(_NAME, ('["tract.people"]', "[]"), ("published.files.tract", "people.child * f")),
    Refusal(
        _NAME, ('tract = "tracts', 'region = "tracts'), ("published.files.region", "'region'", "county, tract, block")
    ),
    Refusal(_NAME, ("[published]", '[privacy]\nrho = "1"\n\n[published]'), ("privacy", "no records and no promise")),
    Refusal(
        _NAME, _another(RandomRounding(10)), ("published", "no counts can have been", "protected otherwise than stated")
    ),
    Refusal(
        _HIDDEN, ('mark = "x"\n', ""), ("published.files", "a count that is not a number", "found 'x'", "or nothing")
    ),
    Refusal(_HIDDEN, _file("block", _put("people.old * f", -1)), ("published.files.block", "negative", "or 'x'")),
    Refusal(_HIDDEN, _file("block", _put("people.old * f", 3)), ("published.files.block", "found 3", "from 1 to 4")),
    Refusal(
        _HIDDEN, _file("block", _put("people.old * f", 60)), ("published", "no counts can have been published", "'A'")
    ),
    Refusal(_HIDDEN, ("under = 5", "under = 2"), ("published.under", "2", "3")),
    Refusal(
        _HIDDEN,
        ("[published]", '[published]\nother = { block = { method = "rounding", base = 3 } }'),
        ("published.other", "found suppression beside", "has to be suppressed"),
    ),
    Refusal(_NAME, _file("block", _put("sexes.f", "x")), ("published.files.block", "'x'", "allowed are whole")),
    Refusal(_NAME, _another_year, ("published", "no counts can have been published", "two dates or areas")),
)

"""Which files a release has, derived from its public spec; the manifest's own list is no authority on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from auditor.check.ratios import averages
from auditor.reading.files import Places, file_name, sha256
from auditor.reading.spec import PublicSpec, PublicUniverse
from auditor.reading.values import Stated

#: Of every release, the last one if it is signed.
_OF_ALL: Final = ("spine.parquet", "manifest.json", "datapackage.json", "report.html", "manifest.sig")
_OF_ANSWERS: Final = ("answer.json", "answer.csv", "measurements.csv")
#: What is too large for the report's page: how many such files there are, only who makes it again knows.
_REPORT: Final = re.compile("public/report/(0|[1-9][0-9]{0,5})[.]js", re.ASCII)


def strange_files(root: Path, manifest: Stated, spec: PublicSpec) -> list[Path]:
    """What is in public/ and is no file of a release of this spec, whatever its type.

    Args:
        root: the folder with public/ in it.
        manifest: of the release. Of its list only draws that others published are believed, since the section that
            names these may be unknown here; each is compared with its file (`draws.draw_problems`).
        spec: its spec, as it was read.
    """
    stated, places = manifest["spec"], Places(Path())
    received = () if stated["privacy"] else [one for one in manifest["draws"] if one["mechanism"] == "received"]
    due = set(_files(stated, spec, places))
    due |= {places.answers("", "measurements", one["level"], one["query"]) for one in received}
    found = [path.relative_to(root) for path in (root / "public").rglob("*") if path.is_symlink() or not path.is_dir()]
    return [root / path for path in sorted(found) if path not in due and not _REPORT.fullmatch(path.as_posix())]


def changed_files(public: Path, listed: Stated) -> Iterator[str]:
    """A sentence for each file whose hash or size is not what the manifest lists; itself and its signature are not."""
    for path in sorted(public.rglob("*")):
        name = path.relative_to(public).as_posix()
        if path.is_dir() or name.startswith("manifest."):
            continue
        if name not in listed:
            yield f"public/{name} is not listed"
        elif listed[name] != {"bytes": path.stat().st_size, "sha256": sha256(path)}:
            yield f"public/{name} is not the file that is listed"


def _files(stated: Stated, spec: PublicSpec, places: Places) -> Iterator[Path]:
    """All files that a release may have."""
    public, central = places.public, (stated.get("collect") or {}).get("central")
    yield from (public / name for name in _OF_ALL)
    yield from (places.of("", "names", level) for level in spec.names)
    yield from (public / "polygons" / f"{file_name('level', one)}.geojson" for one, _ in stated["report"]["polygons"])
    yield from (places.of("", "shares", share) for share in spec.shares)
    tables = [
        places.of(of.name, "tables", one, level) for of in spec.universes for one, _, on, _ in of.tables for level in on
    ]
    yield from tables
    if stated.get("collect"):
        yield public / "reports.json"
    if central is not None:
        yield public / "central.json"
    levels = [level for level, _ in (central or {}).get("levels", ())]
    for universe, sections in zip(spec.universes, (stated, *(own for _, own in stated["companions"])), strict=True):
        yield from _computed(universe, spec, stated["publish"], places)
        yield from _measured(universe, sections, levels, places)
    for crossed in spec.household_tables:
        yield from (places.of("", "household_tables", crossed.name, level) for level in crossed.levels)
    if (update := stated.get("update")) is not None:
        yield public / "changes.json"
        yield from (public / "replaced" / path.relative_to(public) for path in (*tables, places.manifest))
        for answer in update["answers"]:
            yield places.answers("", "measurements", answer["level"], answer["name"])
            yield from (public / "answers" / file_name("answer", answer["name"]) / name for name in _OF_ANSWERS)


def _computed(universe: PublicUniverse, spec: PublicSpec, publish: Stated, places: Places) -> Iterator[Path]:
    """What follows from the measurements of a universe, beside its tables."""
    name = universe.name
    tabulated = {level for table in universe.tables for level in table.levels}
    for level in spec.levels:
        yield places.of(name, "histograms", level)
        if publish["unbiased"] and level in tabulated:
            yield places.of(name, "estimates", level)
        if name in spec.joined and averages(spec, name, level) is not None:
            yield places.of("", "household_sizes", name, level)
    for table, _, levels, cumulated in universe.tables:
        for level in levels:
            if publish["draws"]:
                yield places.of(name, "draws", table, level)
            if cumulated:
                yield places.of(name, "cumulative", table, level)
            if universe.amount is not None:
                yield places.of("", "amounts", name, table, level)
    if spec.microdata and universe.amount is None and not (name and spec.marginals):
        yield places.of(name, "microdata")


def _measured(universe: PublicUniverse, sections: Stated, copied: Sequence[str], places: Places) -> Iterator[Path]:
    """What is drawn of a universe, known exactly, or copied of some levels from another release."""
    name = universe.name
    yield from (places.answers(name, "invariants", level, query.name) for level, query in universe.invariants)
    yield from (places.of(name, "constraints", f"bound-{number}") for number, _ in enumerate(universe.bounds, 1))
    yield from (places.of(name, "selected", choice, own["level"]) for choice, own in sections.get("select", ()))
    for level, _, queries in universe.levels:
        for query, _, where_positive in queries:
            kind = "positive" if where_positive else "measurements"
            yield from (places.answers(name, kind, at, query.name) for at in (level, *copied))

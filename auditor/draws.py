"""What is drawn of the records, derived from the public spec and the spine, and compared with what a manifest lists.

Here each kind has its derivation: measurements, also where geounits without siblings are bypassed or only answers are
drawn that are positive in the area above; private choices of detail, and the noise on what they chose; the choice of
cliques. A section of a spec that is not known here is said to be not judged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from auditor.cliques import Drawn
from auditor.files import header_and_variances, read_measured
from auditor.form import Universe, read_form
from auditor.reading.cells import Query
from auditor.reading.files import Places
from auditor.reading.findings import FormError, exact, understood
from auditor.reading.spec import public_spec
from auditor.reading.spine import Level
from auditor.reading.values import IntArray, Stated, exact_sum, zeros

#: Keys of a spec of which draws and relations are derived, or on which neither depends; of it, of a companion, of the
#: budget, of a level and of a measured query.
_UNIVERSE: Final = {
    "bounds", "invariants", "records_per_person", "schema", "select", "strategy", "structural_zeros", "tables",
}  # fmt: skip
_KNOWN: Final = {
    "spec": _UNIVERSE | {
        "collect", "companions", "geography", "household_tables", "join", "marginals", "name", "postprocess", "privacy",
        "provenance", "publish", "purpose", "questions", "report", "series", "update",
    },
    "companion": _UNIVERSE | {
        "amount", "between", "chosen", "count_clipped", "ends", "missing", "passes", "privacy", "unit",
    },
    "privacy": {"at_most", "dataset", "delta", "epsilon", "framework", "neighbours", "population", "rho", "unit"},
    "strategy": {"derived_from", "levels", "preset"},
    "level": {"queries", "share"},
    "query": {"share", "where"},
}  # fmt: skip
#: What draws are told apart by.
_NAMES: Final = ("universe", "level", "query")


@dataclass(frozen=True, eq=False)
class Due:
    """A measurement that the spec calls for.

    Attributes:
        scales: `(kinds,)` sigma^2 or b of each kind of geounit; the first is that of the level.
        kind: `(n_geounits,)` which of them each geounit has, -1 where it is not measured.
        where_positive: whether answers are drawn only where that of the released area above is positive.
    """

    universe: Universe
    level: Level
    query: Query
    path: Path
    scales: tuple[Fraction, ...]
    kind: IntArray
    where_positive: bool

    @property
    def name(self) -> str:
        """Universe, level and query."""
        return " ".join(part for part in (self.universe.name, self.level.name, self.query.name) if part)


def measurements_of(universe: Universe, spine: Sequence[Level], places: Places) -> Iterator[Due]:
    """The measurements of a universe, top level first."""
    shares, folder = [share for _, share, _ in universe.levels], places.universe(universe.name)
    positive = {(level, query.name) for level, query in universe.positive}
    bits = _paid(spine, shares) if universe.bypass else [np.full(len(one.codes), 1 << n) for n, one in enumerate(spine)]
    for level, paid, (name, own, queries) in zip(spine, bits, universe.levels, strict=True):
        taken, of_geounit = np.unique(paid, return_inverse=True)
        given = [exact_sum(s for n, s in enumerate(shares) if one >> n & 1) for one in taken.tolist()]
        amounts = [own, *sorted({share for share in given if share not in (0, own)})]
        kinds = [amounts.index(share) if share else -1 for share in given]
        kind = np.array(kinds, dtype=np.int64)[of_geounit.reshape(-1)]
        for query, part in queries:
            scales = tuple(universe.scale(universe.rest * amount * part) for amount in amounts)
            where_positive = (name, query.name) in positive
            path = folder.answers("positive" if where_positive else "measurements", name, query.name)
            yield Due(universe, level, query, path, scales, kind, where_positive)


def _paid(spine: Sequence[Level], shares: Sequence[Fraction]) -> list[IntArray]:
    """Of each geounit, as bits, the levels whose shares its measurement gets; 0 where another stands for it.

    An only child hands what it would get to its parent, if that is measured or hands on as well.
    """
    paid = [zeros(len(level.codes)) for level in spine]
    at = row = zeros(0)
    for number, level in enumerate(spine):
        here = np.arange(len(level.codes))
        alone = (np.bincount(level.parents)[level.parents] == 1) if number else np.zeros(len(here), dtype=np.bool_)
        at, row = (np.where(alone, one[level.parents], -1) if number else np.full(len(here), -1) for one in (at, row))
        if shares[number]:
            at, row = np.where(at < 0, number, at), np.where(at < 0, here, row)
            for above in range(number + 1):
                paid[above][row[at == above]] |= 1 << number
    return paid


def measured_of(universe: Universe) -> Iterator[Drawn]:
    """All that is drawn when a universe is measured, where no geounit stands for others."""
    for level, query, part in universe.measured:
        scale = universe.scale(universe.rest * part)
        yield Drawn(level, query.name, universe.kept(query), universe.mechanism, scale)
    for one in universe.choices:
        yield Drawn(one.level, f"select {one.name}", frozenset(), "exponential", one.epsilon)
        kept = universe.kept(one.versions[-1])
        yield Drawn(one.level, f"selected {one.name}", kept, universe.mechanism, one.scale)


def drawn_of(universe: Universe) -> list[Drawn]:
    """The same after what was drawn before, at the top."""
    return [*(() if universe.cliques is None else universe.cliques.drawn()), *measured_of(universe)]


def listed(spec: Stated, spine: Sequence[Level], places: Places) -> list[dict[str, Any]]:
    """All that is drawn, as a manifest lists it; nothing where senders of reports drew the noise, or where others did.

    Raises:
        FormError: the spec cannot be understood.
    """
    universes = () if spec["privacy"].get("framework") in (None, "local") else read_form(spec).universes
    return [entry for universe in universes for entry in _entries(universe, spine, places)]


def _entries(universe: Universe, spine: Sequence[Level], places: Places) -> Iterator[dict[str, Any]]:
    dues = {(due.level.name, due.query.name): due for due in measurements_of(universe, spine, places)}
    choices = {f"{verb} {one.name}": one for one in universe.choices for verb in ("select", "selected")}
    for one in drawn_of(universe):
        entry = {
            "universe": universe.name, "level": one.level, "query": one.query, "file": "", "mechanism": one.mechanism,
            "scales": [str(one.scale)], "kinds": "", "where_positive": False, "weights": [], "versions": [],
        }  # fmt: skip
        path = None
        if (due := dues.get((one.level, one.query))) is not None:
            path = due.path
            entry |= {"scales": [*map(str, due.scales)], "where_positive": due.where_positive}
            entry["weights"] = list(universe.row)
            if due.kind.any():
                entry["kinds"] = hashlib.sha256(due.kind.astype("<i8").tobytes()).hexdigest()
        elif (choice := choices.get(one.query)) is not None:
            path = places.universe(universe.name).selected(choice.name, choice.level)
            names = (query.name for query in choice.versions)
            entry["versions"] = [list(version) for version in zip(names, choice.thresholds, strict=True)]
        yield entry | ({} if path is None else {"file": path.relative_to(places.public).as_posix()})


def draw_problems(manifest: Stated, spine: Sequence[Level], places: Places) -> Iterator[str]:
    """Draws that the manifest lacks, has beyond the spec, or states otherwise, text by text; and what is not judged.

    Raises:
        FormError: the spec cannot be understood, or there is no list.
    """
    stated = manifest.get("draws")
    if not isinstance(stated, list) or not all(isinstance(one, dict) for one in stated):
        raise FormError("public/manifest.json: has no list of draws")
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in stated:
        name = tuple(str(one.get(key)) for key in _NAMES)
        if name in found:
            yield f"public/manifest.json: lists the draw of {_said(one)} twice"
        found[name] = one
    with understood("public/manifest.json: its spec"):
        required, unknown = listed(manifest["spec"], spine, places), list(_unknown_sections(manifest["spec"]))
    for due in required:
        if (one := found.pop(tuple(due[key] for key in _NAMES), None)) is None:
            yield f"public/manifest.json: lacks the draw of {_said(due)}, for which the spec calls"
        elif wrong := [key for key in sorted(due.keys() | one.keys()) if _text(due, key) != _text(one, key)]:
            is_, has = (", ".join(f"{key} = {_text(of, key)}" for key in wrong) for of in (due, one))
            yield f"public/manifest.json: lists the draw of {_said(due)} with {has}; the spec gives {is_}"
    for one in found.values():
        if one.get("mechanism") == "received" and not manifest["spec"]["privacy"]:
            yield from _received_problems(manifest["spec"], one, spine, places)
        else:
            yield f"public/manifest.json: lists the draw of {_said(one)}, for which the spec does not call"
    yield from unknown


def _received_problems(spec: Stated, draw: Stated, spine: Sequence[Level], places: Places) -> Iterator[str]:
    """What is wrong with a file of numbers that others published; a section that is not known says which these are."""
    with understood("public/manifest.json: its draws"):
        level, (scale,) = next(one for one in spine if one.name == draw["level"]), draw["scales"]
        query = public_spec(spec).universes[0].cells.query(draw["query"])
        path = places.universe("").answers("measurements", level.name, query.name)
        required = {
            "kind": "measurement", "level": level.name, "query": query.name, "size": query.size,
            "mechanism": "received", "scale": scale, "variance": float(exact(scale)),
        }  # fmt: skip
        header, variances = header_and_variances(path)
        codes, _ = read_measured(path)
    name = path.relative_to(places.public).as_posix()
    if (draw["file"], header) != (name, required) or set(variances.tolist()) != {required["variance"]}:
        yield f"public/manifest.json: lists the draw of {_said(draw)} otherwise than public/{name} states it"
    if codes != list(level.texts):
        yield f"public/{name}: has not the areas of level {level.name!r}"


def _text(draw: Stated, key: str) -> str:
    return json.dumps(draw[key]) if key in draw else "nothing"


def _said(draw: Stated) -> str:
    """A draw as sentences name it."""
    file = f" (public/{draw['file']})" if draw.get("file") else ""
    return f"{draw.get('query')!r:.80} at level {draw.get('level')!r:.80}{file:.200}"


def _unknown_sections(spec: Stated) -> Iterator[str]:
    """Keys of the spec that this program does not know: what follows from them is not judged."""
    for name, content in (("", spec), *spec["companions"]):
        at = f"companions.{name}." if name else ""
        yield from _unknown(content, "companion" if name else "spec", at)
        yield from _unknown(content["privacy"], "privacy", f"{at}privacy.")
        yield from _unknown(content["strategy"], "strategy", f"{at}strategy.")
        for level, stated in content["strategy"]["levels"]:
            yield from _unknown(stated, "level", f"{at}strategy.levels.{level}.")
            for query, own in stated.get("queries", ()):
                if isinstance(own, dict):
                    yield from _unknown(own, "query", f"{at}strategy.levels.{level}.queries.{query}.")


def _unknown(content: Stated, place: str, at: str) -> Iterator[str]:
    for key in sorted(content.keys() - _KNOWN[place]):
        yield f"public/manifest.json: its spec has {f'{at}{key}'!r:.120}, which is not known here: it is not judged"

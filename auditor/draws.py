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
import pyarrow as pa

from auditor.accounting import Use
from auditor.cliques import CliqueChoice
from auditor.files import header_of_answers, header_problems, read_measured
from auditor.form import Universe, read_form
from auditor.reading.cells import Query
from auditor.reading.files import Places
from auditor.reading.findings import FormError, exact, understood
from auditor.reading.received import received
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
        "provenance", "publish", "published", "purpose", "questions", "report", "series", "update",
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
class Draw:
    """A stream of noise, or of choices, for which the spec calls.

    Attributes:
        universe, level, query: which by name.
        attributes: that it depends on.
        scales: `(kinds,)` sigma^2 or b of each kind of geounit, the first of which is that of the level; of a choice
            its epsilon.
        weight: of a choice whose losses are weighted, how far a number that moves by one moves one; else 0.
        path: of what is published of it, in the directory of the release; None where nothing is.
        versions: of a choice of detail, or of what it chose: query and least population of each.
    """

    universe: str
    level: str
    query: str
    attributes: frozenset[str]
    mechanism: str
    scales: tuple[Fraction, ...]
    weight: int = 0
    path: Path | None = None
    versions: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """Universe, level and query."""
        return " ".join(part for part in (self.universe, self.level, self.query) if part)

    def seen(self, moved: int) -> Use:
        """Mechanism, scale and how many numbers move by one, in an account of a change that moves so many."""
        scale = self.scales[0]
        return (self.mechanism, scale * self.weight * moved, 1) if self.weight else (self.mechanism, scale, moved)

    def entry(self) -> dict[str, Any]:
        """As a manifest lists it."""
        return {
            "universe": self.universe, "level": self.level, "query": self.query,
            "file": "" if self.path is None else self.path.relative_to("public").as_posix(),
            "mechanism": self.mechanism, "scales": [*map(str, self.scales)], "kinds": "", "where_positive": False,
            "weights": [], "versions": [*map(list, self.versions)],
        }  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Due(Draw):
    """A measurement.

    Attributes:
        of: its universe.
        path: of its file, in the directory of the release.
        answers: that are measured; `geounits`: of which.
        kind: `(n_geounits,)` which of the scales each geounit has, -1 where it is not measured.
        where_positive: whether answers are drawn only where that of the released area above is positive.
    """

    of: Universe
    path: Path
    answers: Query
    geounits: Level
    kind: IntArray
    where_positive: bool

    def entry(self) -> dict[str, Any]:
        """The same with what is a measurement's alone."""
        kinds = hashlib.sha256(self.kind.astype("<i8").tobytes()).hexdigest() if self.kind.any() else ""
        own = {"kinds": kinds, "where_positive": self.where_positive, "weights": [*self.of.series.row]}
        return super().entry() | own


#: In place of a spine, where it does not matter what geounits there are: one at each level.
_ANY: Final = Level("", pa.array([""]), zeros(1) - 1)


def draws_of(universe: Universe, spine: Sequence[Level] = ()) -> Iterator[Draw]:
    """All that is drawn of a universe, cliques first; without a spine as if no geounit stood for others."""
    if (choice := universe.cliques) is not None:
        yield from clique_draws(choice)
    yield from measured_of(universe, spine)


def clique_draws(choice: CliqueChoice) -> Iterator[Draw]:
    """What is drawn to choose cliques, at the top."""
    mechanism, scale = choice.of_attributes
    for name in choice.names:
        yield Draw("", choice.top, f"attribute {name}", frozenset({name}), mechanism, (scale,))
    seen = frozenset(choice.names[a] for pair in choice.possible for a in pair)
    for number in range(choice.rounds):
        query = f"pair {number + 1} of {choice.rounds}"
        yield Draw("", choice.top, query, seen, "exponential", (choice.scale,), choice.largest_weight)


def measured_of(universe: Universe, spine: Sequence[Level] = ()) -> Iterator[Draw]:
    """The measurements of a universe, top level first, and its private choices of detail with what they chose."""
    shares, places = [share for _, share, _ in universe.levels], Places(Path())
    geounits = spine or [_ANY] * len(shares)
    own_share = [np.full(len(one.codes), 1 << n) for n, one in enumerate(geounits)]
    bits = _paid(spine, shares) if universe.bypass and spine else own_share
    for level, paid, (name, own, queries) in zip(geounits, bits, universe.levels, strict=True):
        taken, of_geounit = np.unique(paid, return_inverse=True)
        given = [exact_sum(s for n, s in enumerate(shares) if one >> n & 1) for one in taken.tolist()]
        amounts = [own, *sorted({share for share in given if share not in (0, own)})]
        kinds = [amounts.index(share) if share else -1 for share in given]
        for query, part, where_positive in queries:
            yield Due(
                universe.name, name, query.name, universe.kept(query), universe.mechanism,
                tuple(universe.scale(universe.rest * amount * part) for amount in amounts),
                path=places.answers(universe.name, "positive" if where_positive else "measurements", name, query.name),
                of=universe, answers=query, geounits=level, where_positive=where_positive,
                kind=np.array(kinds, dtype=np.int64)[of_geounit.reshape(-1)],
            )  # fmt: skip
    for one in universe.choices:
        path, last = places.of(universe.name, "selected", one.name, one.level), one.versions[-1]
        versions = tuple(zip((query.name for query in one.versions), one.thresholds, strict=True))
        for verb, kept, mechanism, scale in (
            ("select", frozenset[str](), "exponential", one.epsilon),
            ("selected", universe.kept(last), universe.mechanism, one.scale),
        ):
            yield Draw(universe.name, one.level, f"{verb} {one.name}", kept, mechanism, (scale,), 0, path, versions)


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


def listed(spec: Stated, spine: Sequence[Level]) -> list[dict[str, Any]]:
    """All that is drawn, or was by others, as a manifest lists it; nothing where senders of reports drew the noise.

    Raises:
        FormError: the spec cannot be understood.
    """
    if spec.get("published"):
        return [draw.entry() for draw in _published(spec)]
    universes = () if spec["privacy"].get("framework") in (None, "local") else read_form(spec).universes
    return [draw.entry() for universe in universes for draw in draws_of(universe, spine)]


def _published(spec: Stated) -> Iterator[Draw]:
    """The tables that others protected and published."""
    form, places = public_spec(spec), Places(Path())
    for level, stated, variance in received(spec, form.levels):
        if variance is not None:
            name = form.universes[0].cells.query(stated).name
            path = places.answers("", "measurements", level, name)
            yield Draw("", level, name, frozenset(), "received", (variance,), path=path)


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
        required, unknown = listed(manifest["spec"], spine), list(_unknown_sections(manifest["spec"]))
    for due in required:
        if (one := found.pop(tuple(due[key] for key in _NAMES), None)) is None:
            yield f"public/manifest.json: lacks the draw of {_said(due)}, for which the spec calls"
        elif wrong := [key for key in sorted(due.keys() | one.keys()) if _text(due, key) != _text(one, key)]:
            is_, has = (", ".join(f"{key} = {_text(of, key)}" for key in wrong) for of in (due, one))
            yield f"public/manifest.json: lists the draw of {_said(due)} with {has}; the spec gives {is_}"
    for one in found.values():
        if one.get("mechanism") != "received" or manifest["spec"]["privacy"] or manifest["spec"].get("published"):
            yield f"public/manifest.json: lists the draw of {_said(one)}, for which the spec does not call"
    for one in stated:
        if one.get("mechanism") == "received" and not manifest["spec"]["privacy"]:
            yield from _received_problems(manifest["spec"], one, spine, places)
    yield from unknown


def _received_problems(spec: Stated, draw: Stated, spine: Sequence[Level], places: Places) -> Iterator[str]:
    """What is wrong with a file of numbers that others published; what is not known may say which."""
    with understood("public/manifest.json: its draws"):
        level, (scale,) = next(one for one in spine if one.name == draw["level"]), draw["scales"]
        query = public_spec(spec).universes[0].cells.query(draw["query"])
        path = places.answers("", "measurements", level.name, query.name)
        name, required = (
            path.relative_to(places.public).as_posix(),
            header_of_answers(level.name, query.name, query.size, "received"),
        )
        if draw["file"] != name or any(header_problems(path, required, {scale: float(exact(scale))})):
            yield f"public/manifest.json: lists the draw of {_said(draw)} otherwise than public/{name} states it"
        if read_measured(path)[0] != list(level.texts):
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

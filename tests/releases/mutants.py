"""Faults planted in the program or in a release, each one that would break a promise, and what catches it.

`PLANTED` is the table of docs/testplan.md; `test_mutations` plants each, and holds the table true.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pipeline.confidential.measure
import pipeline.model.selection
import pipeline.model.universe
import pipeline.privacy.accounting.statements
import pipeline.privacy.accounting.uses
import pipeline.privacy.ledger.charge
import pipeline.privacy.noise.sampler
import pipeline.privacy.noise.select
from auditor.contents import canonical
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.accounting.pld import pld_epsilon
from pipeline.privacy.accounting.uses import choices_of, measurements_of
from pipeline.privacy.budget import NoiseSpec, noise_for
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip
from pipeline.privacy.noise.sampler import Sampler, boundaries, sampler_for
from pipeline.privacy.noise.select import Select
from pipeline.runs.run import ReleaseRun
from releases.amount_mutants import AMOUNTS
from releases.answer_mutants import ANSWERS
from releases.joined_mutants import JOINED
from releases.mutant import Edit, Mutant, Patch, Plant, attribute, mutant, resealed, rewritten
from releases.positive_mutants import POSITIVES
from releases.reading_mutants import READINGS
from releases.tested_mutants import TESTED, TESTED_SLOWLY


def _draw(change: Callable[[Sampler, bytes, int, int, Any], Any]) -> Plant:
    """Sampler.draw with what it gives changed; the sound draw is handed in."""
    sound = Sampler.draw

    def plant(patch: Patch) -> None:
        patch.setattr(Sampler, "draw", lambda self, key, start, count: change(self, key, start, count, sound))

    return plant


def _doubled_flips(patch: Patch) -> None:
    sound = PermuteAndFlip.draw
    patch.setattr(PermuteAndFlip, "draw", lambda own, key, losses, start=0: sound(own, key, 2 * losses, start))


def _smaller(part: int) -> Plant:
    def smaller(sampler: Sampler, key: bytes, start: int, count: int, sound: Any) -> Any:
        return sound(sampler_for(NoiseSpec(sampler.spec.mechanism, sampler.spec.scale / part)), key, start, count)

    return _draw(smaller)


def _floats(sampler: Sampler, key: bytes, start: int, count: int, sound: Any) -> Any:  # noqa: ARG001
    rng = np.random.default_rng([start, *key])
    return np.rint(rng.normal(0, float(sampler.spec.scale) ** 0.5, count)).astype(np.int64)


def _cut(sigmas: float, *, upper_only: bool = False) -> Plant:
    def cut(sampler: Sampler, key: bytes, start: int, count: int, sound: Any) -> Any:
        most = int(sigmas * sampler.spec.variance**0.5)
        return np.clip(sound(sampler, key, start, count), None if upper_only else -most, most)

    return _draw(cut)


def _cut_at_word(sampler: Sampler, key: bytes, start: int, count: int, sound: Any) -> Any:
    """The upper tail is cut where its probability is 2^-16."""
    most = int(np.searchsorted(sampler.boundaries, np.uint64(2**64 - 2**48)) - sampler.boundaries.size // 2)
    return np.minimum(sound(sampler, key, start, count), most)


def _noise_for(change: Callable[..., NoiseSpec]) -> Plant:
    """The program computes its scales otherwise, wherever it does."""

    def plant(patch: Patch) -> None:
        sound = noise_for
        for module in (pipeline.model.universe, pipeline.model.selection):
            patch.setattr(module, "noise_for", lambda *arguments: change(sound, *arguments))

    return plant


def _halved(sound: Any, *arguments: Any) -> NoiseSpec:
    noise = sound(*arguments)
    return NoiseSpec(noise.mechanism, noise.scale / 2)


def _stream(change: Callable[..., bytes]) -> Plant:
    sound = MasterKey.stream_key
    return attribute(MasterKey, "stream_key", lambda self, *place: change(sound, self, *place))


def _restarted(patch: Patch) -> None:
    patch.setattr(pipeline.confidential.measure, "ANSWERS_AT_ONCE", 24)
    _draw(lambda sampler, key, start, count, sound: sound(sampler, key, 0 * start, count))(patch)


def _doubled_choice(patch: Patch) -> None:
    """A choice is charged for a sensitivity of 1 where neighbours move two losses."""
    for module in (pipeline.privacy.noise.select, pipeline.model.selection):
        patch.setattr(module, "MOVED", {"change-one": 1, "add-remove": 1})


def _sixteen_bits(patch: Patch) -> None:
    def generate(cls: type[MasterKey]) -> MasterKey:
        import secrets

        return cls(hashlib.sha256(secrets.token_bytes(2)).digest())

    patch.setattr(MasterKey, "generate", classmethod(generate))


def _shifted_boundary(patch: Patch) -> None:
    sound = boundaries

    def shifted(spec: NoiseSpec) -> np.ndarray:
        table = sound(spec).copy()
        table[-1] -= np.uint64(1 << 20)
        return table

    patch.setattr(pipeline.privacy.noise.sampler, "boundaries", shifted)
    sampler_for.cache_clear()


def _charge_late(patch: Patch) -> None:
    charge, measure = ReleaseRun.charge, ReleaseRun.measure

    def late(self: ReleaseRun) -> None:
        measure(self)
        charge(self)

    patch.setattr(ReleaseRun, "charge", lambda self: None)  # noqa: ARG005
    patch.setattr(ReleaseRun, "measure", late)


def _cheap(patch: Patch) -> None:
    def cheaper(universe: Any) -> Any:
        first, *rest = measurements_of(universe)
        return (replace(first, use=type(first.use)(first.use.scale * 2)), *rest)

    patch.setattr(pipeline.privacy.ledger.charge, "measurements_of", cheaper)


def _free_level(patch: Patch) -> None:
    kept = lambda universe: tuple(m for m in measurements_of(universe) if m.level != "county")  # noqa: E731
    patch.setattr(pipeline.privacy.ledger.charge, "measurements_of", kept)


def _without(query: str) -> Plant:
    """A selection of versions is charged without one of its two uses: the choice, or what is measured of the chosen."""
    kept = lambda universe: tuple(m for m in choices_of(universe) if not m.query.startswith(query))  # noqa: E731
    return attribute(pipeline.privacy.ledger.charge, "choices_of", kept)


def _more_invariants(patch: Patch) -> None:
    measure = pipeline.confidential.measure.measure_level

    def more(job: Any, key: Any, fingerprint: str, universe: Any, level: str) -> None:
        total = next(one.query for one in universe.strategy.level("block").queries if one.query.name == "total")
        measure(job, key, fingerprint, replace(universe, invariants=(*universe.invariants, ("block", total))), level)

    patch.setattr("pipeline.confidential.parts.measure_level", more)


def people(root: Path) -> int:
    """The true number of persons, which is confidential where it is no invariant."""
    return sum(pq.read_table(root / "restricted" / "histograms" / "block.parquet").column("count").to_pylist())


def _in_notes(root: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        notes = next(iter(content["solver"].values()))
        notes["families"] = people(root)
        notes["by_solver"] = {"batched": people(root)}

    resealed(root, change)


def _in_account(root: Path) -> None:
    resealed(root, lambda content: content["accounts"][0]["comparison"].update(basic=f"{people(root)}.0000"))


def _in_words(root: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["privacy"][0]["words"] += f" There are {people(root)} records."

    resealed(root, change)


def _in_version(root: Path) -> None:
    resealed(root, lambda content: content["software"]["packages"].update(numpy=f"2.4.6+{people(root)}"))


def _in_header(root: Path) -> None:
    def change(table: Any) -> Any:
        header = json.loads(table.schema.metadata[b"spinewise"])
        return table.replace_schema_metadata({b"spinewise": canonical({**header, "persons": people(root)})})

    rewritten(root, "measurements/block/total.parquet", change)


def _in_field(root: Path) -> None:
    def change(table: Any) -> Any:
        field = table.schema.field("variance").with_metadata({"unit": str(people(root))})
        return table.cast(table.schema.set(table.schema.get_field_index("variance"), field))

    rewritten(root, "measurements/block/total.parquet", change)


def _in_created_by(root: Path) -> None:
    """In the footer of a Parquet file, where it says which program wrote it."""
    path = root / "public" / "measurements" / "block" / "total.parquet"
    data = path.read_bytes()
    old = b"parquet-cpp-arrow version"
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, f"parquet-cpp-arrow{people(root):08d}".encode()))
    resealed(root)


def _table(root: Path) -> None:
    """The table of the counties' races is true."""
    truth = pq.read_table(root / "restricted" / "histograms" / "county.parquet").to_pandas()
    counts = truth.astype({"geocode": str, "race": str}).groupby(["geocode", "race"])["count"].sum()

    def change(table: pa.Table) -> pa.Table:
        for race in "abc":
            right = [int(counts.get((code, race), 0)) for code in table.column("geocode").to_pylist()]
            place = table.column_names.index(race)
            table = table.set_column(place, table.schema.field(place), pa.array(right, pa.int64()))
        return table

    rewritten(root, "tables/race/county.parquet", change)


def _plain_hash(patch: Patch) -> None:
    patch.setattr(MasterKey, "keyed_hash", lambda self, label, data: hashlib.sha256(data).hexdigest())  # noqa: ARG005


def _unbound(patch: Patch) -> None:
    patch.setattr(MasterKey, "keyed_hash", lambda self, label, data: "0123456789abcdef" * 4)  # noqa: ARG005


def _lower_zcdp(patch: Patch) -> None:
    sound = zcdp_epsilon
    lower = lambda rho, delta: 0.9 * sound(rho, delta)  # noqa: E731
    patch.setattr(pipeline.privacy.accounting.statements, "zcdp_epsilon", lower)


def _lower_losses(patch: Patch) -> None:
    sound = pld_epsilon
    lower = lambda uses, delta: None if (e := sound(uses, delta)) is None else 0.95 * e  # noqa: E731
    patch.setattr(pipeline.privacy.accounting.statements, "pld_epsilon", lower)


def _one_move(patch: Patch) -> None:
    """What is learnt of an attribute is stated as if another value moved one answer."""
    patch.setattr(pipeline.privacy.accounting.statements, "_MOVES", 1)


def _children_apart(root: Path) -> None:
    """A person is in a county and in none of its blocks."""

    def change(table: pa.Table) -> pa.Table:
        counts = table.column("count").to_pylist()
        counts[0] += 1
        place = table.column_names.index("count")
        return table.set_column(place, table.schema.field(place), pa.array(counts, pa.int64()))

    rewritten(root, "histograms/county.parquet", change)


def _true_status(root: Path) -> None:
    """A run with a public key says that it is official."""
    resealed(root, lambda content: content.update(status="official"))


def _older_ledger(root: Path) -> None:
    """The ledger is put back to before the run."""
    ledger = root.parent / "ledger.db"
    shutil.copy(root.parent / "ledger-before.db", ledger)


def _stated_scale(root: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        entry = content["privacy"][0]["noise"][0]
        entry["scale"] = str(Fraction(entry["scale"]) * 2)
        entry["scale_decimal"] = str(Decimal(entry["scale_decimal"]) * 2)

    resealed(root, change)


def _stated(change: Callable[[dict[str, Any]], object]) -> Edit:
    """The manifest says something else."""
    return lambda root: resealed(root, change)


def _further_file(root: Path) -> None:
    """A level was measured once more, and the manifest says so."""
    folder = root / "public" / "measurements" / "block"
    shutil.copy(folder / "total.parquet", folder / "again.parquet")
    resealed(root, lambda content: content["files"].update({"measurements/block/again.parquet": {}}))


PLANTED: tuple[Mutant, ...] = (
    mutant("a quarter of the variance is drawn", "sa", plant=_smaller(4)),
    mutant("a hundredth of the variance is drawn under an honest list", "sa", plant=_smaller(100)),
    mutant("a sensitivity of 1 for 2, in every scale and statement", "s", plant=_noise_for(_halved)),
    mutant("noise of rounded floats", "s", plant=_draw(_floats)),
    mutant("a measurement without noise", "sa", plant=_draw(lambda s, k, a, n, sound: 0 * sound(s, k, a, n))),
    mutant("tails cut at 3 sigma", "i", plant=_cut(3), on="installed"),
    mutant("the upper tail cut at 2^-16", "i", plant=_draw(_cut_at_word), on="installed"),
    mutant("the last boundary of the sampler's table moved by 2^-44", "i", plant=_shifted_boundary, on="installed"),
    mutant("one stream for all queries of a level", "sa",
           plant=_stream(lambda f, s, c, level, _: f(s, c, level, "all"))),
    mutant("one stream for all levels", "s", plant=_stream(lambda f, s, c, _, query: f(s, c, "all", query))),
    mutant("streams that do not depend on the records", "s", plant=_stream(lambda f, s, c, *at: f(s, c[1:], *at))),
    mutant("a stream that begins again with every batch", "sa", plant=_restarted),
    mutant("fingerprints that do not depend on the records", "s", plant=_unbound),
    mutant("a plain hash of the records for a keyed one", "s", plant=_plain_hash),
    mutant("a master key of 16 bits", "s", plant=_sixteen_bits, on="ledger"),
    mutant("new keys of 16 bits", "i", plant=_sixteen_bits, on="installed"),
    mutant("permute-and-flip with coins of twice the epsilon", "i", plant=_doubled_flips, on="installed"),
    mutant("a choice charged for a sensitivity of 1", "s", plant=_doubled_choice),
    mutant("a choice of the best version, without noise", "s",
           plant=attribute(Select, "choose", lambda self, _key, people, _start=0: self.losses(people).argmin(axis=1))),
    mutant("the true total among the solvers' notes", "sv", edit=_in_notes),
    mutant("the true total in a figure of the account", "v", edit=_in_account),
    mutant("the true total in the words of a statement", "sv", edit=_in_words),
    mutant("the true total in the version of a package", "sv", edit=_in_version),
    mutant("the true total in the header of a Parquet file", "sv", edit=_in_header),
    mutant("the true total in the metadata of a column", "s", edit=_in_field),
    mutant("the true total in the name of a file's writer", "s", edit=_in_created_by),
    mutant("a true table", "vc", edit=_table),
    mutant("an invariant that the spec does not have", "svc", plant=_more_invariants),
    mutant("a test key under the status official", "sv", edit=_true_status),
    mutant("epsilon of rho 10 % too small", "s", plant=_lower_zcdp),
    mutant("epsilon of the losses 5 % too small", "s", plant=_lower_losses),
    mutant("an attribute that is said to move one answer", "s", plant=_one_move),
    mutant("a scale in the manifest that was not drawn with", "sv", edit=_stated_scale),
    mutant("a draw that the manifest leaves out", "sv", edit=_stated(lambda m: m["privacy"][0]["noise"].pop())),
    mutant("a measured file that no spec gives", "sv", edit=_further_file),
    mutant("a spec that was altered afterwards", "sv", edit=_stated(lambda m: m["spec"]["privacy"].update(rho="1/7"))),
    mutant("a section of the manifest that nobody knows", "v", edit=_stated(lambda m: m.update(men={"A": 80}))),
    mutant("a section of the spec that nobody knows", "v", edit=_stated(lambda m: m["spec"].update(men={"A": 80}))),
    mutant("sums outside of the ends that the spec states", "sc", on="amounts", edit=_stated(
        lambda m: dict(m["spec"]["companions"])["wages"].update(between=["0", "300"]))),
    mutant("a county that is not the sum of its blocks", "vc", edit=_children_apart),
    mutant("a charge after drawing", "i", plant=_charge_late, on="installed"),
    mutant("a query charged at half its price", "sv", plant=_cheap, on="ledger"),
    mutant("a level that is not charged", "sv", plant=_free_level, on="ledger"),
    mutant("a choice that is not charged", "s", plant=_without("select "), on="ledger"),
    mutant("numbers of what was chosen that are not charged", "s", plant=_without("selected "), on="ledger"),
    mutant("a ledger that forgets", "s", edit=_older_ledger, on="ledger"),
)  # fmt: skip
PLANTED += JOINED + AMOUNTS + ANSWERS + POSITIVES + READINGS + TESTED + TESTED_SLOWLY
